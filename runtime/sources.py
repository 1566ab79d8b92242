"""Where a step's plan may come from: a folder of plans, or a service by its address.

A source is asked once, when the step is compiled, with the graph in hand. Those of
addresses are found by the scheme of the address among the entry points of the group
`encamp.plan_sources`; `encamp.api.client` registers `http` and `https`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from os import PathLike
from pathlib import Path
from typing import Protocol

from encamp import fingerprint
from encamp.check import check
from encamp.errors import MissingPlanError, OptionError, WireError
from encamp.graph import CostGraph
from encamp.plan import Plan
from encamp.planner import Action, Rule
from encamp.replay import replay
from encamp.units import format_bytes
from encamp.wire import read_document

GROUP = "encamp.plan_sources"
_SUFFIXES = (".json", ".json.zst")


class PlanSource(Protocol):
    """Finds, or has made, a plan for a graph."""

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
        """Return a plan that fits; the options are those of a search.

        Raises:
            MissingPlanError: there is none, and none is made.
            NoPlanError: none was found in time.
            ServiceError: the source refuses, or does not answer.
            InfeasibleError: there cannot be one.

        """


def source_at(address: str, key_file: str | PathLike[str] | None) -> PlanSource:
    """Return the source of an address, by its scheme.

    Raises:
        OptionError: no source is registered for it, or the address is wrong.

    """
    scheme, colon, _ = address.partition("://")
    found = list(entry_points(group=GROUP, name=scheme)) if colon else []
    if not found:
        known = sorted({entry.name for entry in entry_points(group=GROUP)})
        msg = f"server is {address!r}; write an address of {' or '.join(known)}"
        raise OptionError(msg)
    source: PlanSource = found[0].load()(address, key_file)
    return source


@dataclass(frozen=True, slots=True)
class FolderPlans:
    """The plans in the files of a folder.

    A plan of the step's structure may run if, replayed on the step in hand, it fits
    the budget; of those the shortest is taken, then the one of the lower peak.
    """

    folder: Path

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
        """Return the best plan in the folder; see `PlanSource`."""
        del seed, time_limit_s  # nothing is searched
        limit = budget_bytes - reserve_bytes
        rules = {str(Rule.parse(Action.KEEP, text)) for text in keep}
        rules |= {str(Rule.parse(Action.RECOMPUTE, text)) for text in recompute}
        plans = [plan for plan in self._plans(graph) if _obeys(plan, rules)]
        replayed = [(replay(graph, plan.steps), plan) for plan in plans]
        fitting = [found for found in replayed if found[0].peak_bytes <= limit]
        if not fitting:
            least = min((timeline.peak_bytes for timeline, _ in replayed), default=None)
            raise MissingPlanError(self._missing(graph, limit, least))
        return min(fitting, key=lambda f: (f[0].duration_ns, f[0].peak_bytes))[1]

    def _plans(self, graph: CostGraph) -> Iterator[Plan]:
        """Return the plans of the graph's structure that can run on it."""
        structure = fingerprint.structure(graph)
        for path in self._files():
            try:
                found = read_document(path)
            except WireError:  # another JSON file, or one that is being copied
                continue
            if (
                isinstance(found, Plan)
                and found.steps
                and found.graph.structure == structure
                and not check(graph, found.steps)
            ):
                yield found

    def _files(self) -> list[Path]:
        if not self.folder.is_dir():
            msg = f"plans is {str(self.folder)!r}, which is no folder"
            raise OptionError(msg)
        files = (path for path in self.folder.iterdir() if path.is_file())
        return sorted(path for path in files if path.name.endswith(_SUFFIXES))

    def _missing(self, graph: CostGraph, limit: int, least: int | None) -> str:
        where = f"no plan in {self.folder} is for the step {graph.name!r}"
        if least is None:
            return f"{where}; make one: encamp trace, then encamp plan"
        return (
            f"{where} in {format_bytes(limit)}: the one that needs least needs"
            f" {format_bytes(least)}; make another: encamp plan --budget {limit}"
        )


def _obeys(plan: Plan, rules: set[str]) -> bool:
    """Return whether a plan was made by the rules that are asked for, if any are."""
    return not rules or rules == set(plan.certificate.rules)
