"""The service as a source of plans at training start.

It is registered under `encamp.plan_sources` for `http` and `https`, so that
`torch.compile(..., backend="encamp", options={"server": URL, ...})` finds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

from encamp.graph import CostGraph
from encamp.plan import Plan

from .asking import Search
from .keys import read_key
from .synchronous import Client

_ATTEMPTS = 3
_QUEUE_S = 60.0
"""How long, beyond the time of its search, a training waits for its plan."""


@dataclass(frozen=True, slots=True)
class ServerPlans:
    """A service by its address, and the file that holds the key for it, if any."""

    address: str
    key_file: str | PathLike[str] | None = None

    def find(
        self,
        graph: CostGraph,
        *,
        budget_bytes: int,
        reserve_bytes: int,
        seed: int,
        time_limit_s: float | None,
        keep: tuple[str, ...],
        recompute: tuple[str, ...],
    ) -> Plan:
        """Return the plan the service knows or makes, checked on the graph in hand.

        Raises:
            InfeasibleError: no schedule fits.
            NoPlanError: there was none in the time of the search and a minute.
            ServiceError: the service refuses, or does not answer.

        """
        search = Search(
            seed=seed, time_limit_s=time_limit_s, keep=keep, recompute=recompute
        )
        key = read_key(self.key_file)
        with Client(self.address, key=key, attempts=_ATTEMPTS) as client:
            return client.plan(
                graph,
                budget_bytes,
                reserve=reserve_bytes,
                search=search,
                within_s=None if time_limit_s is None else time_limit_s + _QUEUE_S,
            )
