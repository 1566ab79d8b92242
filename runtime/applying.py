"""Train on a plan, in one call."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any, TypeVar

from encamp.plan import Plan
from encamp.tracer.tracing import name_of

from .backend import EncampBackend
from .compiling import compile_with
from .options import StepOptions

Step = TypeVar("Step", bound=Callable[..., Any])


def apply(
    step: Step,
    budget: str | int | None = None,
    *,
    plan: Plan | str | PathLike[str] | None = None,
    **options: Any,  # noqa: ANN401 -- the other fields of StepOptions
) -> Step:
    """Return `step`, a module or a function, compiled to run on a plan.

    The plan is made, or bound, when the step is first called; whatever cannot be
    planned is refused then, before anything runs. Same as `torch.compile` with
    `backend="encamp"` and these options, with shapes fixed.

    Args:
        step: the forward of the training step, best with its loss.
        budget: total peak of the step: bytes, "16GiB", "90%", "peak*0.6".
        plan: a plan or the path of its file, instead of a budget.
        options: see `encamp.runtime.options.StepOptions`.

    Raises:
        OptionError: neither budget nor plan, or an option that cannot be.

    """
    chosen = StepOptions(budget=budget, plan=plan, **options)
    compiled: Step = compile_with(step, EncampBackend(chosen, name=name_of(step)))
    return compiled
