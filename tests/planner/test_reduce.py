"""Each reduction alone: what goes, and that nothing a schedule costs changes."""

from encamp.graph import CostGraph, Kind, Op, Phase, Value
from encamp.planner.problem import read
from encamp.planner.reduce import (
    absorb_unread,
    drop_tokens,
    merge_siblings,
    pin_useless,
    reduce,
)


def fan() -> CostGraph:
    """Return op 0 making five values of which op 1 reads three.

    Sizes in bytes: two siblings 3 and 4 for op 1, a token for op 1, 5 nobody reads, 6
    that is returned. Op 1 makes 7, which nobody reads.
    """
    values = (
        Value(0, 3, Kind.ACTIVATION),
        Value(1, 4, Kind.ACTIVATION),
        Value(2, 0, Kind.ACTIVATION),
        Value(3, 5, Kind.ACTIVATION),
        Value(4, 6, Kind.ACTIVATION),
        Value(5, 7, Kind.ACTIVATION),
    )
    ops = (
        Op(0, "make", "t", Phase.FORWARD, (), (0, 1, 2, 3, 4), 1),
        Op(1, "read", "t", Phase.FORWARD, (0, 1, 2), (5,), 1, workspace_bytes=2),
    )
    return CostGraph("fan", values, ops, (4,))


def test_siblings_become_one_value():
    """Those of 3, 4 and 0 bytes have one producer and one reader: 7 bytes."""
    assert sorted(merge_siblings(read(fan())).sizes) == [5, 6, 7, 7]


def test_an_output_is_no_sibling_of_what_is_not_returned():
    """Values of one op nobody reads merge only if both or neither are returned."""
    values = tuple(Value(i, 2, Kind.ACTIVATION) for i in range(3))
    op = Op(0, "make", "t", Phase.FORWARD, (), (0, 1, 2), 1)
    graph = CostGraph("ends", values, (op,), (1,))

    assert sorted(merge_siblings(read(graph)).sizes) == [2, 4]


def test_what_nobody_reads_is_workspace():
    """The 5 bytes of op 0 and the 7 of op 1 live for one step only."""
    lists = absorb_unread(read(fan()))

    assert sorted(lists.sizes) == [0, 3, 4, 6]
    assert lists.workspaces == [5, 9]


def test_tokens_are_left_out():
    """A value of zero bytes is always at hand; its order stays a predecessor."""
    lists = drop_tokens(read(fan()))

    assert 0 not in lists.sizes
    assert [len(row) for row in lists.reads] == [0, 2]


def test_an_op_of_no_use_is_pinned():
    """Op 1 makes nothing that is read or returned; op 0 does."""
    assert pin_useless(read(fan())).pinned == [False, True]


def test_all_together():
    """One value of 7 bytes for op 1 and one of 6 returned are left."""
    problem = reduce(fan())

    assert sorted(problem.sizes.tolist()) == [6, 7]
    assert problem.workspaces.tolist() == [5, 9]
    assert problem.follows.tolist() == [0]
