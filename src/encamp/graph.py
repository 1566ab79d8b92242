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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NoReturn

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
    GIVEN = "given"


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

    Making one is linear in ops and edges.

    Raises:
        GraphError: an invariant does not hold; the message names the op or value.

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
        if not self.ops:
            _fail(f"the graph {self.name!r} has no ops", "ops")
        _check_meta(self.meta)
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


def _fail(message: str, at: str) -> NoReturn:
    raise GraphError(message, at=at)


def _check_meta(meta: Mapping[str, str | int]) -> None:
    for key, item in meta.items():
        if isinstance(item, bool) or not isinstance(item, str | int):
            message = f"expected a text or an integer, found {item!r}"
            _fail(f"meta[{key!r}]: {message}", f"meta.{key}")


def _check_values(values: tuple[Value, ...]) -> None:
    for position, value in enumerate(values):
        _check_id("values", position, value.id)
        at = f"values[{position}].bytes"
        _check_amount(f"value {position}", at, value.bytes)


def _check_id(listing: str, position: int, found: int) -> None:
    if found != position:
        problem = "duplicate id" if 0 <= found < position else "unexpected id"
        message = f"{problem} {found}, expected {position}; ids count 0, 1, 2 in order"
        _fail(f"{listing}[{position}]: {message}", f"{listing}[{position}].id")


def _check_amount(label: str, at: str, amount: int) -> None:
    if not 0 <= amount <= MAX_BYTES:
        field_name = at.rpartition(".")[2]
        _fail(f"{label}: {field_name} is {amount}, expected 0 to {MAX_BYTES}", at)


def _producers(graph: CostGraph) -> tuple[int | None, ...]:
    producer: list[int | None] = [None] * len(graph.values)
    for position, op in enumerate(graph.ops):
        _check_id("ops", position, op.id)
        _check_amounts(op)
        _check_edges(op, "inputs", op.inputs, len(graph.values))
        _check_edges(op, "outputs", op.outputs, len(graph.values))
        _check_recompute(op)
        for index, value in enumerate(op.outputs):
            _check_unclaimed(graph, producer, op, index)
            producer[value] = op.id
    return tuple(producer)


def _check_amounts(op: Op) -> None:
    for name in ("duration_ns", "workspace_bytes", "spread_ns"):
        _check_amount(_label(op), f"ops[{op.id}].{name}", getattr(op, name))


def _check_edges(op: Op, role: str, ids: tuple[int, ...], num_values: int) -> None:
    for index, value in enumerate(ids):
        if not 0 <= value < num_values:
            message = f"{role} name value {value}, but there are {num_values} values"
            _fail(f"{_label(op)}: {message}", f"ops[{op.id}].{role}[{index}]")
    _check_distinct(f"{_label(op)}: {role}", f"ops[{op.id}].{role}", ids)


def _check_distinct(label: str, at: str, ids: tuple[int, ...]) -> None:
    if len(set(ids)) == len(ids):
        return
    seen: set[int] = set()
    for index, value in enumerate(ids):
        if value in seen:
            _fail(f"{label} list value {value} twice", f"{at}[{index}]")
        seen.add(value)


def _check_recompute(op: Op) -> None:
    allowed, reason = op.recompute.allowed, op.recompute.reason
    if allowed and reason is not None:
        message = f"recompute is allowed, yet has a reason against it ({reason})"
        _fail(f"{_label(op)}: {message}", f"ops[{op.id}].recompute")
    if not allowed and reason is None:
        message = "recompute is not allowed, but no reason is given"
        _fail(f"{_label(op)}: {message}", f"ops[{op.id}].recompute")


def _check_unclaimed(
    graph: CostGraph, producer: Sequence[int | None], op: Op, index: int
) -> None:
    value, at = op.outputs[index], f"ops[{op.id}].outputs[{index}]"
    maker = producer[value]
    if maker is not None:
        _fail(f"{_label(op)}: value {value} is already made by op {maker}", at)
    if graph.values[value].resident:
        _fail(f"{_label(op)}: makes value {value}, which is resident", at)


def _check_order(graph: CostGraph) -> None:
    in_backward = False
    for op in graph.ops:
        if op.phase is Phase.BACKWARD:
            in_backward = True
        elif in_backward:
            message = "a forward op after the first backward op"
            _fail(f"{_label(op)}: {message}", f"ops[{op.id}].phase")
        for index, value in enumerate(op.inputs):
            maker = graph.producer[value]
            if maker is not None and maker >= op.id:
                at = f"ops[{op.id}].inputs[{index}]"
                _fail(_order_problem(graph, op, value, maker), at)


def _order_problem(graph: CostGraph, op: Op, value: int, maker: int) -> str:
    """Tell a cycle from a mere misordering."""
    seen, stack = {maker}, [maker]
    while stack:
        current = stack.pop()
        if current == op.id:
            return f"{_label(op)}: depends on itself (a cycle through value {value})"
        for read in graph.ops[current].inputs:
            earlier = graph.producer[read]
            if earlier is not None and earlier not in seen:
                seen.add(earlier)
                stack.append(earlier)
    return (
        f"{_label(op)}: reads value {value}, which op {maker} makes only later;"
        " ops must be listed in an order that can run"
    )


def _check_outputs(graph: CostGraph) -> None:
    for index, value in enumerate(graph.outputs):
        if not 0 <= value < len(graph.values):
            message = f"name value {value}, but there are {len(graph.values)} values"
            _fail(f"outputs {message}", f"outputs[{index}]")
    _check_distinct("outputs", "outputs", graph.outputs)


def _check_totals(graph: CostGraph) -> None:
    totals = {
        "the bytes of all values": sum(v.bytes for v in graph.values),
        "the durations of all ops": graph.duration_ns,
        "the workspaces of all ops": sum(op.workspace_bytes for op in graph.ops),
    }
    for what, total in totals.items():
        if total > MAX_TOTAL:
            _fail(f"{what} sum to {total}, more than {MAX_TOTAL}", "")


def _label(op: Op) -> str:
    return f"op {op.id} ({op.name})"
