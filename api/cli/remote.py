"""Solve for `encamp plan --server`: on a service, with progress and Ctrl-C as here."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

from encamp.api.client import Client, Operation, Search, read_key
from encamp.api.lock import Choices
from encamp.errors import EncampError
from encamp.graph import CostGraph
from encamp.plan import Plan

from .output import note
from .search import on_interrupt, share, solving


@dataclass(frozen=True, slots=True)
class Remote:
    """A service, and the file that holds the key for it, if any."""

    server: str
    key_file: Path | None

    def solve(self, graph: CostGraph, choices: Choices) -> Plan:
        """Return the plan of a graph, checked here.

        Raises:
            EncampError: as solving in this process does; and a `ServiceError` where
                the service refuses or does not answer.

        """
        search = Search(
            seed=choices.seed,
            time_limit_s=choices.time_limit_s,
            work_limit=choices.work_limit,
            keep=choices.keep,
            recompute=choices.recompute,
            fixed_order=choices.fixed_order,
            robust=None if choices.robust is None else share(choices.robust),
        )
        with Client(self.server, key=read_key(self.key_file)) as client:
            canceller = _Canceller(client)
            with on_interrupt(canceller.ask), solving(choices.time_limit_s) as tell:
                return client.plan(
                    graph,
                    choices.budget,
                    reserve=choices.reserve,
                    search=search,
                    listener=tell,
                    begun=canceller.begun,
                )


@dataclass(slots=True)
class _Canceller:
    """Ends the operation that is waited for, from a signal handler."""

    client: Client
    asked: bool = False
    operation: Operation | None = field(default=None)

    def begun(self, operation: Operation) -> None:
        """Know the operation; end it if its end was asked for before."""
        self.operation = operation
        if self.asked:
            self._cancel()

    def ask(self) -> None:
        """Ask for the end; a handler must not wait for the answer."""
        self.asked = True
        if self.operation is not None:
            Thread(target=self._cancel, daemon=True).start()

    def _cancel(self) -> None:
        assert self.operation is not None  # noqa: S101 - callers know it
        try:
            self.client.cancel(self.operation.id)
        except EncampError as error:
            note(f"the service was not told to stop: {error}")
