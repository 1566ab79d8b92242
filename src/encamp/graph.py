"""The cost graph: one training step as ops over storages, with bytes and times.

A **value is a storage**, not a tensor: views own nothing and are not ops. An **op**
is one call with its whole tuple of outputs. Invariants are checked once, when a
`CostGraph` is made; the rest of Encamp relies on them.

```
 value 0 (param, resident) ──┐
 value 1 (input, resident) ──┴─> op 0 forward ──> value 2 (activation) ──┐
                                    └───────────> value 3 (loss)         │
 value 4 (tangent) ─────────────────────────────> op 1 backward <────────┘
                                                     └──> value 5 (gradient)
```

A value of zero bytes is an ordering token: it makes one op wait for another (a
read that must precede a later write, draws from one random stream) and costs
nothing to hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from .errors import GraphError

MAX_BYTES = 2**53
"""Largest size or duration a value or an op may have (exact in JSON readers)."""
MAX_TOTAL = 2**60
"""Largest sum of sizes or of durations, so that 64-bit arithmetic never wraps."""


class Phase(StrEnum):
    """Which pass an op belongs to."""

    FORWARD = "forward"
    BACKWARD = "backward"


class Kind(StrEnum):
    """What a value is to the training step."""

    PARAM = "param"
    BUFFER = "buffer"
    INPUT = "input"
    OPTIMIZER = "optimizer"
    TANGENT = "tangent"
    ACTIVATION = "activation"
    GRADIENT = "gradient"


class Reason(StrEnum):
    """Why an op may not run a second time."""

    RANDOM = "random"
    MUTATED_INPUT = "mutated-input"
    IN_PLACE = "in-place"
    COLLECTIVE = "collective"
    DATA_DEPENDENT = "data-dependent"
    HOST_SYNC = "host-sync"
    UNKNOWN_OP = "unknown-op"
    USER = "user"


@dataclass(frozen=True, slots=True)
class Recompute:
    """Whether an op may run again, and if not, why."""

    allowed: bool = True
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Value:
    """A storage of `bytes` bytes; `resident` ones are held for the whole step."""

    id: int
    bytes: int
    kind: Kind
    resident: bool = False
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Op:
    """One call: reads `inputs`, makes `outputs`, takes `duration_ns`.

    `workspace_bytes` is what the kernel allocates beside its outputs while it runs.
    `spread_ns` is the interquartile range of the measured duration. `arguments` and
    `layout` are canonical texts of the scalar arguments and of the operands' shapes,
    dtypes and strides; only the fingerprints read them.
    """

    id: int
    name: str
    target: str
    phase: Phase
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    duration_ns: int
    workspace_bytes: int = 0
    recompute: Recompute = Recompute()
    module: str | None = None
    source: str | None = None
    spread_ns: int = 0
    arguments: str = ""
    layout: str = ""


@dataclass(frozen=True, slots=True)
class CostGraph:
    """A training step: values and ops, both in id order, ids counting from 0.

    Ops in order are a valid schedule: every input is produced earlier, and forward
    ops come before backward ones. `outputs` are alive at the end of the step.

    Raises:
        GraphError: an invariant does not hold; the message names the op or value.

    Making one is linear in ops and edges.
    """

    name: str
    values: tuple[Value, ...]
    ops: tuple[Op, ...]
    outputs: tuple[int, ...]
    meta: Mapping[str, str | int] = field(default_factory=dict)
    producer: tuple[int | None, ...] = field(init=False, repr=False, compare=False)
    """For each value the op that makes it, or None for what the step is given."""

    def __post_init__(self) -> None:
        """Check every invariant and derive the producers."""
        _check_values(self.values)
        object.__setattr__(self, "producer", _producers(self))
        _check_order(self)
        _check_outputs(self)
        _check_totals(self)

    @property
    def num_forward(self) -> int:
        """How many ops are forward; they are the first ones."""
        return sum(op.phase is Phase.FORWARD for op in self.ops)

    @property
    def resident_bytes(self) -> int:
        """Bytes held for the whole step whatever the plan."""
        return sum(v.bytes for v in self.values if v.resident)

    @property
    def duration_ns(self) -> int:
        """Duration of the unplanned step: every op once."""
        return sum(op.duration_ns for op in self.ops)

    def describe(self, value: int) -> str:
        """Return a name for a value that a person can find in the model."""
        known, maker = self.values[value], self.producer[value]
        if known.name is not None:
            return known.name
        if maker is None:
            return f"{known.kind} {value}"
        op = self.ops[maker]
        position = op.outputs.index(value)
        label = op.name if position == 0 else f"{op.name}[{position}]"
        return f"{label} of {op.module}" if op.module else label


def _fail(message: str) -> None:
    raise GraphError(message)


def _check_values(values: tuple[Value, ...]) -> None:
    for position, value in enumerate(values):
        if value.id != position:
            _fail(_misnumbered("value", position, value.id))
        _check_amount(f"value {value.id}", "bytes", value.bytes)


def _misnumbered(noun: str, position: int, found: int) -> str:
    problem = "duplicate id" if 0 <= found < position else "unexpected id"
    return f"{noun}s[{position}]: {problem} {found}; ids count 0, 1, 2, ... in order"


def _check_amount(where: str, field_name: str, amount: int) -> None:
    if not 0 <= amount <= MAX_BYTES:
        _fail(f"{where}: {field_name} is {amount}, expected 0 to {MAX_BYTES}")


def _producers(graph: CostGraph) -> tuple[int | None, ...]:
    producer: list[int | None] = [None] * len(graph.values)
    for position, op in enumerate(graph.ops):
        if op.id != position:
            _fail(_misnumbered("op", position, op.id))
        _check_op(op, len(graph.values))
        for value in op.outputs:
            _claim(graph, producer, op, value)
    return tuple(producer)


def _check_op(op: Op, num_values: int) -> None:
    for amount in ("duration_ns", "workspace_bytes", "spread_ns"):
        _check_amount(_label(op), amount, getattr(op, amount))
    for role in ("inputs", "outputs"):
        ids: tuple[int, ...] = getattr(op, role)
        for value in ids:
            if not 0 <= value < num_values:
                _fail(
                    f"{_label(op)}: {role} name value {value}, but there are only"
                    f" {num_values} values"
                )
        if len(set(ids)) != len(ids):
            _fail(f"{_label(op)}: {role} list a value twice: {list(ids)}")
    if op.recompute.allowed and op.recompute.reason is not None:
        _fail(f"{_label(op)}: recompute is allowed, yet has a reason against it")
    if not op.recompute.allowed and op.recompute.reason is None:
        _fail(f"{_label(op)}: recompute is not allowed, but no reason is given")


def _claim(
    graph: CostGraph, producer: list[int | None], op: Op, value: int
) -> None:
    if producer[value] is not None:
        _fail(f"{_label(op)}: value {value} is already made by op {producer[value]}")
    if graph.values[value].resident:
        _fail(f"{_label(op)}: makes value {value}, which is resident")
    producer[value] = op.id


def _check_order(graph: CostGraph) -> None:
    in_backward = False
    for op in graph.ops:
        if op.phase is Phase.BACKWARD:
            in_backward = True
        elif in_backward:
            _fail(f"{_label(op)}: a forward op after the first backward op")
        for value in op.inputs:
            maker = graph.producer[value]
            if maker is not None and maker >= op.id:
                _fail(_order_problem(graph, op, value, maker))


def _order_problem(graph: CostGraph, op: Op, value: int, maker: int) -> str:
    """Tell a cycle from a mere misordering."""
    seen, stack = {op.id}, [maker]
    while stack:
        current = stack.pop()
        if current == op.id:
            return f"{_label(op)}: depends on itself (a cycle through value {value})"
        seen.add(current)
        makers = (graph.producer[v] for v in graph.ops[current].inputs)
        stack += [m for m in makers if m is not None and (m not in seen or m == op.id)]
    return (
        f"{_label(op)}: reads value {value}, which op {maker} makes only later;"
        " ops must be listed in an order that can run"
    )


def _check_outputs(graph: CostGraph) -> None:
    for value in graph.outputs:
        if not 0 <= value < len(graph.values):
            _fail(f"outputs name value {value}, which does not exist")
    if len(set(graph.outputs)) != len(graph.outputs):
        _fail("outputs list a value twice")


def _check_totals(graph: CostGraph) -> None:
    totals = {
        "bytes of all values": sum(v.bytes for v in graph.values),
        "duration of all ops": graph.duration_ns,
        "workspace of all ops": sum(op.workspace_bytes for op in graph.ops),
    }
    for what, total in totals.items():
        if total > MAX_TOTAL:
            _fail(f"{what} sum to {total}, more than {MAX_TOTAL}")


def _label(op: Op) -> str:
    return f"op {op.id} ({op.name})"
