"""Training steps made for the planner, with plans a reader can derive."""

from encamp.graph import CostGraph, Kind, Op, Phase, Value


def knapsack(*, size: int = 1, cost: int = 10) -> CostGraph:
    """Return three equal activations, each read once by the backward.

    ```
     0: a   1: b   2: c      `size` bytes and `cost` ns each
     3 reads a   4 reads b   5 reads c      1 ns each, in this order
    ```

    Unplanned, all three are live at op 3. With room for one only two run again.
    """
    values = tuple(Value(i, size, Kind.ACTIVATION) for i in range(3))
    values += tuple(Value(i, 0, Kind.GRADIENT) for i in range(3, 6))
    forward = tuple(
        Op(i, f"f{i}", "t", Phase.FORWARD, (), (i,), cost) for i in range(3)
    )
    backward = tuple(
        Op(i + 3, f"b{i}", "t", Phase.BACKWARD, reads, (i + 3,), 1)
        for i, reads in enumerate([(0,), (1, 3), (2, 4)])
    )
    return CostGraph("knapsack", values, (*forward, *backward), (5,))
