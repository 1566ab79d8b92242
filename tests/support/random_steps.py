"""Random graphs larger than an oracle can solve: each op reads some recent values.

No training step looks like this; order and recomputation matter much more in it.
"""

from random import Random

from encamp.graph import CostGraph, Kind, Op, Phase, Value

_REACH = 12
"""Values among the most recent that an op may read."""


def random_step(seed: int, ops: int) -> CostGraph:
    """Return a graph of so many ops, each of which makes one value."""
    random = Random(seed)  # noqa: S311 - nothing secret
    sizes = [random.randint(1, 1000) for _ in range(ops)]
    values = tuple(Value(i, size, Kind.ACTIVATION) for i, size in enumerate(sizes))
    made = tuple(_op(index, random) for index in range(ops))
    read = {value for op in made for value in op.inputs}
    outputs = tuple(value for value in range(ops) if value not in read)
    return CostGraph(f"random{seed}", values, made, outputs)


def _op(index: int, random: Random) -> Op:
    recent = range(max(0, index - _REACH), index)
    return Op(
        id=index,
        name=f"op{index}",
        target="test.op",
        phase=Phase.FORWARD,
        inputs=tuple(sorted(random.sample(recent, min(len(recent), 3)))),
        outputs=(index,),
        duration_ns=random.randint(1, 1000),
    )
