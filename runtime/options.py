"""What a user asks of a planned step: a budget or a plan, and how to get there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from enum import StrEnum
from os import PathLike
from typing import Any

from encamp.errors import OptionError
from encamp.plan import Plan
from encamp.planner import Action, Rule
from encamp.tracer.calls import CostSource
from encamp.tracer.tracing import COMPILERS as TRACED
from encamp.tracer.tracing import require_compiler

COMPILERS = (*TRACED, "inductor")
"""What can run a planned step."""


class OnStale(StrEnum):
    """What to do with a plan that does not fit the step in hand."""

    ERROR = "error"
    REPLAN = "replan"


class OnMiss(StrEnum):
    """What to do where `plans` or `server` has no plan for the step."""

    PLAN = "plan"
    ERROR = "error"
    UNPLANNED = "unplanned"


class OnNewShape(StrEnum):
    """What to do when the inputs have other shapes than at the first step."""

    REPLAN = "replan"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOptions:
    """Options of `torch.compile(backend="encamp", options=...)` and `encamp.apply`.

    Give a `budget`, a `plan`, or both: the plan is then run under that budget
    instead of its own. With a budget, `plans` or `server` says where its plan may
    come from; of several ranks the first asks for all.

    Raises:
        OptionError: neither a budget nor a plan, a value that cannot be, or rules for
            a plan that is already made.
        UnsupportedError: an unknown compiler.

    """

    budget: str | int | None = None
    """Total peak of the step: bytes, "16GiB", "90%" of the device, "peak*0.6"."""
    plan: Plan | str | PathLike[str] | None = None
    """A plan, or the path of its file."""
    plans: str | PathLike[str] | None = None
    """A folder of plans, of which one for this step within the budget is run."""
    server: str | None = None
    """The address of a planning service, which knows or makes a plan."""
    key_file: str | PathLike[str] | None = None
    """A file with the API key for `server`; by default it is in $ENCAMP_KEY."""
    on_miss: str = OnMiss.PLAN
    """Where `plans` or `server` has none: "plan" makes one here, "error" refuses the
    step, "unplanned" runs it with nothing recomputed, whatever memory that takes."""
    reserve: str | int = 0
    """Kept free of the budget; written like it."""
    compiler: str = "eager"
    """What runs the step: PyTorch's own kernels, one at a time, called by its
    interpreter of graphs ("eager") or by the code of Inductor's lite mode ("lite"); or
    the kernels that Inductor fuses ("inductor"), whose peak is measured again."""
    costs: str | CostSource = "measured"
    """Where op costs come from; "roofline:NAME" measures nothing."""
    on_stale: str = OnStale.ERROR
    """"error" refuses a plan that does not fit; "replan" makes another."""
    on_new_shape: str = OnNewShape.REPLAN
    """"replan" plans each shape of the inputs for itself, under the same budget, or
    refuses it; "error" refuses any shape but the first."""
    keep: Sequence[str] = ()
    """What to run once, by operator, module or name: ("aten.mm.*", "module:h.0.*")."""
    recompute: Sequence[str] = ()
    """What not to hold from the forward to the backward; written like `keep`."""
    seed: int = 0
    """Seed of the planner's search."""
    time_limit_s: float | None = 60.0
    """Seconds the planner may search."""

    def __post_init__(self) -> None:
        """Refuse what cannot be asked for, before anything is compiled."""
        self._check_source()
        if self.budget is None and self.plan is None:
            msg = "give a budget, e.g. options={'budget': '16GiB'}, or a plan"
            raise OptionError(msg)
        _require_choice("on_stale", self.on_stale, OnStale)
        _require_choice("on_new_shape", self.on_new_shape, OnNewShape)
        if self.rules and self.plan is not None and self.on_stale != OnStale.REPLAN:
            msg = (
                "keep and recompute are rules for making a plan, and this one is made:"
                " plan with them (encamp plan --keep ...), or pass on_stale='replan'"
            )
            raise OptionError(msg)
        require_compiler(self.compiler, COMPILERS)
        if self.compiler == "inductor" and (self.has_source or self.plan is not None):
            msg = (
                "compiler='inductor' plans the graph that Inductor makes of the step,"
                " which no plan is for: give a budget, or run the plan with"
                " compiler='eager' or 'lite'"
            )
            raise OptionError(msg)

    @property
    def has_source(self) -> bool:
        """Return whether the plan is to come from a folder or a service."""
        return self.plans is not None or self.server is not None

    def _check_source(self) -> None:
        _require_choice("on_miss", self.on_miss, OnMiss)
        given = [n for n in ("plan", "plans", "server") if getattr(self, n) is not None]
        if len(given) > 1:
            msg = f"{given[0]} and {given[1]} both say where the plan is; give one"
            raise OptionError(msg)
        if self.has_source and self.budget is None:
            msg = f"{given[0]} goes with a budget, e.g. 'budget': '16GiB'"
            raise OptionError(msg)
        if self.on_miss != OnMiss.PLAN and not self.has_source:
            msg = "on_miss goes with plans or server, where a plan may be missing"
            raise OptionError(msg)
        if self.key_file is not None and self.server is None:
            msg = "key_file goes with server"
            raise OptionError(msg)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Return what `keep` and `recompute` spell, for the planner."""
        kept = [Rule.parse(Action.KEEP, text) for text in texts(self.keep)]
        again = [Rule.parse(Action.RECOMPUTE, text) for text in texts(self.recompute)]
        return (*kept, *again)


def _require_choice(name: str, value: str, choices: type[StrEnum]) -> None:
    if value not in set(choices):
        known = " or ".join(f"'{choice}'" for choice in choices)
        msg = f"{name} is {value!r}; it is {known}"
        raise OptionError(msg)


def texts(given: Sequence[str]) -> Sequence[str]:
    """Return the texts; one text alone is a sequence of one."""
    return (given,) if isinstance(given, str) else given


def read_options(options: Mapping[str, Any] | None) -> StepOptions:
    """Return the options a mapping spells out.

    Raises:
        OptionError: a name is unknown; the message offers the nearest one.

    """
    known = [f.name for f in fields(StepOptions)]
    for name in options or {}:
        if name not in known:
            near = get_close_matches(str(name), known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {known}"
            msg = f"unknown option {name!r} for backend 'encamp'; {hint}"
            raise OptionError(msg)
    return StepOptions(**(options or {}))
