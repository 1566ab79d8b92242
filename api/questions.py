"""From what is asked to what is known of it, or to the operation that finds it out.

A question is a graph, a budget and options; its key is their digest together with the
planner's version. The time limit is no part of it: whoever gives more time asks the
same question, and has the answer so far as a start. The slot is the key with the
limit: of two requests in flight that are the same in both, one solve serves both.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import encamp
from encamp.errors import NotFoundError, StoreError
from encamp.wire import plan_from_json

from .pool import Job, Outcome
from .store import Answer, Documents, Store, Submission

PLANNER = f"encamp {encamp.__version__}, ortools {version('ortools')}"
"""What makes the plans; another version answers anew."""
_TIMED = ("time_limit_s",)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of one graph; `request` is what a `Job` takes beside it."""

    tenant: str
    kind: str
    graph: str
    request: Mapping[str, Any]

    @property
    def key(self) -> str:
        """Return the digest of what is asked, whatever the time it may take."""
        options = self.request["options"].items()
        untimed = {name: item for name, item in options if name not in _TIMED}
        asked = dict(self.request) | {"options": untimed}
        return _digest([self.kind, self.graph, asked, PLANNER])

    @property
    def limit_ms(self) -> int | None:
        """Return the time it may take in milliseconds, None for any."""
        seconds = self.request["options"]["time_limit_s"]
        return None if seconds is None else int(seconds * 1000)

    def submission(self, requester: str) -> Submission:
        """Return the operation to ask for."""
        return Submission(
            tenant=self.tenant,
            kind=self.kind,
            graph=self.graph,
            key=self.key,
            slot=f"{self.key}/{self.limit_ms}",
            requester=requester,
            request=self.request,
        )


def known(store: Store, question: Question) -> dict[str, Any] | None:
    """Return the result where one is known that serves; None where it takes a solve."""
    found = store.documents.answer(question.tenant, question.key)
    if found is None or not found.serves(question.limit_ms):
        return None
    result: dict[str, Any] = json.loads(found.result)
    return result


def job_of(documents: Documents, question: Question) -> Job:
    """Return the job of answering a question, from the best plan known so far.

    Raises:
        NotFoundError: its graph is gone.

    """
    graph = documents.graph(question.tenant, question.graph)
    if graph is None:
        msg = f"graph {question.graph} is not here any more; upload it again"
        raise NotFoundError(msg)
    return Job(question.kind, graph, question.request, _start(documents, question))


def _start(documents: Documents, question: Question) -> tuple[int, ...] | None:
    if question.kind != "plan":
        return None
    found = documents.answer(question.tenant, question.key)
    if found is None or found.plan is None:
        return None
    try:
        content = documents.plan(question.tenant, found.plan)
    except StoreError:  # damaged: solve without it
        return None
    return None if content is None else plan_from_json(content).steps


def keep(
    store: Store,
    connection: Any,  # noqa: ANN401 - a transaction of the store, for it alone
    question: Question,
    outcome: Outcome,
    spent_ms: int,
) -> dict[str, Any]:
    """Store what a job found, as part of a transaction, and return its result.

    The result names plans by digest where the outcome did by position.
    """
    assert outcome.result is not None  # noqa: S101 - callers keep what was found
    digests = [
        store.documents.put_plan(
            connection, question.tenant, question.graph, plan_from_json(text)
        )
        for text in outcome.plans
    ]
    result = _named(outcome.result, digests) | {
        "kind": question.kind,
        "graph": question.graph,
        "final": outcome.final,
    }
    before = store.documents.answer(question.tenant, question.key)
    answer = Answer(
        key=question.key,
        kind=question.kind,
        graph=question.graph,
        result=json.dumps(result),
        plan=result.get("plan"),
        final=outcome.final,
        spent_ms=spent_ms if before is None else max(spent_ms, before.spent_ms),
    )
    store.documents.put_answer(connection, question.tenant, answer)
    return result


def _named(result: Mapping[str, Any], digests: list[str]) -> dict[str, Any]:
    named = dict(result)
    if "plan" in named:
        named["plan"] = digests[named["plan"]]
    if "points" in named:
        named["points"] = [
            point | {"plan": digests[point["plan"]]} for point in named["points"]
        ]
    return named


def _digest(document: object) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
