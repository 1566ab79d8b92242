"""Jobs for a pool: what is done at once, and what goes on until it is stopped."""

from typing import Any

from encamp.api.pool import Job
from encamp.graph import CostGraph
from encamp.wire import graph_to_json
from graphs import chain
from training_chains import random_chain

ENDLESS_BUDGET = 500
"""Bytes in which the endless graph has a plan soon, and a search has no end soon."""


def endless() -> CostGraph:
    """Return a graph whose gap at that budget a search does not close in minutes.

    Its peak is near 2700 bytes. Where a better planner does close it: take less.
    """
    return random_chain(1, 400)


def options(**changes: Any) -> dict[str, Any]:
    """Return the options of a job, all of them."""
    return {
        "seed": 0,
        "time_limit_s": 60.0,
        "work_limit": None,
        "target_gap": 0.0005,
        "keep": [],
        "recompute": [],
        "robust": None,
    } | changes


def plan_job(graph: CostGraph, budget: int, **changes: Any) -> Job:
    """Return the job of planning a graph."""
    request = {
        "budget_bytes": budget,
        "reserve_bytes": 0,
        "options": options(**changes),
    }
    return Job("plan", graph_to_json(graph).encode(), request)


def chain_job(budget: int = 43, **changes: Any) -> Job:
    """Return the job of planning the chain."""
    return plan_job(chain(), budget, **changes)


def endless_job(budget: int = ENDLESS_BUDGET, **changes: Any) -> Job:
    """Return a job that goes on until it is stopped."""
    return plan_job(endless(), budget, target_gap=0.0, **changes)
