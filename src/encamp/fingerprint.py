"""What makes two graphs the same step: `structure`, `exact` and where they differ.

Both fingerprints are sha256 over one line per op in a canonical form, so they ignore
how nodes are named, how values are numbered, in which order placeholders come, what
anything costs (durations, spreads, workspaces), where it was written (module, source),
`meta` and which ops may be recomputed.

A line of **structure** holds the op's class, phase, scalar arguments and inputs. An
input is written as the op that makes it and the position among that op's outputs, or,
for what the step is given, as its kind, its residency and a number by first use.

```
 op 0 forward   aten.mm.default   given param 0, given input 1
 op 1 backward  aten.mm.default   given input 1, output 0 of op 0
```

Attention and batch norm are other ops on other devices. Their variants form one class;
they take and return different extras in different places, so the inputs of such an
op are a set, its arguments are left out, and a use of any of its outputs is a use of
the op. **exact** takes none of these liberties and adds targets, operand layouts
(`Op.layout`) and the bytes and kind of every value.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from .graph import CostGraph, Op, Value

_ATTENTION = (
    "flash_attention",
    "flash_attention_for_cpu",
    "efficient_attention",
    "cudnn_attention",
    "fused_attention_overrideable",
)
_BATCH_NORM = (
    "native_batch_norm",
    "_native_batch_norm_legit",
    "_native_batch_norm_legit_functional",
    "_batch_norm_with_update",
    "_batch_norm_with_update_functional",
    "cudnn_batch_norm",
    "miopen_batch_norm",
)
_BATCH_NORM_BACKWARD = (
    "native_batch_norm_backward",
    "batch_norm_backward",
    "cudnn_batch_norm_backward",
    "miopen_batch_norm_backward",
)
_DEVICE_VARIANTS = {
    **{f"aten._scaled_dot_product_{n}": "attention" for n in _ATTENTION},
    **{
        f"aten._scaled_dot_product_{n}_backward": "attention backward"
        for n in _ATTENTION
    },
    **{f"aten.{n}": "batch norm" for n in _BATCH_NORM},
    **{f"aten.{n}": "batch norm backward" for n in _BATCH_NORM_BACKWARD},
}
"""Targets without their overload, to the class that their devices' variants share."""

_Reference = tuple[str | int | bool, ...]
_Line = tuple[str, str, str, tuple[_Reference, ...]]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first op in which two graphs differ in structure.

    `op` is its index in both, or None where only the outputs of the step differ;
    `left` and `right` are the ops there, None on the side that has ended.
    """

    op: int | None
    left: Op | None
    right: Op | None
    message: str


def structure(graph: CostGraph) -> str:
    """Return "sha256:..." over op classes, connectivity, phases and arguments.

    A plan binds to every graph of its structure. Linear in ops and edges.
    """
    lines, outputs = _structure(graph)
    return _digest("encamp.structure/1", (*lines, outputs))


def exact(graph: CostGraph) -> str:
    """Return "sha256:..." over `structure` and every target, layout and byte.

    Linear in ops, edges and values.
    """
    references = _References(graph, merge_variants=False)
    ops = [
        (
            op.target,
            str(op.phase),
            op.arguments,
            op.layout,
            tuple(references.of(op)),
            tuple(_size(graph.values[v]) for v in op.outputs),
        )
        for op in graph.ops
    ]
    given = [_size(graph.values[v]) for v in references.given]
    unused = sorted(
        _size(value)
        for value in graph.values
        if graph.producer[value.id] is None and value.id not in references.given
    )
    outputs = references.of_outputs()
    return _digest("encamp.exact/1", (*ops, given, unused, outputs))


def first_difference(left: CostGraph, right: CostGraph) -> Difference | None:
    """Return where the structures of two graphs first differ, or None.

    The message shows name, target, module, source, arguments and inputs of the op
    on either side. Linear in ops and edges.
    """
    left_lines, left_outputs = _structure(left)
    right_lines, right_outputs = _structure(right)
    pairs = zip_longest(left_lines, right_lines)
    for index, (ours, theirs) in enumerate(pairs):
        if ours != theirs:
            return _op_difference(index, (left, ours), (right, theirs))
    if left_outputs != right_outputs:
        message = (
            "every op agrees, but the outputs of the step differ:"
            f" {_only(left_outputs, right_outputs)} only in {left.name!r},"
            f" {_only(right_outputs, left_outputs)} only in {right.name!r}"
        )
        return Difference(None, None, None, message)
    return None


def outline(graph: CostGraph) -> tuple[str, ...]:
    """Return a line for each op: a digest of its structure, its target, its place.

    A plan keeps these lines, since it is often met without the graph it was made for.
    Linear in ops and edges.
    """
    lines, _ = _structure(graph)
    return tuple(
        f"{_short_digest(line)} {op.target}{_place(op)}"
        for op, line in zip(graph.ops, lines, strict=True)
    )


def difference_from(kept: Sequence[str], graph: CostGraph) -> str | None:
    """Return where a graph first departs from the outline of another, or None.

    The text shows the op on both sides. Linear in ops and edges.
    """
    for index, (theirs, ours) in enumerate(zip_longest(kept, outline(graph))):
        if theirs is None or ours is None or theirs.split()[0] != ours.split()[0]:
            return (
                f"the first op that differs is op {index}:"
                f"\n  the plan has {_without_digest(theirs)}"
                f"\n  this step has {_without_digest(ours)}{_inputs(graph, index)}"
            )
    return None


def op_class(target: str) -> str:
    """Return the class of an op: its target, or what its device variants share."""
    return _variant_class(target) or target


def _variant_class(target: str) -> str | None:
    return _DEVICE_VARIANTS.get(".".join(target.split(".")[:2]))


class _References:
    """Writes uses of values down, numbering what the step is given by first use."""

    def __init__(self, graph: CostGraph, *, merge_variants: bool) -> None:
        self.given: dict[int, int] = {}
        self._graph = graph
        self._merged = {
            op.id
            for op in graph.ops
            if merge_variants and _variant_class(op.target) is not None
        }
        self._positions = {
            value: position
            for op in graph.ops
            for position, value in enumerate(op.outputs)
        }

    def of(self, op: Op) -> Iterable[_Reference]:
        """Return the inputs of an op; call it for every op, in order."""
        references = dict.fromkeys(self._of_value(value) for value in op.inputs)
        return sorted(references) if op.id in self._merged else references

    def of_outputs(self) -> tuple[_Reference, ...]:
        """Return the outputs of the step, in an order of their own."""
        return tuple(sorted(self._of_output(value) for value in self._graph.outputs))

    def _of_value(self, value: int) -> _Reference:
        maker = self._graph.producer[value]
        if maker is None:
            number = self.given.setdefault(value, len(self.given))
            return (*_nature(self._graph.values[value]), number)
        if maker in self._merged:
            return ("op", maker)
        return ("op", maker, self._positions[value])

    def _of_output(self, value: int) -> _Reference:
        # A given value that no op reads has no number that both sides agree on.
        if self._graph.producer[value] is None and value not in self.given:
            return (*_nature(self._graph.values[value]), -1)
        return self._of_value(value)


def _nature(value: Value) -> tuple[str, str, bool]:
    return ("given", str(value.kind), value.resident)


def _size(value: Value) -> tuple[str, bool, int]:
    return (str(value.kind), value.resident, value.bytes)


def _structure(graph: CostGraph) -> tuple[list[_Line], tuple[_Reference, ...]]:
    references = _References(graph, merge_variants=True)
    lines = [_line(op, tuple(references.of(op))) for op in graph.ops]
    return lines, tuple(dict.fromkeys(references.of_outputs()))


def _line(op: Op, inputs: tuple[_Reference, ...]) -> _Line:
    variant = _variant_class(op.target)
    if variant is None:
        return (op.target, str(op.phase), op.arguments, inputs)
    return (variant, str(op.phase), "", inputs)


def _digest(title: str, lines: Iterable[object]) -> str:
    # JSON quotes strings, so no text can imitate the bounds of a field or a line.
    state = hashlib.sha256(title.encode())
    for line in lines:
        state.update(b"\n" + json.dumps(line).encode("ascii"))
    return f"sha256:{state.hexdigest()}"


def _short_digest(line: _Line) -> str:
    return hashlib.sha256(json.dumps(line).encode("ascii")).hexdigest()[:12]


def _place(op: Op) -> str:
    module = f" in {op.module}" if op.module else ""
    return f"{module} at {op.source}" if op.source else module


def _without_digest(line: str | None) -> str:
    return "no such op: it has ended" if line is None else line.partition(" ")[2]


def _inputs(graph: CostGraph, index: int) -> str:
    if index >= len(graph.ops):
        return ""
    read = ", ".join(_input(graph, value) for value in graph.ops[index].inputs)
    return f", reading {read}" if read else ""


_Side = tuple[CostGraph, _Line | None]


def _op_difference(index: int, left: _Side, right: _Side) -> Difference:
    ops = [
        graph.ops[index] if line is not None else None for graph, line in (left, right)
    ]
    sides = [
        f"  {graph.name!r} has {_shown(graph, line, index)}"
        for graph, line in (left, right)
    ]
    what = " and ".join(_aspects(left[1], right[1]))
    message = "\n".join([f"op {index} differs in {what}:", *sides])
    return Difference(index, ops[0], ops[1], message)


def _aspects(left: _Line | None, right: _Line | None) -> Iterator[str]:
    if left is None or right is None:
        yield "being there"
        return
    names = ("class", "phase", "arguments", "inputs")
    for name, ours, theirs in zip(names, left, right, strict=True):
        if ours != theirs:
            yield name


def _shown(graph: CostGraph, line: _Line | None, index: int) -> str:
    if line is None:
        return f"no such op; it ends after {len(graph.ops)} ops"
    op = graph.ops[index]
    place = [
        f"{label} {text}"
        for label, text in (("in", op.module), ("at", op.source))
        if text is not None
    ]
    arguments = f" with arguments {op.arguments}" if op.arguments else ""
    inputs = ", ".join(_input(graph, value) for value in op.inputs) or "nothing"
    title = " ".join([f"{op.name} ({op.target}, {op.phase})", *place])
    return f"{title}, reading {inputs}{arguments}"


def _input(graph: CostGraph, value: int) -> str:
    maker = graph.producer[value]
    name = graph.describe(value)
    return name if maker is None else f"op {maker} {name}"


def _only(ours: Sequence[_Reference], theirs: Sequence[_Reference]) -> str:
    known = set(theirs)
    extra = [_named(reference) for reference in ours if reference not in known]
    return ", ".join(extra) or "none"


def _named(reference: _Reference) -> str:
    if reference[0] != "op":
        return f"a given {reference[1]}"
    position = f"[{reference[2]}]" if len(reference) > 2 else ""
    return f"op {reference[1]}{position}"
