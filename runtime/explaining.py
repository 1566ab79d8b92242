"""Say why a planned step left something else than the unplanned one."""

from __future__ import annotations

from dataclasses import dataclass

from encamp.plan import Plan
from encamp.tracer.calls import CostSource
from encamp.tracer.capture import Step

from .backend import EncampBackend
from .bisection import Bisection, Suspect
from .compiling import compile_with
from .options import StepOptions
from .parity import compare
from .training import TrainingRun


@dataclass(frozen=True, slots=True)
class Explanation:
    """What running the planned and the unplanned step again showed."""

    suspect: Suspect | None
    unstable: bool
    """Whether the unplanned step differs from itself."""

    def __str__(self) -> str:
        """Say it in a sentence, with what to do."""
        if self.suspect is not None:
            return str(self.suspect)
        if self.unstable:
            return (
                "two unplanned runs differ from each other as well, so this says"
                " nothing of the plan: make the step deterministic"
                " (torch.use_deterministic_algorithms) and verify again"
            )
        return (
            "every recomputation gave the bits of its first run, so recomputing is not"
            " why: a bug of Encamp's, please report it with the graph and the plan"
        )


def explain(
    run: TrainingRun,
    model: Step,
    plan: Plan,
    unplanned: Step,
    *,
    costs: str | CostSource,
    steps: int,
) -> Explanation:
    """Run a step that differed on its plan again, comparing recomputations.

    Where all of them repeat, the unplanned step is compared with itself.
    """
    bisection = Bisection()
    options = StepOptions(plan=plan, costs=costs)
    backend = EncampBackend(options, compile_graph=bisection.compile_graph)
    run.results(compile_with(model, backend), steps)
    suspect = bisection.suspect(backend.planned[-1].lowered.graph.ops)
    unstable = suspect is None and bool(compare(run, unplanned, unplanned, steps)[0])
    return Explanation(suspect, unstable)
