"""Which operators can be measured, on what operands, and their workspaces."""

import itertools

import pytest
import torch

from encamp.errors import CostError
from encamp.tracer import stopwatch
from encamp.tracer.calls import OpCost
from encamp.tracer.meter import best_meter
from encamp.tracer.operands import duplicate, materialise
from encamp.tracer.profile import MeasuredCosts
from encamp.tracer.stopwatch import Effort, Sample, fresh_bytes, measure_call
from fakes import call, fake, indices

aten = torch.ops.aten
QUICK = Effort(min_runs=2, max_runs=3, enough_ns=10**6, limit_ns=10**7)


@pytest.fixture
def source(tmp_path):
    """Return a quick cost source with a cache of its own."""
    return MeasuredCosts("cpu", tmp_path, effort=QUICK)


def convolution():
    """Return a 3 x 3 convolution's call."""
    image, kernel = fake(4, 16, 32, 32), fake(32, 16, 3, 3)
    padded = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    return call(aten.convolution.default, image, kernel, None, *padded)


def convolution_backward():
    """Return its backward's call."""
    image, kernel, grad = fake(4, 16, 32, 32), fake(32, 16, 3, 3), fake(4, 32, 32, 32)
    padded = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, False])
    return call(aten.convolution_backward.default, grad, image, kernel, [0], *padded)


def attention():
    """Return the call of the CPU's flash attention."""
    q = fake(2, 4, 128, 32)
    flash = aten._scaled_dot_product_flash_attention_for_cpu.default
    return call(flash, q, q, q, 0.0, True)


def attention_backward():
    """Return its backward's call."""
    q, lse = fake(2, 4, 128, 32), fake(2, 4, 128)
    flash = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
    return call(flash, q, q, q, q, q, lse, 0.0, True)


@pytest.mark.parametrize(
    "make", [convolution, convolution_backward, attention, attention_backward]
)
def test_kernels_with_scratch_memory_have_a_workspace(source, make):
    """Convolutions and attention allocate beside their outputs."""
    (cost,) = source.costs([make()])

    assert cost.workspace_bytes > 0


def test_a_product_has_no_workspace(source):
    """A matrix product in float32 allocates its output and nothing else."""
    costs = source.costs(
        [
            call(aten.mm.default, fake(64, 64), fake(64, 32)),
            call(aten.addmm.default, fake(32), fake(64, 64), fake(64, 32)),
            call(aten.copy_.default, fake(64, 64), fake(64, 64)),
        ]
    )

    assert [cost.workspace_bytes for cost in costs] == [0, 0, 0]


def test_a_dropout_draws_into_a_workspace(source):
    """CPU dropout makes its mask as float32 first: 4 bytes an element."""
    dropout = call(aten.native_dropout.default, fake(32, 8), 0.5, True)

    (cost,) = source.costs([dropout])

    assert cost.workspace_bytes == 32 * 8 * 4


MASK = fake(4, 16, dtype=torch.bool)
INDEXING = {
    "embedding": call(aten.embedding.default, fake(100, 8), indices(5)),
    "embedding backward": call(
        aten.embedding_dense_backward.default, fake(5, 8), indices(5), 100, -1, False
    ),
    "nll": call(aten.nll_loss_forward.default, fake(6, 3), indices(6), None, 1, -100),
    "nll of one": call(
        aten.nll_loss_forward.default, fake(3), indices(), None, 1, -100
    ),
    "nll backward": call(
        aten.nll_loss_backward.default,
        fake(), fake(6, 3), indices(6), None, 1, -100, fake(),
    ),
    "gather": call(aten.gather.default, fake(4, 7), 1, indices(4, 2)),
    "scatter": call(aten.scatter.value, fake(4, 7), 1, indices(4, 2), 1.0),
    "scatter_add": call(aten.scatter_add.default, fake(7), 0, indices(9), fake(9)),
    "index_select": call(aten.index_select.default, fake(4, 7), 1, indices(3)),
    "index": call(aten.index.Tensor, fake(4, 7, 5), [None, indices(3), indices(3)]),
    "index_put": call(
        aten.index_put.default, fake(9, 4), [indices(3)], fake(3, 4), True
    ),
    "masked index_put": call(aten.index_put.default, fake(4, 16), [MASK], fake()),
    "index_add": call(aten.index_add.default, fake(9, 4), 0, indices(3), fake(3, 4)),
    "take": call(aten.take.default, fake(3, 3), indices(20)),
    "one_hot": call(aten.one_hot.default, indices(5), 4),
    "pooling backward": call(
        aten.max_pool2d_with_indices_backward.default,
        fake(1, 2, 4, 4), fake(1, 2, 8, 8), [2, 2], [2, 2], [0, 0], [1, 1], False,
        indices(1, 2, 4, 4),
    ),
    "probabilities": call(aten.bernoulli.default, fake(16)),
    "cross entropy": call(aten.binary_cross_entropy.default, fake(16), fake(16)),
    "draws": call(aten.multinomial.default, fake(16), 3),
    "batch norm": call(
        aten._native_batch_norm_legit_functional.default,
        fake(4, 3, 8, 8), fake(3), fake(3), fake(3), fake(3), True, 0.1, 1e-5,
    ),
    "factory": call(aten.arange.default, 5, device=torch.device("cpu")),
    "list": call(aten.cat.default, [fake(2, 3), fake(1, 3)]),
    "empty": call(aten.relu.default, fake(0, 3)),
    "broadcast": call(aten.add.Tensor, fake(4, 1).expand(4, 5), fake(5)),
    "redraw": call(
        torch._prims.rng_prims.run_with_rng_state,
        fake(*torch.get_rng_state().shape, dtype=torch.uint8),
        aten.native_dropout.default, fake(8), 0.5, True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", INDEXING)
def test_operators_that_are_particular_about_values_can_be_measured(source, name):
    """Indices in range, probabilities, variances, random states: valid operands."""
    (cost,) = source.costs([INDEXING[name]])

    assert cost.duration_ns > 0


def test_an_operand_that_cannot_be_described_is_refused(source):
    """Objects other than tensors and plain data have no signature."""
    with pytest.raises(CostError, match="operand of type Generator"):
        source.costs(
            [call(aten.bernoulli.default, fake(2), generator=torch.Generator())]
        )


def test_operands_without_a_dense_storage_are_refused(source):
    """A tensor on the meta device cannot be made real."""
    with pytest.raises(CostError, match="on the meta device"):
        source.costs([call(aten.relu.default, torch.empty(2, device="meta"))])


class TestOperands:
    """The real operands made for a call."""

    def test_layouts_are_the_calls_own(self):
        """Shape, strides and dtype carry over; a broadcast stays one."""
        asked = [
            fake(4, 6).t(),
            fake(4, 1).expand(4, 6),
            fake(3, 5, dtype=torch.bfloat16)[:, ::2],
            fake(0, 3),
            fake(),
        ]

        made, _ = materialise(call(aten.cat.default, asked), torch.Generator())

        for fake_one, real in zip(asked, made[0], strict=True):
            assert (real.shape, real.stride()) == (fake_one.shape, fake_one.stride())
            assert real.dtype is fake_one.dtype
            assert type(real) is torch.Tensor

    def test_indices_are_spread_below_their_bound(self):
        """300 rows of a table of 100 touch each row, and none beyond."""
        (_, rows), _ = materialise(
            call(aten.embedding.default, fake(100, 2), indices(300)), torch.Generator()
        )

        assert sorted(set(rows.tolist())) == list(range(100))

    def test_values_repeat_beyond_a_block_and_are_normal(self):
        """Large tensors cost few draws, and none is zero or tiny throughout."""
        (x,), _ = materialise(call(aten.relu.default, fake(2**21)), torch.Generator())

        assert torch.equal(x[: 2**20], x[2**20 :])
        assert x.std() == pytest.approx(1.0, abs=0.01)

    def test_duplicates_share_nothing(self):
        """A copy has the values and layout of the original and its own storage."""
        x = torch.arange(6.0).view(2, 3).t()

        ((copy, scale), kwargs) = duplicate(((x, 2), {"out": None}))
        equal = torch.equal(copy, x)
        copy.zero_()

        assert equal
        assert copy.stride() == x.stride()
        assert x.sum() == 15
        assert (scale, kwargs) == (2, {"out": None})


def test_fresh_outputs_are_what_no_operand_owns():
    """A view of an operand is not fresh; blocks round what is."""
    x = torch.zeros(4)
    result = [x.view(2, 2), torch.zeros(3), None]

    assert fresh_bytes(result, [x]) == 12
    assert fresh_bytes(result, [x], block=512) == 512


class TestDisturbedRuns:
    """What is made of runs during which the system took a processor away."""

    DURATIONS = (40, 10, 20, 30, 10)

    @pytest.fixture
    def measured(self, monkeypatch):
        """Measure a call whose runs take DURATIONS, the given ones disturbed."""

        def measure(disturbed):
            losses = itertools.accumulate(
                int(run in disturbed) for run in range(len(self.DURATIONS))
            )
            switches = [0, *losses]
            seen = [n for pair in itertools.pairwise(switches) for n in pair]
            starts = list(itertools.accumulate(self.DURATIONS, initial=0))
            clock = [n for pair in itertools.pairwise(starts) for n in pair]
            times = iter([0, 0, 0, *clock])  # two for the rough run, one to begin
            lost = iter(seen)
            monkeypatch.setattr(stopwatch, "_now", lambda: next(times))
            monkeypatch.setattr(stopwatch, "_lost_processors", lambda: next(lost))
            effort = Effort(min_runs=5, max_runs=5, enough_ns=1, limit_ns=110)
            return measure_call(
                call(aten.relu.default, fake(4)),
                torch.device("cpu"),
                best_meter("cpu"),
                effort,
            )

        return measure

    def test_calm_runs_give_the_median(self, measured):
        """Of 40, 10, 20, 30 and 10 that is 20, the quartiles 10 and 30."""
        assert measured(()) == Sample(OpCost(20, 0, 20), settled=True)

    def test_disturbed_runs_are_left_out(self, measured):
        """Without the first, 10, 20, 30 and 10 remain: 15."""
        sample = measured((0,))

        assert sample.cost.duration_ns == 15
        assert sample.settled

    def test_where_all_are_disturbed_the_least_is_nearest(self, measured):
        """10 it is, and not to be kept."""
        sample = measured(range(5))

        assert sample.cost.duration_ns == 10
        assert not sample.settled
