"""Small random training steps, by seed: a forward, its mirror, and what complicates it.

Small enough for `oracle` (up to seven ops), with few enough bytes and nanoseconds that
ties are common, and with the features that bounds must get right: pinned ops,
workspaces, tokens of zero bytes, second outputs, tangents, forward outputs.
"""

from random import Random

from encamp.graph import CostGraph, Kind, Op, Phase, Reason, Recompute, Value


def small_step(seed: int) -> CostGraph:
    """Return a step of three or four forward ops and two or three backward ones."""
    return _Builder(Random(seed)).build()  # noqa: S311 - nothing secret


class _Builder:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.values: list[Value] = []
        self.ops: list[Op] = []
        self.outputs: list[int] = []

    def build(self) -> CostGraph:
        self.value(Kind.INPUT, resident=True)
        forward = self.random.randint(3, 4)
        backward = self.random.randint(2, 3)
        made = [self.op(Phase.FORWARD, self.some_of(range(len(self.values)), 2))]
        made += [self.forward(made[-1]) for _ in range(forward - 1)]
        self.output(made[-1], 0.7)
        gradient = self.value(Kind.TANGENT)
        for position in range(backward):
            saved = made[max(0, len(made) - 1 - position)]
            reads = {gradient, saved, *self.some_of(made, 1)}
            gradient = self.op(Phase.BACKWARD, sorted(reads))
            self.output(gradient, 0.4)
        if gradient not in self.outputs:
            self.outputs.append(gradient)
        return CostGraph(
            "small", tuple(self.values), tuple(self.ops), tuple(sorted(self.outputs))
        )

    def forward(self, last: int) -> int:
        older = [v.id for v in self.values if v.id != last]
        return self.op(Phase.FORWARD, sorted({last, *self.some_of(older, 1)}))

    def value(self, kind: Kind, *, resident: bool = False) -> int:
        size = self.random.choice([0, *range(1, 7), *range(1, 7)])
        self.values.append(Value(len(self.values), size, kind, resident))
        return len(self.values) - 1

    def op(self, phase: Phase, reads: list[int]) -> int:
        kind = Kind.ACTIVATION if phase is Phase.FORWARD else Kind.GRADIENT
        first = self.value(kind)
        made = [first, *(self.value(kind) for _ in range(self.chance(0.2)))]
        pinned = Recompute(allowed=False, reason=Reason.RANDOM)
        op = Op(
            id=len(self.ops),
            name=f"op{len(self.ops)}",
            target="aten.mm.default",
            phase=phase,
            inputs=tuple(reads),
            outputs=tuple(made),
            duration_ns=self.random.randint(0, 6),
            workspace_bytes=self.random.randint(1, 4) * self.chance(0.3),
            recompute=pinned if self.chance(0.15) else Recompute(),
        )
        self.ops.append(op)
        return self.random.choice(made)

    def output(self, value: int, probability: float) -> None:
        if self.chance(probability) and value not in self.outputs:
            self.outputs.append(value)

    def some_of(self, population, most: int) -> list[int]:
        chosen = self.random.randint(0, most)
        return sorted(
            self.random.sample(list(population), min(chosen, len(population)))
        )

    def chance(self, probability: float) -> int:
        return int(self.random.random() < probability)
