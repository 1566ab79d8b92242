"""Plans as JSON documents, and their fit to a graph."""

from __future__ import annotations

import json

from encamp import fingerprint
from encamp.errors import StalePlanError
from encamp.graph import CostGraph
from encamp.plan import Plan
from encamp.wire import plan_fields, plan_to_json


def plan_document(plan: Plan, *, whole: bool) -> dict[str, object]:
    """Return the plan as `encamp.wire` writes it: whole, or its figures only."""
    if not whole:
        return plan_fields(plan)
    document: dict[str, object] = json.loads(plan_to_json(plan))
    return document


def require_same_structure(plan: Plan, graph: CostGraph) -> None:
    """Refuse a plan that names the ops of another graph.

    Raises:
        StalePlanError: the structures differ.

    """
    if plan.graph.structure != fingerprint.structure(graph):
        msg = (
            f"the plan was made for a graph {plan.graph.name!r} of another structure"
            f" than {graph.name!r}; plan this graph anew"
        )
        raise StalePlanError(msg)
