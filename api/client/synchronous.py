"""The blocking client."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2

from encamp.check import Violation
from encamp.graph import CostGraph
from encamp.plan import Plan

from . import asking
from .answers import Operation, SweepAnswer
from .asking import Ask, Begun, Search
from .carrying import (
    KEEP_ALIVE_S,
    Listener,
    listening,
    lost,
    reply_of,
    settings,
    tell,
    timeout_of,
)
from .exchange import (
    Conversation,
    Effect,
    Heard,
    Listen,
    Outcome,
    Patience,
    Pause,
    Send,
)
from .keys import read_key

_T = TypeVar("_T")
_SWEEP_POINTS = 12


class Client:
    """A planning service at an address.

    Requests that meet a busy or unreachable service are sent again, with growing
    pauses or when the service says. Everything asked here may be asked twice. The
    errors of every method are those the service names, such as `OptionError`, and
    `ServiceError`s, `UnreachableError` among them.
    """

    def __init__(
        self,
        server: str,
        *,
        key: str | None = None,
        timeout_s: float = 30.0,
        attempts: int = 5,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        """Prepare requests to a service; none is sent.

        Args:
            server: "http(s)://HOST[:PORT][/PATH]".
            key: an API key; by default that in $ENCAMP_KEY.
            timeout_s: seconds an answer may take, beyond what it is asked to wait.
            attempts: how often a request is sent before it counts as unanswered.
            transport: carries requests, for tests and unusual networks.

        Raises:
            OptionError: `server` is no such address, or the variable holds no key.

        """
        self.server = server
        self._timeout_s = timeout_s
        self._patience = Patience(attempts=max(attempts, 1))
        made = settings(server, read_key() if key is None else key, timeout_s)
        self._http = httpx2.Client(**made, transport=transport)

    def __repr__(self) -> str:
        """Return the address, and not the key."""
        return f"Client({self.server!r})"

    def __enter__(self) -> Self:
        """Return the client itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def plan(
        self,
        graph: CostGraph,
        budget: str | int,
        *,
        reserve: str | int = 0,
        search: Search = Search(),  # noqa: B008 - frozen
        listener: Listener | None = None,
        begun: Begun | None = None,
        within_s: float | None = None,
    ) -> Plan:
        """Return the plan of a graph under a budget, checked on that graph.

        The graph is uploaded unless the service has it. `budget` and `reserve` are
        what `encamp.plan` takes. With a `listener` progress is streamed to it; `begun`
        is called with the operation, if one is needed; after `within_s` seconds the
        wait ends.

        Raises:
            InfeasibleError: no schedule fits; with the smallest budget that does.
            NoPlanError: the wait, or the search, ended before any plan.
            ServiceError: what came back breaks a rule of the graph, or nothing did.

        """
        ask = Ask(
            "plans",
            graph,
            {"budget": budget, "reserve": reserve},
            search,
            listener is not None,
            begun,
            within_s,
        )
        return self._run(asking.planned(ask, self._patience), listener)

    def sweep(
        self,
        graph: CostGraph,
        budgets: Sequence[str | int] | None = None,
        *,
        points: int = _SWEEP_POINTS,
        search: Search = Search(),  # noqa: B008 - frozen
        listener: Listener | None = None,
    ) -> SweepAnswer:
        """Return the cheapest plans of a graph at many budgets, each checked on it.

        Raises:
            InfeasibleError: none of the budgets fits.

        """
        chosen = None if budgets is None else list(budgets)
        fields = {"points": points, "budgets": chosen}
        ask = Ask("plans:sweep", graph, fields, search, listener is not None)
        return self._run(asking.swept(ask, self._patience), listener)

    def min_budget(
        self,
        graph: CostGraph,
        *,
        search: Search = Search(),  # noqa: B008 - frozen
        listener: Listener | None = None,
    ) -> Plan:
        """Return the plan of the smallest budget found, which is its budget."""
        ask = Ask("plans:min-budget", graph, {}, search, listener is not None)
        return self._run(asking.planned(ask, self._patience), listener)

    def check(
        self, graph: CostGraph, plan: Plan, budget: str | int | None = None
    ) -> tuple[Violation, ...]:
        """Return the rules that a plan breaks, by the service's own check."""
        talk = asking.checked(graph, plan, budget, self._patience)
        return self._run(talk)

    def upload(self, graph: CostGraph) -> str:
        """Store a graph unless it is there and return its digest."""
        return self._run(asking.upload(graph, self._patience))

    def get_plan(self, digest: str) -> Plan:
        """Return the plan of a digest, as it is: it is checked on no graph."""
        return self._run(asking.fetch_plan(digest, self._patience))

    def operation(self, name: str, *, wait_s: float = 0) -> Operation:
        """Return an operation, once it has ended or so many seconds have gone by."""
        talk = asking.looked_up(name, self._patience, wait_s=wait_s)
        return self._run(talk)

    def operations(self, state: str | None = None) -> list[Operation]:
        """Return the tenant's operations, or those in a state, newest first."""
        return self._run(asking.listed(state, self._patience))

    def cancel(self, name: str) -> Operation:
        """Ask for the end of an operation, which keeps the best it has found.

        It is cancelled for everybody who waits for it.
        """
        return self._run(asking.cancelled(name, self._patience))

    def delete(self, name: str) -> None:
        """Forget an operation that has ended; what it found stays."""
        self._run(asking.deleted(name, self._patience))

    def version(self) -> dict[str, Any]:
        """Return the versions of what runs there."""
        document: dict[str, Any] = self._run(asking.get("/version", self._patience))
        return document

    def capabilities(self) -> dict[str, Any]:
        """Return what may be asked there, with which limits and defaults."""
        document: dict[str, Any] = self._run(
            asking.get("/v1/capabilities", self._patience)
        )
        return document

    def _run(self, talk: Conversation[_T], listener: Listener | None = None) -> _T:
        outcome: Outcome = None
        while True:
            try:
                effect = talk.send(outcome)
            except StopIteration as end:
                result: _T = end.value
                return result
            outcome = self._do(effect, listener)

    def _do(self, effect: Effect, listener: Listener | None) -> Outcome:
        if isinstance(effect, Pause):
            time.sleep(effect.seconds)
            return None
        if isinstance(effect, Listen):
            return self._listen(effect, listener)
        return self._send(effect)

    def _send(self, request: Send) -> Outcome:
        try:
            response = self._http.request(
                request.method,
                request.path,
                headers=dict(request.headers),
                content=request.content,
                timeout=timeout_of(request, self._timeout_s),
            )
        except httpx2.HTTPError as error:
            return lost(error)
        return reply_of(response)

    def _listen(self, listen: Listen, listener: Listener | None) -> Heard:
        last = listen.after
        try:
            with self._http.sse(
                listen.path, headers=listening(listen), timeout=KEEP_ALIVE_S
            ) as stream:
                for event in stream:
                    last = event.id or last
                    tell(event, listener)
        except httpx2.HTTPError:
            pass  # what became of the operation is asked for next
        return Heard(last)
