"""Measured costs: what is run, how often, and what it leaves behind."""

import warnings

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from encamp.errors import CostError
from encamp.tracer import profile
from encamp.tracer.calls import OpCost
from encamp.tracer.costs import cost_source
from encamp.tracer.profile import MeasuredCosts
from encamp.tracer.stopwatch import Effort, Sample
from fakes import call, fake

aten = torch.ops.aten
QUICK = Effort(min_runs=2, max_runs=3, enough_ns=10**6, limit_ns=10**7)


@pytest.fixture
def source(tmp_path):
    """Return a quick cost source with a cache of its own."""
    return MeasuredCosts("cpu", tmp_path, effort=QUICK)


@pytest.fixture
def spy(monkeypatch):
    """Stand in for measuring: count what is measured, answer 1, 2, 3 ... ns."""
    measured = []

    def measure(call, *_):
        measured.append(call)
        return Sample(OpCost(len(measured), 10 * len(measured), 1))

    monkeypatch.setattr(profile, "measure_call", measure)
    return measured


@pytest.mark.usefixtures("spy")
def test_equal_calls_are_measured_once(source):
    """Shapes, dtypes, strides and scalars make a signature; storages do not."""
    x, y = fake(4, 8), fake(4, 8)
    calls = [
        call(aten.add.Tensor, x, x),
        call(aten.add.Tensor, x, y),
        call(aten.add.Tensor, x, y, alpha=2),
        call(aten.add.Tensor, x, fake(8, 4).t()),
        call(aten.add.Tensor, x, fake(4, 8, dtype=torch.float64)),
        call(aten.mul.Tensor, x, y),
        call(aten.add.Tensor, y, x),
    ]

    costs = source.costs(calls)

    assert [cost.duration_ns for cost in costs] == [1, 1, 2, 3, 4, 5, 1]


def test_the_second_run_measures_nothing(source, spy, tmp_path):
    """Costs come from the disk in another source, and are those of the first."""
    calls = [call(aten.relu.default, fake(n)) for n in range(1, 70)]
    first = source.costs(calls)

    again = MeasuredCosts("cpu", tmp_path).costs(calls)

    assert len(spy) == 69
    assert first == again


def test_other_thread_counts_are_measured_anew(source, spy):
    """A cost holds for the number of threads it was measured with."""
    calls = [call(aten.relu.default, fake(8))]
    threads = torch.get_num_threads()
    source.costs(calls)
    try:
        torch.set_num_threads(threads + 1)
        source.costs(calls)
    finally:
        torch.set_num_threads(threads)

    assert len(spy) == 2


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff", b"[]", b'{"schema": "encamp.costs/1"}', b'{"schema": 3}'],
)
def test_a_damaged_cache_is_written_anew(source, spy, tmp_path, content):
    """Whatever the file holds, costs are measured and can be read afterwards."""
    calls = [call(aten.relu.default, fake(8))]
    source.costs(calls)
    (file,) = tmp_path.glob("costs-*.json")
    whole = file.read_bytes()
    file.write_bytes(content)

    source.costs(calls)
    source.costs(calls)

    assert len(spy) == 2
    assert len(whole) == len(file.read_bytes())


@pytest.mark.usefixtures("spy")
def test_a_negative_duration_in_the_cache_is_damage(source, tmp_path):
    """A number that no measurement gives is measured again."""
    calls = [call(aten.relu.default, fake(8))]
    source.costs(calls)
    (file,) = tmp_path.glob("costs-*.json")
    file.write_text(file.read_text().replace('"duration_ns": 1', '"duration_ns": -1'))

    assert source.costs(calls)[0].duration_ns == 2


def test_two_sources_keep_what_both_measured(spy, tmp_path):
    """A writer keeps what another one added after it had read the file."""
    one, two = MeasuredCosts("cpu", tmp_path), MeasuredCosts("cpu", tmp_path)
    first, second = call(aten.relu.default, fake(8)), call(aten.neg.default, fake(8))

    one.costs([first], lambda done, _: two.costs([second]) if done else None)
    one.costs([first, second])

    assert len(spy) == 2


def test_what_was_measured_before_an_error_is_kept(source, monkeypatch):
    """An interruption costs only the call it interrupts."""
    measured = []

    def measure(call, *_):
        measured.append(call)
        if len(measured) == 2:
            raise KeyboardInterrupt
        return Sample(OpCost(1))

    monkeypatch.setattr(profile, "measure_call", measure)
    calls = [call(aten.relu.default, fake(n)) for n in (1, 2)]
    with pytest.raises(KeyboardInterrupt):
        source.costs(calls)

    source.costs(calls)

    assert len(measured) == 3


def test_unsettled_costs_are_used_but_not_kept(source, monkeypatch, tmp_path):
    """What other processes disturbed in every run, the next source measures again.

    The same one answers the same: a plan is judged by the costs it was made from.
    """
    samples = iter([Sample(OpCost(50, 8), settled=False), Sample(OpCost(5))])
    monkeypatch.setattr(profile, "measure_call", lambda *_: next(samples))
    calls = [call(aten.relu.default, fake(8))]

    assert [source.costs(calls) for _ in range(2)] == [[OpCost(50, 8)]] * 2
    later = [MeasuredCosts("cpu", tmp_path) for _ in range(2)]
    assert [again.costs(calls) for again in later] == [[OpCost(5)]] * 2


@pytest.mark.usefixtures("spy")
def test_a_cache_that_cannot_be_written_is_a_warning(tmp_path):
    """The costs are there all the same."""
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    source = MeasuredCosts("cpu", blocked)

    with pytest.warns(RuntimeWarning, match="measured costs are not kept"):
        costs = source.costs([call(aten.relu.default, fake(8))])

    assert costs[0].duration_ns == 1


@pytest.mark.usefixtures("spy")
def test_progress_counts_distinct_calls(source):
    """Known ones are done at once, the others one by one."""
    x = fake(8)
    source.costs([call(aten.relu.default, x)])
    seen = []
    targets = (aten.relu.default, aten.neg.default, aten.abs.default, aten.abs.default)

    source.costs([call(t, x) for t in targets], lambda *at: seen.append(at))

    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_the_callers_state_is_untouched(source):
    """Random stream, gradient mode, default dtype and thread count stay."""
    x = fake(64, 64)
    torch.manual_seed(7)
    before = torch.get_rng_state()
    torch.set_default_dtype(torch.float64)
    try:
        source.costs([call(aten.native_dropout.default, x, 0.5, True)])

        assert torch.float64 == torch.get_default_dtype()
    finally:
        torch.set_default_dtype(torch.float32)

    assert torch.equal(before, torch.get_rng_state())
    assert torch.is_grad_enabled()


def test_costs_are_real_under_the_modes_of_a_trace(source):
    """A FakeTensorMode, autocast or inference mode around it changes nothing."""
    x = fake(64, 64)
    with (
        FakeTensorMode(),
        torch.autocast("cpu", dtype=torch.bfloat16),
        torch.inference_mode(),
    ):
        costs = source.costs([call(aten.mm.default, x, x)])

    assert costs[0].duration_ns > 0


def test_a_call_that_fails_is_named_with_its_operands(source):
    """The error says which call, why, and what to do instead."""
    with pytest.raises(CostError) as caught:
        source.costs([call(aten.mm.default, fake(2, 3), fake(2, 3))])

    message = str(caught.value)
    assert "aten.mm.default(float32[2, 3][3, 1]@cpu, float32[2, 3]" in message
    assert "mat1 and mat2 shapes cannot be multiplied" in message
    assert "costs='roofline:NAME'" in message


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (torch.ops._c10d_functional.all_reduce.default, "needs the other processes"),
        (torch.ops.higher_order.cond, "needs the graphs it calls"),
    ],
)
def test_what_cannot_run_alone_is_refused(source, target, reason):
    """A collective or a call of other graphs is an error before anything runs."""
    with pytest.raises(CostError, match=reason):
        source.costs([call(target, fake(2), "sum", "0")])


def test_meta_says_what_was_measured_on(source):
    """The graph records device, memory, PyTorch and threads."""
    meta = source.meta

    assert meta["costs"] == "measured"
    assert torch.__version__ == meta["torch"]
    assert torch.get_num_threads() == meta["threads"]
    assert meta["device"]
    assert meta["device_memory_bytes"] > 2**28


def test_a_device_that_is_not_there_is_refused():
    """Measuring on CUDA without CUDA says to use a table."""
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(CostError, match=r"no CUDA device.*roofline:NAME"):
        cost_source("measured", device="cuda")


@pytest.mark.gpu
def test_cuda_is_measured_with_events_and_its_own_allocator(tmp_path):
    """A product of large matrices takes time and its output is no workspace."""
    with FakeTensorMode():
        x = torch.empty(1024, 1024, device="cuda")
    source = MeasuredCosts("cuda", tmp_path)
    (cost,) = source.costs([call(aten.mm.default, x, x)])

    assert cost.duration_ns > 0
    assert cost.workspace_bytes == 0
    assert torch.cuda.get_device_name() == source.meta["device"]


class TestEffort:
    """When measuring one call stops."""

    EFFORT = Effort(min_runs=5, max_runs=100, enough_ns=50, limit_ns=300)

    @pytest.mark.parametrize(
        ("calm", "runs", "elapsed", "spent"),
        [
            (0, 0, 999, False),  # at least one run
            (5, 5, 49, False),  # calm, but early
            (5, 5, 50, True),
            (4, 40, 60, False),  # too many disturbed
            (0, 40, 300, True),  # patience ends
            (99, 99, 9, False),
            (100, 100, 9, True),
            (1, 1, 300, True),  # one slow run is all there is time for
        ],
    )
    def test_it_stops_when_enough_or_at_the_limit(self, calm, runs, elapsed, spent):
        """Enough calm runs and time, or no patience left."""
        assert spent is self.EFFORT.is_spent(calm, runs, elapsed)

    @pytest.mark.parametrize(
        ("rough", "runs"), [(0, 50), (1, 50), (10, 5), (60, 5), (100, 3), (999, 1)]
    )
    def test_runs_fit_the_time(self, rough, runs):
        """50 ns hold 50 runs of 1; 5 of 60 fit the limit of 300, 3 of 100, 1 of 999."""
        assert runs == self.EFFORT.runs(rough)


def test_costs_warn_of_nothing(source):
    """Measuring is silent."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        source.costs([call(aten.relu.default, fake(8))])
