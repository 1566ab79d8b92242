"""What all solves of one graph share: its problem, its cuts, its description."""

from __future__ import annotations

from dataclasses import dataclass

from encamp.graph import CostGraph

from .bounds import Cuts
from .clock import UNIT, Cancel, Clock
from .options import Options
from .problem import Problem
from .progress import FULL, Effort, Listener, Progress
from .reduce import reduce, unreduced
from .result import Description, describe
from .rules import Obedience, obey

_LANDING = 2
"""Time that the last replay and check take, in that of describing the graph."""
_MOST_LANDING = 0.25
"""Share of the limit that may be kept free for them."""


@dataclass(frozen=True, slots=True)
class Task:
    """A graph made ready for planning under its options."""

    graph: CostGraph
    options: Options
    obedience: Obedience
    problem: Problem
    cuts: Cuts
    clock: Clock
    description: Description

    @classmethod
    def of(cls, graph: CostGraph, options: Options, cancel: Cancel | None) -> Task:
        """Return the task of planning `graph`; its clock is running.

        Raises:
            OptionError: a rule of the options cannot be followed.

        """
        clock = _clock(options, cancel or Cancel())
        obedience = obey(graph, options.rules)
        description = describe(graph)
        if clock.limit_s is not None:
            most = _MOST_LANDING * clock.limit_s
            clock.landing_s = min(_LANDING * clock.seconds, most)
        form = reduce if options.reduce else unreduced
        problem = form(obedience.graph, obedience.barred)
        return cls(
            graph, options, obedience, problem, Cuts(problem), clock, description
        )

    def begin(
        self,
        budget: int,
        listener: Listener | None,
        clock: Clock | None = None,
        effort: Effort = FULL,
    ) -> Progress:
        """Return a solve under a budget that has just begun."""
        clock = clock or self.clock
        return Progress(self.problem, budget, self.options, clock, listener, effort)


def _clock(options: Options, cancel: Cancel) -> Clock:
    if options.work_limit is not None:
        return Clock(None, options.work_limit * UNIT, cancel)
    return Clock(options.time_limit_s, None, cancel)
