"""Which calls may run a second time, and which draw random numbers."""

import pytest
import torch
from torch import fx

from encamp.graph import Reason
from encamp.tracer.recomputable import (
    argument,
    draws_random,
    reason_against,
    written_nodes,
)

aten = torch.ops.aten


def call(target, *args, **kwargs):
    """Return a node that calls `target`; a text names a placeholder."""
    graph = fx.Graph()
    nodes = {}

    def given(item):
        if isinstance(item, str):
            return nodes.setdefault(item, graph.placeholder(item))
        return item

    return graph.call_function(target, tuple(map(given, args)), kwargs)


def label(parameter):
    """Name a case; a function's own text would hold its address in memory."""
    return "torch.sin" if parameter is torch.sin else str(parameter)


@pytest.mark.parametrize(
    ("target", "args"),
    [
        (aten.mm.default, ("a", "b")),
        (aten.native_layer_norm.default, ("x", [3], None, None, 1e-5)),
        (aten.native_dropout.default, ("x", 0.5, True)),
        (torch.ops.prims.convert_element_type.default, ("x", torch.float64)),
        (aten._scaled_dot_product_flash_attention_for_cpu.default, ("q", "k", "v")),
    ],
    ids=label,
)
def test_functions_of_their_arguments_may_run_again(target, args):
    """PyTorch's own functional operators, random ones with their state, are free."""
    assert reason_against(call(target, *args)) is None


@pytest.mark.parametrize(
    ("target", "args", "reason"),
    [
        (aten.copy_.default, ("a", "b"), Reason.IN_PLACE),
        (aten.mm.out, ("a", "b"), Reason.IN_PLACE),
        (aten._local_scalar_dense.default, ("a",), Reason.HOST_SYNC),
        (aten.nonzero.default, ("a",), Reason.DATA_DEPENDENT),
        (torch.ops._c10d_functional.all_reduce.default, ("a", "sum", "0"),
         Reason.COLLECTIVE),
        (torch.ops._c10d_functional.wait_tensor.default, ("a",), Reason.COLLECTIVE),
        (torch.ops.higher_order.cond, ("a",), Reason.UNKNOWN_OP),
        (torch.ops.quantized.relu6.default, ("a",), Reason.UNKNOWN_OP),
        (torch.sin, ("a",), Reason.UNKNOWN_OP),
    ],
    ids=label,
)  # fmt: skip
def test_others_are_pinned_with_the_reason(target, args, reason):
    """Writes, collectives, syncs, data-dependent and foreign operators run once."""
    assert reason_against(call(target, *args)) is reason


def test_a_draw_from_a_generator_of_its_own_is_pinned():
    """Only the global stream's state is known, so another generator pins the op."""
    node = call(aten.bernoulli.default, "x", generator=torch.Generator())

    assert reason_against(node) is Reason.RANDOM
    assert reason_against(call(aten.bernoulli.default, "x")) is None


@pytest.mark.parametrize(
    ("target", "args", "draws"),
    [
        (aten.native_dropout.default, ("x", 0.5, True), True),
        (aten.rand_like.default, ("x",), True),
        (aten.mm.default, ("a", "b"), False),
        (torch.sin, ("a",), False),
        (aten._scaled_dot_product_flash_attention_for_cpu.default,
         ("q", "k", "v"), False),
        (aten._scaled_dot_product_flash_attention_for_cpu.default,
         ("q", "k", "v", 0.1), True),
    ],
    ids=label,
)  # fmt: skip
def test_what_draws_from_the_stream_is_known(target, args, draws):
    """Attention carries the random tag always, but draws only with dropout."""
    assert draws_random(call(target, *args)) is draws


def test_arguments_are_found_by_name():
    """Positional, by keyword or by default, an argument is what the call has."""
    node = call(aten.sum.dim_IntList, "x", [1], keepdim=True)

    assert argument(node, "dim") == [1]
    assert argument(node, "keepdim") is True
    assert argument(node, "dtype") is None
    with pytest.raises(KeyError, match="has no argument 'axis'"):
        argument(node, "axis")


def test_written_arguments_are_those_the_schema_marks():
    """`copy_` writes its first argument, `mm.out` its last, `mm` none."""
    assert [n.name for n in written_nodes(call(aten.copy_.default, "a", "b"))] == ["a"]
    assert written_nodes(call(aten.mm.default, "a", "b")) == []
    assert written_nodes(call(torch.sin, "a")) == []
    node = call(aten.mm.out, "a", "b")
    node.kwargs = {"out": node.args[0]}
    assert [n.name for n in written_nodes(node)] == ["a"]


@pytest.mark.parametrize(
    ("dtype", "reason"), [(torch.int64, None), (torch.bool, Reason.DATA_DEPENDENT)]
)
def test_indexing_is_data_dependent_with_masks_only(dtype, reason):
    """How many elements a mask picks lies in its values; integers pick their own."""
    graph = fx.Graph()
    source, index = graph.placeholder("x"), graph.placeholder("index")
    index.meta["val"] = torch.zeros(2, dtype=dtype)
    node = graph.call_function(aten.index.Tensor, (source, [index]))

    assert reason_against(node) is reason
