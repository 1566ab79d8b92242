"""`encamp.graph/1`: cost graphs as JSON, one value and one op a line."""

from __future__ import annotations

from collections.abc import Iterator

from encamp.errors import GraphError
from encamp.graph import (
    MAX_BYTES,
    CostGraph,
    Kind,
    Op,
    Phase,
    Reason,
    Recompute,
    Value,
)

from .document import Limits, Node, one_line

SCHEMA = "encamp.graph/1"


def to_document(graph: CostGraph) -> str:
    """Return a graph as text; what equals its default is left out."""
    head: dict[str, object] = {"schema": SCHEMA, "name": graph.name}
    if graph.meta:
        head["meta"] = dict(graph.meta)
    parts = [f"{one_line(key)}: {one_line(item)}" for key, item in head.items()]
    parts.append(_listed("values", [_value_document(v) for v in graph.values]))
    parts.append(_listed("ops", [_op_document(op) for op in graph.ops]))
    parts.append(f'"outputs": {one_line(graph.outputs)}')
    return "{" + ",\n ".join(parts) + "}\n"


def from_document(root: Node, limits: Limits) -> CostGraph:
    """Return the graph that a document of this schema holds.

    Raises:
        WireError: it is not one; the message names the place.

    """
    root.fields(("schema", "name", "values", "ops", "outputs"), ("meta",))
    name = root.child("name").text()
    meta = root.optional("meta")
    values = tuple(_value(n) for n in root.child("values").items(limits.values))
    ops = _ops(root.child("ops").items(limits.ops), limits)
    outputs = root.child("outputs").integers(MAX_BYTES, limits.values)
    try:
        return CostGraph(name, values, ops, outputs, _meta(meta) if meta else {})
    except GraphError as error:
        root.fail(str(error), f".{error.at}" if error.at else "")


def _listed(key: str, lines: list[dict[str, object]]) -> str:
    body = ",\n  ".join(one_line(line) for line in lines)
    return f'"{key}": [\n  {body}]'


def _value_document(value: Value) -> dict[str, object]:
    document: dict[str, object] = {
        "id": value.id,
        "bytes": value.bytes,
        "kind": value.kind,
    }
    if value.resident:
        document["resident"] = True
    if value.name is not None:
        document["name"] = value.name
    return document


def _op_document(op: Op) -> dict[str, object]:
    document: dict[str, object] = {
        "id": op.id,
        "name": op.name,
        "target": op.target,
        "phase": op.phase,
        "inputs": op.inputs,
        "outputs": op.outputs,
        "duration_ns": op.duration_ns,
    }
    if not op.recompute.allowed:
        document["recompute"] = {"allowed": False, "reason": op.recompute.reason}
    for field in ("module", "source"):
        text = getattr(op, field)
        if text is not None:
            document[field] = text
    for field in ("workspace_bytes", "spread_ns", "arguments", "layout"):
        item = getattr(op, field)
        if item:
            document[field] = item
    return document


_VALUE_REQUIRED = ("id", "bytes", "kind")
_VALUE_OPTIONAL = ("resident", "name")
_OP_REQUIRED = ("id", "name", "target", "phase", "inputs", "outputs", "duration_ns")
_OP_OPTIONAL = (
    "workspace_bytes",
    "recompute",
    "module",
    "source",
    "spread_ns",
    "arguments",
    "layout",
)


def _meta(node: Node) -> dict[str, str | int]:
    return {
        key: item.integer(low=-MAX_BYTES, high=MAX_BYTES)
        if type(item.value) is int
        else item.text()
        for key, item in node.children()
    }


def _value(node: Node) -> Value:
    node.fields(_VALUE_REQUIRED, _VALUE_OPTIONAL)
    resident, name = node.optional("resident"), node.optional("name")
    return Value(
        id=node.child("id").integer(high=MAX_BYTES),
        bytes=node.child("bytes").integer(high=MAX_BYTES),
        kind=node.child("kind").choice(Kind),
        resident=resident.flag() if resident else False,
        name=name.text() if name else None,
    )


def _ops(nodes: Iterator[Node], limits: Limits) -> tuple[Op, ...]:
    ops: list[Op] = []
    edges = 0
    for node in nodes:
        op = _op(node, limits)
        edges += len(op.inputs)
        if edges > limits.edges:
            node.fail(f"the graph has more than the limit of {limits.edges} edges")
        ops.append(op)
    return tuple(ops)


def _op(node: Node, limits: Limits) -> Op:
    node.fields(_OP_REQUIRED, _OP_OPTIONAL)
    recompute = node.optional("recompute")
    return Op(
        id=node.child("id").integer(high=MAX_BYTES),
        name=node.child("name").text(),
        target=node.child("target").text(),
        phase=node.child("phase").choice(Phase),
        inputs=node.child("inputs").integers(MAX_BYTES, limits.edges),
        outputs=node.child("outputs").integers(MAX_BYTES, limits.values),
        duration_ns=node.child("duration_ns").integer(high=MAX_BYTES),
        workspace_bytes=_amount(node, "workspace_bytes"),
        recompute=_recompute(recompute) if recompute else Recompute(),
        module=_text(node, "module"),
        source=_text(node, "source"),
        spread_ns=_amount(node, "spread_ns"),
        arguments=_text(node, "arguments") or "",
        layout=_text(node, "layout") or "",
    )


def _amount(node: Node, field: str) -> int:
    found = node.optional(field)
    return found.integer(high=MAX_BYTES) if found else 0


def _text(node: Node, field: str) -> str | None:
    found = node.optional(field)
    return found.text() if found else None


def _recompute(node: Node) -> Recompute:
    node.fields(("allowed",), ("reason",))
    reason = node.optional("reason")
    return Recompute(
        allowed=node.child("allowed").flag(),
        reason=reason.choice(Reason) if reason else None,
    )
