"""What the routes work with: the store, the workers, the watch, the counters."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request
from structlog.typing import FilteringBoundLogger

from .access import Gate
from .measures import Measures
from .replica import Replica
from .settings import Settings
from .store import Store
from .watching import Watch

_MOST_HELD = 64 * 2**20


@dataclass(slots=True)
class Shelf:
    """Plans that were read last, which never change: bytes up to a limit."""

    most_bytes: int = _MOST_HELD
    _held: OrderedDict[tuple[str, str], bytes] = field(default_factory=OrderedDict)
    _bytes: int = 0

    def get(self, tenant: str, digest: str) -> bytes | None:
        """Return a plan that is here."""
        content = self._held.get((tenant, digest))
        if content is not None:
            self._held.move_to_end((tenant, digest))
        return content

    def put(self, tenant: str, digest: str, content: bytes) -> None:
        """Hold a plan, and let go of those that were not read for longest."""
        if (tenant, digest) in self._held or len(content) > self.most_bytes:
            return
        self._held[tenant, digest] = content
        self._bytes += len(content)
        while self._bytes > self.most_bytes:
            _, old = self._held.popitem(last=False)
            self._bytes -= len(old)


@dataclass(frozen=True, slots=True)
class Service:
    """All parts of one running service."""

    settings: Settings
    store: Store
    replica: Replica
    watch: Watch
    measures: Measures
    gate: Gate
    log: FilteringBoundLogger
    shelf: Shelf = field(default_factory=Shelf)


async def _of_request(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


Here = Annotated[Service, Depends(_of_request)]
