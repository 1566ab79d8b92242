"""Graphs and plans as versioned JSON (`encamp.graph/1`, `encamp.plan/1`).

Files are `.json` or `.json.zst`. Reading is strict: whatever is not exactly what the
schema says is one `WireError` that names the file, the path in the document and what
was expected, and nothing half-read is returned. Writing is stable: the same graph or
plan gives the same text. A written file is there whole or not at all.
"""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path
from typing import NoReturn

from encamp.graph import CostGraph
from encamp.plan import Plan

from . import files, graphs, plans
from .document import Limits, Node, parse

__all__ = [
    "GRAPH_SCHEMA",
    "PLAN_SCHEMA",
    "Limits",
    "graph_from_data",
    "graph_from_json",
    "graph_to_json",
    "plan_fields",
    "plan_from_data",
    "plan_from_json",
    "plan_to_json",
    "read_document",
    "read_graph",
    "read_plan",
    "write_graph",
    "write_plan",
]

GRAPH_SCHEMA = graphs.SCHEMA
PLAN_SCHEMA = plans.SCHEMA
_KNOWN = (GRAPH_SCHEMA, PLAN_SCHEMA)
_DEFAULT_LIMITS = Limits()


def graph_to_json(graph: CostGraph) -> str:
    """Return a graph as an `encamp.graph/1` document."""
    return graphs.to_document(graph)


def graph_from_json(
    text: str | bytes, *, source: str = "graph", limits: Limits = _DEFAULT_LIMITS
) -> CostGraph:
    """Return the graph of an `encamp.graph/1` document; `source` names it in errors.

    Linear in the text.

    Raises:
        WireError: the text is no such document.

    """
    root = parse(text, source)
    _require_schema(root, GRAPH_SCHEMA)
    return graphs.from_document(root, limits)


def graph_from_data(
    data: object, *, source: str, field: str, limits: Limits = _DEFAULT_LIMITS
) -> CostGraph:
    """Return the graph of an `encamp.graph/1` document that is parsed already.

    `source` names the document it is a `field` of.

    Raises:
        WireError: the data is no such document.

    """
    root = Node(data, source, Node(None, source), field)
    _require_schema(root, GRAPH_SCHEMA)
    return graphs.from_document(root, limits)


def plan_to_json(plan: Plan) -> str:
    """Return a plan as an `encamp.plan/1` document.

    Raises:
        WireError: the plan holds a number that JSON has no word for.

    """
    return plans.to_document(plan)


def plan_fields(plan: Plan) -> dict[str, object]:
    """Return a plan's document without steps and outline, as plain data."""
    return plans.to_fields(plan)


def plan_from_json(
    text: str | bytes, *, source: str = "plan", limits: Limits = _DEFAULT_LIMITS
) -> Plan:
    """Return the plan of an `encamp.plan/1` document; `source` names it in errors.

    Linear in the text.

    Raises:
        WireError: the text is no such document.

    """
    root = parse(text, source)
    _require_schema(root, PLAN_SCHEMA)
    return plans.from_document(root, limits)


def plan_from_data(
    data: object, *, source: str, field: str, limits: Limits = _DEFAULT_LIMITS
) -> Plan:
    """Return the plan of an `encamp.plan/1` document that is parsed already.

    `source` names the document it is a `field` of.

    Raises:
        WireError: the data is no such document.

    """
    root = Node(data, source, Node(None, source), field)
    _require_schema(root, PLAN_SCHEMA)
    return plans.from_document(root, limits)


def read_graph(
    path: str | PathLike[str], *, limits: Limits = _DEFAULT_LIMITS
) -> CostGraph:
    """Return the graph in a `.json` or `.json.zst` file.

    Raises:
        WireError: the file cannot be read or holds no such document.

    """
    return graph_from_json(_content(path, limits), source=fspath(path), limits=limits)


def read_plan(path: str | PathLike[str], *, limits: Limits = _DEFAULT_LIMITS) -> Plan:
    """Return the plan in a `.json` or `.json.zst` file.

    Raises:
        WireError: the file cannot be read or holds no such document.

    """
    return plan_from_json(_content(path, limits), source=fspath(path), limits=limits)


def read_document(
    path: str | PathLike[str], *, limits: Limits = _DEFAULT_LIMITS
) -> CostGraph | Plan:
    """Return the graph or the plan in a file, whichever its schema says.

    Raises:
        WireError: the file cannot be read or holds neither.

    """
    root = parse(_content(path, limits), fspath(path))
    _require_schema(root, *_KNOWN)
    if root.child("schema").value == GRAPH_SCHEMA:
        return graphs.from_document(root, limits)
    return plans.from_document(root, limits)


def write_graph(graph: CostGraph, path: str | PathLike[str]) -> None:
    """Write a graph to a `.json` or `.json.zst` file, whole or not at all.

    Raises:
        WireError: it cannot be written; what was there is untouched.

    """
    files.write_text(Path(path), graph_to_json(graph))


def write_plan(plan: Plan, path: str | PathLike[str]) -> None:
    """Write a plan to a `.json` or `.json.zst` file, whole or not at all.

    Raises:
        WireError: it cannot be written; what was there is untouched.

    """
    files.write_text(Path(path), plan_to_json(plan))


def _content(path: str | PathLike[str], limits: Limits) -> bytes:
    return files.read_bytes(Path(path), limits.bytes)


def _require_schema(root: Node, *schemas: str) -> None:
    if "schema" not in root.mapping():
        root.fail(f"missing field 'schema', expected {' or '.join(schemas)}")
    node = root.child("schema")
    found = node.text()
    if found not in schemas:
        _wrong_schema(node, found, " or ".join(schemas))


def _wrong_schema(node: Node, found: str, expected: str) -> NoReturn:
    family, _, version = found.rpartition("/")
    if found in _KNOWN:
        node.fail(f"this is a document of {found}, expected {expected}")
    if version.isdecimal() and any(known.startswith(f"{family}/") for known in _KNOWN):
        node.fail(
            f"version {version} of {family} is not one this Encamp reads, expected"
            f" {expected}; upgrade Encamp or make the document again"
        )
    node.unexpected(expected)
