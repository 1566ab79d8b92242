"""Small random graphs of one phase, by seed, where the order of the ops matters.

Without a backward nothing says which op comes first but the data. Several outputs of
one op, given values, pinned ops, workspaces, tokens and values nobody reads occur.
"""

from random import Random

from encamp.graph import CostGraph, Kind, Op, Phase, Reason, Recompute, Value


def branches() -> CostGraph:
    """Return two branches that each make 10 bytes and reduce them to 1.

    ```
     0: a (10)   1: b (10)   2: c (1) of a   3: d (1) of b   4: e (1, output) of c, d
    ```

    In this order a and b are live at op 2: 21 bytes. One branch after the other peaks
    where the second is reduced: c, b and d are 12 bytes. In the given order that takes
    two recomputations, of 5 and 7 ns: neither a nor b is held while the other one is.
    """
    sizes, times = (10, 10, 1, 1, 1), (5, 7, 1, 1, 1)
    reads = ((), (), (0,), (1,), (2, 3))
    values = tuple(Value(i, size, Kind.ACTIVATION) for i, size in enumerate(sizes))
    ops = tuple(
        Op(i, f"op{i}", "t", Phase.FORWARD, reads[i], (i,), times[i]) for i in range(5)
    )
    return CostGraph("branches", values, ops, (4,))


def forward_step(seed: int, ops: int | None = None) -> CostGraph:
    """Return a graph of four to six ops, or of as many as said."""
    random = Random(seed)  # noqa: S311 - nothing secret
    values = [_value(random, 0, resident=True), _value(random, 1)]
    made: list[Op] = []
    for op in range(random.randint(4, 6) if ops is None else ops):
        near = [value.id for value in values][-8:]
        reads = sorted(random.sample(near, random.randint(1, min(3, len(near)))))
        first = len(values)
        values += [_value(random, first + i) for i in range(random.choice([1, 1, 2]))]
        made.append(_op(random, op, tuple(reads), tuple(range(first, len(values)))))
    outputs = {values[-1].id, random.choice(values).id}
    return CostGraph("forward", tuple(values), tuple(made), tuple(sorted(outputs)))


def layered(seed: int, layers: int, width: int) -> CostGraph:
    """Return layers of ops that each read some of the layer before.

    They are listed layer by layer, which holds the most values at once.
    """
    random = Random(seed)  # noqa: S311 - nothing secret
    values, ops, last = [], [], []
    for _ in range(layers):
        layer = []
        for _ in range(width):
            reads = sorted(random.sample(last, min(len(last), 2)))
            values.append(Value(len(values), random.randint(1, 9), Kind.ACTIVATION))
            made = Op(
                len(ops),
                f"op{len(ops)}",
                "aten.mm.default",
                Phase.FORWARD,
                tuple(reads),
                (values[-1].id,),
                random.randint(1, 9),
            )
            ops.append(made)
            layer.append(values[-1].id)
        last = layer
    return CostGraph("layered", tuple(values), tuple(ops), (len(values) - 1,))


def _value(random: Random, number: int, *, resident: bool = False) -> Value:
    size = random.choice([0, *range(1, 7), *range(1, 7)])
    kind = Kind.INPUT if number < 2 else Kind.ACTIVATION
    return Value(number, size, kind, resident)


def _op(
    random: Random, number: int, reads: tuple[int, ...], made: tuple[int, ...]
) -> Op:
    pinned = Recompute(allowed=False, reason=Reason.RANDOM)
    return Op(
        id=number,
        name=f"op{number}",
        target="aten.mm.default",
        phase=Phase.FORWARD,
        inputs=reads,
        outputs=made,
        duration_ns=random.randint(0, 6),
        workspace_bytes=random.choice([0, 0, 0, 1, 3]),
        recompute=pinned if random.random() < 0.15 else Recompute(),
    )
