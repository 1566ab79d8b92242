"""What a cost graph refuses, and what it tells."""

from dataclasses import replace

import pytest
from hypothesis import given

from encamp.check import check
from encamp.errors import GraphError
from encamp.graph import MAX_BYTES, Kind, Phase, Reason, Recompute, Value
from graphs import CHAIN_DURATION, chain, noisy, with_op, with_value
from strategies import graphs


def refusal(make, *args, **changes):
    """Return the error that making a graph raises."""
    with pytest.raises(GraphError) as caught:
        make(*args, **changes)
    return str(caught.value), caught.value.at


def test_a_graph_knows_its_producers_and_totals():
    """Producers, forward ops, resident bytes and duration follow from the ops."""
    graph = chain()

    assert graph.producer == (None, 0, 1, 2, None, 3, 4, 5)
    assert graph.num_forward == 3
    assert graph.resident_bytes == 1
    assert graph.duration_ns == CHAIN_DURATION


@pytest.mark.parametrize(
    ("graph", "value", "name"),
    [
        (chain(), 0, "x"),
        (chain(), 1, "first of net.0"),
        (chain(), 2, "second"),
        (noisy(), 0, "input 0"),
        (noisy(), 2, "drop[1]"),
    ],
)
def test_a_value_is_described_by_its_name_or_its_maker(graph, value, name):
    """A person finds a value by its name, or by the op and position that make it."""
    assert graph.describe(value) == name


@pytest.mark.parametrize(
    ("number", "problem"), [(0, "duplicate id 0"), (9, "unexpected id 9")]
)
def test_ids_count_from_zero(number, problem):
    """A value or op that is not numbered by its position is refused."""
    rule = "expected 1; ids count 0, 1, 2 in order"

    assert refusal(with_value, chain(), 1, id=number) == (
        f"values[1]: {problem}, {rule}",
        "values[1].id",
    )
    assert refusal(with_op, chain(), 1, id=number) == (
        f"ops[1]: {problem}, {rule}",
        "ops[1].id",
    )


@pytest.mark.parametrize("amount", [-1, MAX_BYTES + 1])
@pytest.mark.parametrize("field", ["duration_ns", "workspace_bytes", "spread_ns"])
def test_amounts_of_ops_have_a_range(field, amount):
    """A negative or oversized cost of an op is refused."""
    assert refusal(with_op, chain(), 2, **{field: amount}) == (
        f"op 2 (third): {field} is {amount}, expected 0 to {MAX_BYTES}",
        f"ops[2].{field}",
    )


@pytest.mark.parametrize("amount", [-1, MAX_BYTES + 1])
def test_bytes_of_values_have_a_range(amount):
    """A negative or oversized value is refused."""
    assert refusal(with_value, chain(), 5, bytes=amount) == (
        f"value 5: bytes is {amount}, expected 0 to {MAX_BYTES}",
        "values[5].bytes",
    )


@pytest.mark.parametrize(
    ("index", "changes", "message", "at"),
    [
        (
            1,
            {"inputs": (1, 8)},
            "op 1 (second): inputs name value 8, but there are 8 values",
            "ops[1].inputs[1]",
        ),
        (
            1,
            {"outputs": (-1,)},
            "op 1 (second): outputs name value -1, but there are 8 values",
            "ops[1].outputs[0]",
        ),
        (
            4,
            {"inputs": (5, 1, 5)},
            "op 4 (second_back): inputs list value 5 twice",
            "ops[4].inputs[2]",
        ),
        (
            1,
            {"outputs": (2, 1)},
            "op 1 (second): value 1 is already made by op 0",
            "ops[1].outputs[1]",
        ),
        (
            1,
            {"outputs": (0,)},
            "op 1 (second): makes value 0, which is resident",
            "ops[1].outputs[0]",
        ),
        (
            0,
            {"inputs": (0, 2)},
            "op 0 (first): depends on itself (a cycle through value 2)",
            "ops[0].inputs[1]",
        ),
        (
            1,
            {"inputs": (2,)},
            "op 1 (second): depends on itself (a cycle through value 2)",
            "ops[1].inputs[0]",
        ),
        (
            1,
            {"phase": Phase.BACKWARD},
            "op 2 (third): a forward op after the first backward op",
            "ops[2].phase",
        ),
        (
            1,
            {"recompute": Recompute(allowed=True, reason=Reason.USER)},
            "op 1 (second): recompute is allowed, yet has a reason against it (user)",
            "ops[1].recompute",
        ),
        (
            1,
            {"recompute": Recompute(allowed=False)},
            "op 1 (second): recompute is not allowed, but no reason is given",
            "ops[1].recompute",
        ),
    ],
)
def test_a_broken_op_is_named_with_its_place(index, changes, message, at):
    """Each broken invariant of an op names the op and the field."""
    assert refusal(with_op, chain(), index, **changes) == (message, at)


def test_a_misordering_is_told_from_a_cycle():
    """An op listed too early is told apart from one that depends on itself."""
    graph = chain()
    ops = (replace(graph.ops[1], id=0), replace(graph.ops[0], id=1), *graph.ops[2:])

    assert refusal(replace, graph, ops=ops) == (
        (
            "op 0 (second): reads value 1, which op 1 makes only later; ops must be"
            " listed in an order that can run"
        ),
        "ops[0].inputs[0]",
    )


@pytest.mark.parametrize(
    ("changes", "message", "at"),
    [
        ({"ops": ()}, "the graph 'chain' has no ops", "ops"),
        (
            {"outputs": (3, 8)},
            "outputs name value 8, but there are 8 values",
            "outputs[1]",
        ),
        ({"outputs": (3, 3)}, "outputs list value 3 twice", "outputs[1]"),
        (
            {"meta": {"scale": 1.5}},
            "meta['scale']: expected a text or an integer, found 1.5",
            "meta.scale",
        ),
        (
            {"meta": {"tf32": True}},
            "meta['tf32']: expected a text or an integer, found True",
            "meta.tf32",
        ),
    ],
)
def test_a_broken_graph_is_refused(changes, message, at):
    """What is wrong with the graph as a whole is said too."""
    assert refusal(replace, chain(), **changes) == (message, at)


def test_sums_stay_within_64_bits():
    """Values that fit one by one, but not together, are refused."""
    extra = tuple(
        Value(number, MAX_BYTES, Kind.PARAM, resident=True) for number in range(8, 137)
    )
    message, at = refusal(replace, chain(), values=chain().values + extra)

    assert message.startswith("the bytes of all values sum to ")
    assert message.endswith(f", more than {2**60}")
    assert not at


@given(graphs())
def test_every_graph_lists_an_order_that_can_run(graph):
    """Every op once, in the order of the graph, breaks no rule."""
    assert check(graph, range(len(graph.ops))) == ()
