"""Questions to the planner: answered at once where known, else by an operation."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Header
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from encamp.api.access import Caller, Writer
from encamp.api.bodies import StrictRoute
from encamp.api.operations import State
from encamp.api.problems import Problem
from encamp.api.questions import Question, known
from encamp.api.replies import accepted, problem_response
from encamp.api.routes.described import problems
from encamp.api.routes.graphs import find_graph
from encamp.api.schemas import (
    MinBudgetRequest,
    OperationDocument,
    PlanRequest,
    Result,
    SearchOptions,
    SweepRequest,
)
from encamp.api.service import Here, Service
from encamp.api.store import GraphEntry, Operation
from encamp.errors import OptionError
from encamp.planner import Action, Options, Rule
from encamp.units import parse_budget
from encamp.wire import graph_from_data, graph_to_json

router = APIRouter(route_class=StrictRoute, tags=["plans"])

_WAIT = re.compile(r"wait=(\d{1,6})")
_DEFAULT_S = 60.0
Prefer = Annotated[
    str | None,
    Header(
        description="`wait=N`: answer within N seconds if it can be.",
        examples=["wait=10"],
    ),
]
_RESPONSES: dict[int | str, dict[str, Any]] = {
    202: {"model": OperationDocument, "description": "It takes an operation."},
    **problems(404, 409, 413, 422, 429, 503),
}


@router.post(
    "/v1/plans",
    operation_id="makePlan",
    response_model=Result,
    responses=_RESPONSES,
)
async def make_plan(
    asked: PlanRequest, here: Here, caller: Writer, prefer: Prefer = None
) -> JSONResponse:
    """Find the cheapest schedule of a graph under a budget."""

    def request(entry: GraphEntry) -> dict[str, Any]:
        return {
            "budget_bytes": _bytes(entry, asked.budget),
            "reserve_bytes": _bytes(entry, asked.reserve),
        }

    asking = _Asking(here, caller, "plan", asked.graph, asked.options, request)
    return await asking.answer(prefer)


@router.post(
    "/v1/plans:sweep",
    operation_id="sweepPlans",
    response_model=Result,
    responses=_RESPONSES,
)
async def sweep_plans(
    asked: SweepRequest, here: Here, caller: Writer, prefer: Prefer = None
) -> JSONResponse:
    """Find the cheapest schedules of a graph at many budgets."""
    most = here.settings.caps.points
    if max(asked.points, len(asked.budgets or ())) > most:
        msg = f"a sweep takes at most {most} points here"
        raise OptionError(msg)

    def request(entry: GraphEntry) -> dict[str, Any]:
        chosen = asked.budgets
        budgets = None if chosen is None else [_bytes(entry, one) for one in chosen]
        return {"points": asked.points, "budgets": budgets}

    asking = _Asking(here, caller, "sweep", asked.graph, asked.options, request)
    return await asking.answer(prefer)


@router.post(
    "/v1/plans:min-budget",
    operation_id="findMinBudget",
    response_model=Result,
    responses=_RESPONSES,
)
async def find_min_budget(
    asked: MinBudgetRequest, here: Here, caller: Writer, prefer: Prefer = None
) -> JSONResponse:
    """Find the smallest budget that a schedule of a graph fits."""
    asking = _Asking(
        here, caller, "min-budget", asked.graph, asked.options, lambda _: {}
    )
    return await asking.answer(prefer)


@dataclass(frozen=True, slots=True)
class _Asking:
    """One question on its way to its answer."""

    here: Service
    caller: Caller
    kind: str
    graph: str | dict[str, Any]
    options: SearchOptions
    request: Callable[[GraphEntry], dict[str, Any]]

    async def answer(self, prefer: str | None) -> JSONResponse:
        """Return what is known, or what an operation finds while one waits for it."""
        here = self.here
        found = await run_in_threadpool(self._look_up)
        if isinstance(found, dict):
            return JSONResponse(found)
        seconds = _seconds(prefer, here.settings.caps.wait_s)
        if seconds is None:
            return accepted(found, {})
        await here.watch.until_ended(found.id, seconds)
        ended = await run_in_threadpool(
            here.store.queue.get, self.caller.tenant, found.id
        )
        applied = {"Preference-Applied": f"wait={seconds}"}
        return _replied(ended or found, applied)

    def _look_up(self) -> dict[str, Any] | Operation:
        """Return the known result, or the operation that is to find it."""
        here, question = self.here, self._question()
        found: dict[str, Any] | tuple[Operation, bool] | None
        found = known(here.store, question)
        if found is None:
            found = here.store.queue.submit_unless(
                question.submission(self.caller.key),
                here.settings.caps.room,
                lambda: known(here.store, question),
            )
        if isinstance(found, dict):
            self._count("known")
            return found
        operation, new = found
        self._count("solved" if new else "joined")
        here.replica.wake()
        return operation

    def _question(self) -> Question:
        entry = self._entry()
        options = _checked(self.options, self.here.settings.caps.time_limit_s)
        request = self.request(entry) | {"options": options}
        return Question(self.caller.tenant, self.kind, entry.digest, request)

    def _entry(self) -> GraphEntry:
        here, given = self.here, self.graph
        if isinstance(given, str):
            return find_graph(here, self.caller, given)
        graph = graph_from_data(
            given, source="body", field="graph", limits=here.settings.caps.reading
        )
        content = graph_to_json(graph).encode()
        digest = here.store.documents.put_graph(self.caller.tenant, content, graph)
        return find_graph(here, self.caller, digest)

    def _count(self, how: str) -> None:
        self.here.measures.answers.labels(self.kind, how).inc()


def _replied(operation: Operation, headers: dict[str, str]) -> JSONResponse:
    if not operation.state.ended:
        return accepted(operation, headers)
    headers = headers | {"Content-Location": f"/v1/operations/{operation.id}"}
    if operation.result is not None:
        return JSONResponse(operation.result, headers=headers)
    if operation.state is State.CANCELLED:
        return accepted(operation, headers)
    assert operation.error is not None  # noqa: S101 - it failed
    problem = Problem(**{k: operation.error[k] for k in _PROBLEM_FIELDS})
    return problem_response(problem, {"state": {}})


_PROBLEM_FIELDS = ("type", "title", "status", "detail")


def _bytes(entry: GraphEntry, amount: int | str) -> int:
    return parse_budget(
        amount,
        unplanned_peak=entry.unplanned_peak_bytes,
        device_bytes=entry.device_bytes,
    )


def _checked(given: SearchOptions, most_s: float) -> dict[str, Any]:
    """Return the options of a job, after the planner has looked at them.

    Raises:
        OptionError: they contradict each other, or ask for too much time.

    """
    options = given.model_dump()
    if given.work_limit is None and given.time_limit_s is None:
        options["time_limit_s"] = min(_DEFAULT_S, most_s)
    elif given.work_limit is not None and given.time_limit_s is not None:
        msg = "time_limit_s and work_limit exclude each other"
        raise OptionError(msg)
    elif given.time_limit_s is not None and given.time_limit_s > most_s:
        msg = f"time_limit_s is {given.time_limit_s:g}; at most {most_s:g} is allowed"
        raise OptionError(msg)
    rules = [Rule.parse(Action.KEEP, text) for text in given.keep]
    rules += [Rule.parse(Action.RECOMPUTE, text) for text in given.recompute]
    Options(
        seed=given.seed,
        time_limit_s=options["time_limit_s"],
        work_limit=given.work_limit,
        target_gap=given.target_gap,
        rules=tuple(rules),
        robust=given.robust,
        fixed_order=given.fixed_order,
    )
    return options


def _seconds(prefer: str | None, most: float) -> int | None:
    """Return for how long a Prefer header (RFC 7240) asks to wait, None for not."""
    found = _WAIT.search(prefer or "")
    return None if found is None else min(int(found[1]), int(most))
