"""Training steps that are plain chains: forward stages and their mirror.

```
 x ──f0──> a1 ──f1──> a2 ──f2──> a3 = loss
           (s0)       (s1)       (s2)             what a stage saves besides
 d0 <─b0── d1 <─b1── d2 <─b2── (tangent)
```

Stage `i` reads `a_i` and makes `a_{i+1}` and `s_i`; its backward reads `a_i`, `s_i`,
the gradient `d_{i+1}` and, where it is told to, `a_{i+1}`, and makes `d_i` and a
gradient of its parameters. `x` is resident; outputs are the loss, `d_0` and the
parameters' gradients.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from encamp.graph import CostGraph, Kind, Op, Phase, Value


@dataclass(frozen=True, slots=True)
class Stage:
    """Bytes and nanoseconds of one stage; values of zero bytes are left out."""

    state: int = 1
    """Bytes of `a_{i+1}`, which the stage makes."""
    saved: int = 0
    """Bytes of `s_i`."""
    gradient: int = 1
    """Bytes of `d_i`."""
    parameters: int = 0
    """Bytes of the gradient of the stage's parameters."""
    forward_ns: int = 1
    backward_ns: int = 1
    workspace: int = 0
    """Bytes beside the values, forward and backward."""
    reads_result: bool = False
    """Whether the backward reads `a_{i+1}`."""


def training_chain(stages: Sequence[Stage]) -> CostGraph:
    """Return the step of some stages, its tangent and its input without bytes."""
    return _Builder().build(stages)


def uniform_chain(length: int) -> CostGraph:
    """Return a chain whose values take a byte and whose ops take a nanosecond."""
    return training_chain([Stage()] * length)


def random_chain(seed: int, length: int) -> CostGraph:
    """Return a chain of small random sizes, whose backward reads all it may.

    Its loss has no bytes, so that what lives throughout the step has none.
    """
    random = Random(seed)  # noqa: S311 - nothing secret
    return training_chain(
        [
            Stage(
                state=random.randint(1, 6) if i + 1 < length else 0,
                saved=random.randint(0, 6),
                gradient=random.randint(1, 6),
                parameters=random.randint(0, 2),
                forward_ns=random.randint(1, 9),
                backward_ns=random.randint(1, 9),
                workspace=random.randint(0, 3),
                reads_result=True,
            )
            for i in range(length)
        ]
    )


class _Builder:
    def __init__(self) -> None:
        self.values: list[Value] = []
        self.ops: list[Op] = []
        self.outputs: list[int] = []

    def build(self, stages: Sequence[Stage]) -> CostGraph:
        states = [self.value(Kind.INPUT, 0, resident=True)]
        saved: list[list[int]] = []
        for stage in stages:
            reads = [states[-1]]
            states.append(self.value(Kind.ACTIVATION, stage.state))
            saved.append(self.optional(Kind.ACTIVATION, stage.saved))
            made = (states[-1], *saved[-1])
            self.op(Phase.FORWARD, reads, made, stage.forward_ns, stage.workspace)
        self.outputs.append(states[-1])
        gradient = self.value(Kind.TANGENT, 0)
        for i, stage in reversed(list(enumerate(stages))):
            reads = [
                gradient,
                states[i],
                *saved[i],
                *states[i + 1 :][: stage.reads_result],
            ]
            gradient = self.value(Kind.GRADIENT, stage.gradient)
            parameters = self.optional(Kind.GRADIENT, stage.parameters)
            self.outputs += parameters
            made = (gradient, *parameters)
            self.op(Phase.BACKWARD, reads, made, stage.backward_ns, stage.workspace)
        self.outputs.append(gradient)
        return CostGraph(
            "chain", tuple(self.values), tuple(self.ops), tuple(sorted(self.outputs))
        )

    def value(self, kind: Kind, size: int, *, resident: bool = False) -> int:
        self.values.append(Value(len(self.values), size, kind, resident))
        return len(self.values) - 1

    def optional(self, kind: Kind, size: int) -> list[int]:
        return [self.value(kind, size)] if size else []

    def op(
        self,
        phase: Phase,
        reads: Sequence[int],
        makes: Sequence[int],
        duration: int,
        workspace: int,
    ) -> None:
        op = Op(
            id=len(self.ops),
            name=f"op{len(self.ops)}",
            target="aten.mm.default",
            phase=phase,
            inputs=tuple(reads),
            outputs=tuple(makes),
            duration_ns=duration,
            workspace_bytes=workspace,
        )
        self.ops.append(op)
