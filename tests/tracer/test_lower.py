"""A joint graph becomes ops over storages, with the bytes a reader can derive."""

import operator

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own abbreviation
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from cases import CASES, SquaredMean, batch_norm, in_place, noisy_dropout
from encamp.errors import UnsupportedError
from encamp.graph import Kind, Phase, Reason
from encamp.replay import replay
from encamp.tracer.capture import capture
from encamp.tracer.joint import JointStep
from encamp.tracer.lower import STATE_TARGET, TANGENTS_TARGET, lower
from encamp.tracer.randomness import state_bytes
from stepping import UnitCosts, lowered, ops_of, without_workspace

STATE_BYTES = state_bytes(torch.device("cpu"))

PEAKS = {
    "S05": 344_584,
    "S07": 89_235_464,
    "S08": 43_450_632,
    "S09": 19_596_552,
    "S10": 3_289_088,
    "S12": 13_077_164,
    "S15": 51_855_368,
}
"""Unplanned peaks beside what is resident, as measured on PyTorch 2.13."""


class Tiny(nn.Module):
    """tanh(x @ w.t()), summed up; `w` is 3 x 2."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 2))

    def forward(self, x):
        return torch.tanh(x @ self.weight.t()).sum()


class ReadThenWritten(nn.Module):
    """Reads a buffer and then moves it."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x):
        y = self.weight * torch.sin(self.scale * 2) * x
        self.scale.add_(1)
        return y.sum()


def targets(graph):
    """Return the operators' short names, in order."""
    return [op.target.removeprefix("aten.").split(".")[0] for op in graph.ops]


def by_name(graph, name):
    """Return the op of a name."""
    return next(op for op in graph.ops if op.name == name)


def draws_of(graph):
    """Return the ops that draw with a random state."""
    states = {op.outputs[0] for op in ops_of(graph, STATE_TARGET)}
    return [op for op in graph.ops if states & set(op.inputs)]


def sizes(graph, values):
    """Return the bytes of values."""
    return [graph.values[value].bytes for value in values]


def test_a_tiny_step_is_six_ops():
    """Views (t, expand, detach) are no ops; the tangents are given by one."""
    graph = lowered(Tiny(), (torch.ones(4, 2),)).graph

    assert targets(graph) == [
        "mm", "tanh", "sum", "encamp", "tanh_backward", "mm",
    ]  # fmt: skip
    assert [op.phase for op in graph.ops] == [Phase.FORWARD] * 3 + [Phase.BACKWARD] * 3


def test_memory_of_a_tiny_step_is_derived_by_hand():
    """Each step of tanh(x @ w.t()).sum() holds the storages listed beside it.

    `w` (24) and `x` (32) are resident: 56 bytes. `h`, `y` and `g` are 4 x 3 floats,
    48 bytes each; loss and tangent are 4; the gradient of `w` is 24.
    """
    graph = lowered(Tiny(), (torch.ones(4, 2),)).graph

    assert graph.resident_bytes == 56
    assert replay(graph).memory == (
        56 + 48,               # h = x @ w.t()
        56 + 48 + 48,          # h, y = tanh(h)
        56 + 48 + 4,           # y, loss
        56 + 48 + 4 + 4,       # y, loss, tangent
        56 + 48 + 4 + 4 + 48,  # y, loss, tangent, g
        56 + 4 + 4 + 48 + 24,  # loss, tangent, g, the gradient of w
    )  # fmt: skip


def test_outputs_are_the_loss_its_tangent_and_the_gradients():
    """`loss.backward()` holds a scalar's tangent until it returns."""
    graph = lowered(Tiny(), (torch.ones(4, 2),)).graph

    assert [graph.values[v].kind for v in graph.outputs] == [
        Kind.ACTIVATION, Kind.GRADIENT, Kind.TANGENT,
    ]  # fmt: skip
    assert sizes(graph, graph.outputs) == [4, 24, 4]


def test_a_tangent_that_is_no_scalar_dies_after_its_last_use():
    """Only a scalar loss's tangent is held by the caller."""
    graph = lowered(nn.Linear(2, 3), (torch.ones(4, 2),)).graph
    (tangents,) = ops_of(graph, TANGENTS_TARGET)

    assert sizes(graph, tangents.outputs) == [48]
    assert not set(tangents.outputs) & set(graph.outputs)
    assert tangents.recompute.reason is Reason.GIVEN


def test_parameters_buffers_and_inputs_are_resident():
    """What the step is given has its kind, its name and its bytes."""
    model = SquaredMean(nn.BatchNorm1d(3)).train()
    graph = lowered(model, (torch.ones(4, 3),)).graph
    given = {(v.kind, v.name): v.bytes for v in graph.values if v.resident}

    assert {key[1]: size for key, size in given.items() if key[0] is Kind.PARAM} == {
        "model.weight": 12, "model.bias": 12,
    }  # fmt: skip
    assert {key[1]: size for key, size in given.items() if key[0] is Kind.BUFFER} == {
        "model.running_mean": 12,
        "model.running_var": 12,
        "model.num_batches_tracked": 8,
    }
    assert [size for key, size in given.items() if key[0] is Kind.INPUT] == [48]
    assert all(graph.producer[v.id] is None for v in graph.values if v.resident)


def test_a_call_of_several_outputs_is_one_op():
    """LayerNorm makes its output, the mean and the reciprocal deviation at once."""
    graph = lowered(SquaredMean(nn.LayerNorm(3)), (torch.ones(4, 3),)).graph
    (norm,) = ops_of(graph, "aten.native_layer_norm.default")

    assert sizes(graph, norm.outputs) == [48, 16, 16]
    assert ops_of(graph, str(operator.getitem)) == []


def test_parts_of_one_storage_are_views():
    """Splitting and slicing make no storage; the pieces are the storage they cut."""

    def step(weight, x):
        left, right = (weight * x).chunk(2, dim=1)
        return (left * right[:, :1]).sum()

    weight = torch.ones(2, 4, requires_grad=True)
    graph = lowered(step, (weight, torch.ones(2, 4))).graph
    product, cut = ops_of(graph, "aten.mul.Tensor")[:2]

    assert cut.inputs == product.outputs


def test_in_place_ops_are_functional():
    """Nothing but writes into what the step is given stays in place."""
    graph = lowered(*in_place()).graph

    assert all(op.recompute.allowed for op in graph.ops if op.target != TANGENTS_TARGET)
    assert "relu" in targets(graph)
    assert "relu_" not in targets(graph)


def test_a_copy_of_a_whole_storage_has_its_bytes():
    """`aten.copy` on a slice takes what the sliced storage takes, gaps included."""

    def step(weight, x):
        whole = weight * x
        whole[:, :4].mul_(2.0)
        return whole.square().sum()

    weight = torch.ones(4, 8, requires_grad=True)
    for _ in range(2):  # FakeTensorMode's cache forgets the gap behind the last row
        graph = lowered(step, (weight, torch.ones(4, 8))).graph
        copies = [op for op in graph.ops if op.target == "aten.copy.default"]
        assert copies
        assert {*sizes(graph, [op.outputs[0] for op in copies])} == {4 * 8 * 4}


def test_a_copy_of_an_expanded_tensor_is_spread_out():
    """Where elements share memory, the copy makes one of each."""
    module = make_fx(lambda x, y: [torch.ops.aten.copy(x.expand(4, 2), y).sum()])(
        torch.ones(1, 2), torch.ones(4, 2)
    )
    graph = lower(JointStep(module, 1), UnitCosts()).graph
    (op,) = ops_of(graph, "aten.copy.default")

    assert sizes(graph, op.outputs) == [4 * 2 * 4]


def test_reads_of_an_overwritten_buffer_run_once_and_before_the_write():
    """The write waits for every reader by a zero-byte token, and pins it."""
    graph = lowered(ReadThenWritten(), (torch.ones(2, 4),)).graph
    (write,) = ops_of(graph, "aten.copy_.default")
    scale = next(v.id for v in graph.values if v.name == "scale")
    readers = [op for op in graph.ops if scale in op.inputs and op is not write]
    tokens = {v for v in write.inputs if graph.values[v].bytes == 0}

    assert len(readers) == 2
    assert all(op.recompute.reason is Reason.MUTATED_INPUT for op in readers)
    assert {graph.producer[token] for token in tokens} == {op.id for op in readers}
    assert write.recompute.reason is Reason.IN_PLACE
    assert by_name(graph, "sin").recompute.allowed


def test_batch_norm_moves_its_buffers_after_reading_them():
    """Each running statistic is overwritten once, by an op that cannot run again."""
    graph = lowered(*batch_norm()).graph
    norms = ops_of(graph, "aten._native_batch_norm_legit_functional.default")
    writes = ops_of(graph, "aten.copy_.default")

    assert len(norms) == 4
    assert {op.recompute.reason for op in norms} == {Reason.MUTATED_INPUT}
    assert len(writes) == 4 * 3
    assert {op.recompute.reason for op in writes} == {Reason.IN_PLACE}
    assert {op.phase for op in writes} == {Phase.FORWARD}
    for norm in norms:
        (token,) = (v for v in norm.outputs if graph.values[v].bytes == 0)
        assert sum(token in write.inputs for write in writes) == 2


def test_a_random_op_takes_its_state_before_it_draws():
    """The state is a value of its own; the draw reads it and may run again."""
    graph = lowered(*noisy_dropout()).graph
    draws = draws_of(graph)
    states = ops_of(graph, STATE_TARGET)

    assert len(draws) == len(states) == 8
    for state, draw in zip(states, draws, strict=True):
        assert sizes(graph, state.outputs[:1]) == [STATE_BYTES]
        assert state.outputs[0] in draw.inputs
        assert state.recompute.reason is Reason.RANDOM
        assert draw.recompute.allowed


@pytest.mark.parametrize(("count", "read_beside"), [(64, 64 * 5), (2048, STATE_BYTES)])
def test_a_small_draw_takes_the_memory_of_reading_the_stream(count, read_beside):
    """Dropout of n floats makes 5 n bytes; a redraw reads the stream's state before."""

    def step(weight):
        return F.dropout(weight, 0.5).sum()

    graph = lowered(step, (torch.ones(count, requires_grad=True),)).graph
    (draw,) = draws_of(graph)

    assert draw.workspace_bytes == STATE_BYTES - read_beside


def test_draws_keep_their_order_in_the_stream():
    """Each state but the first is taken after the draw before it."""
    graph = lowered(*noisy_dropout()).graph
    draws = draws_of(graph)
    states = ops_of(graph, STATE_TARGET)

    assert not states[0].inputs
    for state, before in zip(states[1:], draws[:-1], strict=True):
        (token,) = state.inputs
        assert graph.values[token].bytes == 0
        assert graph.producer[token] == before.id


def test_attention_without_dropout_draws_nothing():
    """Attention kernels carry the random tag whatever their dropout is."""

    def step(x, dropout):
        return F.scaled_dot_product_attention(x, x, x, dropout_p=dropout).sum()

    x = torch.ones(1, 2, 4, 8, requires_grad=True)

    assert ops_of(lowered(step, (x, 0.0)).graph, STATE_TARGET) == []
    assert len(ops_of(lowered(step, (x, 0.5)).graph, STATE_TARGET)) == 1


def test_an_unknown_custom_op_is_pinned():
    """An operator of another library may be anything, so it runs once."""

    @torch.library.custom_op("encamptests::double", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    double.register_fake(torch.empty_like)
    double.register_autograd(lambda _, gradient: gradient * 2)
    weight = torch.ones(3, requires_grad=True)
    graph = lowered(lambda w: double(w).sum(), (weight,)).graph
    (op,) = ops_of(graph, "encamptests.double")

    assert op.recompute.reason is Reason.UNKNOWN_OP


def test_a_branch_of_the_graph_is_pinned():
    """`torch.cond` is one op, forward and backward, that runs once."""

    def step(weight):
        y = weight * 2
        return torch.cond(y.sum() > 0, torch.sin, torch.cos, (y,)).sum()

    graph = lowered(step, (torch.ones(3, requires_grad=True),)).graph
    branches = ops_of(graph, "cond")

    assert [op.phase for op in branches] == [Phase.FORWARD, Phase.BACKWARD]
    assert {op.recompute.reason for op in branches} == {Reason.UNKNOWN_OP}


def test_symbolic_sizes_are_refused_by_name():
    """A plan is for fixed sizes; the refusal names what has no size."""
    module = make_fx(lambda x: [torch.tanh(x).sum()], tracing_mode="symbolic")(
        torch.ones(3, 2)
    )

    with pytest.raises(
        UnsupportedError, match=r"x_1.* the symbolic shape \[s.*dynamic"
    ):
        lower(JointStep(module, 1), UnitCosts())


def test_a_backward_read_of_an_overwritten_input_is_refused_by_name():
    """The backward reads `x` after the forward has overwritten it."""

    def joint(primals_1, primals_2, tangents_1):
        product = primals_1 * primals_2
        gradient = tangents_1 * primals_2
        primals_2.copy_(primals_2 + 1)
        return [product, gradient, None]

    example = torch.ones(2)
    module = make_fx(joint)(example, example.clone(), example.clone())
    copy = torch.ops.aten.copy_.default
    (write,) = module.graph.find_nodes(op="call_function", target=copy)
    write.meta["partitioner_tag"] = "must_be_in_forward"
    *_, tangent = module.graph.find_nodes(op="placeholder")
    tangent.target = "tangents_1"

    with pytest.raises(UnsupportedError) as caught:
        lower(JointStep(module, 1), UnitCosts())
    assert "aten.mul.Tensor (mul_1)" in str(caught.value)
    assert "reads an input in the backward that aten.copy_.default" in str(caught.value)


def test_a_call_that_returns_its_argument_is_refused():
    """An op that returns an argument beside a new tensor cannot be told apart."""
    module = make_fx(lambda x: list(torch.ops.aten.aminmax(x)))(torch.ones(3))
    (call,) = (n for n in module.graph.nodes if "aminmax" in str(n.target))
    (x,) = module.graph.find_nodes(op="placeholder")
    call.meta["val"] = (x.meta["val"], call.meta["val"][1])

    with pytest.raises(UnsupportedError, match="returns one of its arguments"):
        lower(JointStep(module, 2), UnitCosts())


def test_every_op_is_costed_once_and_the_graph_says_how():
    """The cost source sees each call but the tangents; its meta is the graph's."""
    asked = []

    class Counting(UnitCosts):
        def costs(self, calls, progress=None):
            asked.extend(calls)
            return super().costs(calls, progress)

    joint = capture(Tiny(), (torch.ones(4, 2),))
    graph = lower(joint, Counting(), name="tiny", meta={"compiler": "eager"}).graph

    assert [str(call.target) for call in asked] == [
        op.target for op in graph.ops if op.target != TANGENTS_TARGET
    ]
    assert graph.duration_ns == 5 * 1000
    assert (graph.name, graph.meta["costs"], graph.meta["compiler"]) == (
        "tiny", "unit", "eager",
    )  # fmt: skip


def test_calls_hold_fake_operands_of_the_right_shapes():
    """What is costed has the shapes and strides of the step and no data."""
    asked = []

    class Keeping(UnitCosts):
        def costs(self, calls, progress=None):
            asked.extend(calls)
            return super().costs(calls, progress)

    lower(capture(Tiny(), (torch.ones(4, 2),)), Keeping())
    shapes = [(tuple(t.shape), t.stride()) for t in asked[0].args]

    assert shapes == [((4, 2), (2, 1)), ((2, 3), (1, 2))]
    assert all(type(t).__name__ == "FakeTensor" for t in asked[0].args)


def test_a_step_without_operations_is_refused():
    """Where the step only hands an input back there is nothing to plan."""
    module = make_fx(lambda x: [x])(torch.ones(2))

    with pytest.raises(UnsupportedError, match="holds no operation"):
        lower(JointStep(module, 1), UnitCosts())


@pytest.mark.parametrize("case", PEAKS)
def test_the_unplanned_peak_of_a_case_is_the_measured_one(case):
    """The replayed peak beside what is resident is what the allocator showed."""
    graph = without_workspace(lowered(*CASES[case]()).graph)

    assert replay(graph).peak_bytes - graph.resident_bytes == PEAKS[case]
