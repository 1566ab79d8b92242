"""Small random graphs of one phase, by seed, where the order of the ops matters.

Without a backward nothing says which op comes first but the data. Several outputs of
one op, given values, pinned ops, workspaces, tokens and values nobody reads occur.
"""

from random import Random

from encamp.graph import CostGraph, Kind, Op, Phase, Reason, Recompute, Value


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
