"""Ways to train one step with less memory, each measured as it runs."""

from __future__ import annotations

import functools
import gc
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import fx
from torch._functorch import config as functorch_config
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.utils._python_dispatch import TorchDispatchMode

from encamp.graph import CostGraph
from encamp.planner import Options, min_budget, solve
from encamp.replay import replay
from encamp.runtime.applying import apply
from encamp.runtime.compiling import compile_split, compile_with
from encamp.runtime.training import TrainingRun
from encamp.runtime.verification import WARM_UPS
from encamp.tracer.call_text import describe
from encamp.tracer.calls import OpCall
from encamp.tracer.meter import best_meter
from encamp.tracer.profile import MeasuredCosts
from encamp.tracer.tracing import made_by, trace
from encamp.tracer.work import work_of

SETTINGS = (1.0, 0.85, 0.7, 0.55, 0.4, 0.25, 0.1, 0.0)
"""Values of `activation_memory_budget`."""

_BUDGETS = 8
_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Way:
    """One way to run a step: its family, its setting, and the step, compiled or not.

    `budget_bytes` is the peak it promises, where it promises one.
    """

    family: str
    setting: str
    run: TrainingRun
    step: Callable[..., Any]
    budget_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Point:
    """What a way took: peak with what is resident, step time, operations computed."""

    family: str
    setting: str
    budget_bytes: int | None
    peak_bytes: int
    duration_ns: int
    operations: int


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operations of products, convolutions and attention as they run."""

    def __init__(self) -> None:
        """Start at none."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0
        self._known: dict[str, int] = {}

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Stay out of compilation, which runs no compiled code under other modes."""
        return True

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Run a call and count it."""
        call = OpCall(func, args, kwargs or {})
        text = describe(call)
        if text not in self._known:
            self._known[text] = work_of(call).operations
        self.count += self._known[text]
        return func(*args, **(kwargs or {}))


def frontier_of(make: Callable[..., Any], rounds: int) -> list[Point]:
    """Measure every way to run a step, all taking turns.

    `make` takes `checkpointed=` and returns (model, args).
    """
    costs = MeasuredCosts()
    graph = trace(*made_by(make), costs=costs)
    ways = [*_by_hand(make), *_by_pytorch(make), *_by_encamp(make, graph, costs)]
    resident = graph.resident_bytes
    peaks = [resident + _peak(way) for way in ways]
    operations = [_operations(way) for way in ways]
    durations = _durations(ways, rounds)
    found = zip(ways, peaks, durations, operations, strict=True)
    return [Point(w.family, w.setting, w.budget_bytes, *took) for w, *took in found]


def _by_hand(make: Callable[..., Any]) -> Iterator[Way]:
    for family, checkpointed in (("PyTorch", False), ("torch.utils.checkpoint", True)):
        model, args, kwargs = made_by(
            functools.partial(make, checkpointed=checkpointed)
        )
        setting = "each block" if checkpointed else "keep all"
        yield Way(family, setting, TrainingRun(model, args, kwargs), model)


def _by_pytorch(make: Callable[..., Any]) -> Iterator[Way]:
    for setting in SETTINGS:
        model, args, kwargs = made_by(make)
        step = compile_with(model, functools.partial(_min_cut, setting))
        run = TrainingRun(model, args, kwargs)
        yield Way("activation_memory_budget", f"{setting:g}", run, step)


def _min_cut(setting: float, module: fx.GraphModule, inputs: list[Any]) -> Any:  # noqa: ANN401
    budget = functorch_config.patch(activation_memory_budget=setting)
    with budget, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compile_split(module, inputs, min_cut_rematerialization_partition)


def _by_encamp(
    make: Callable[..., Any], graph: CostGraph, costs: MeasuredCosts
) -> Iterator[Way]:
    options = Options(time_limit_s=_SECONDS)
    smallest = min_budget(graph, options=options)
    largest = replay(graph).peak_bytes
    for index in range(_BUDGETS):
        share = index / (_BUDGETS - 1)
        budget = round(largest + share * (smallest.budget_bytes - largest))
        last = index == _BUDGETS - 1
        plan = smallest.plan if last else solve(graph, budget, options=options)
        model, args, kwargs = made_by(make)
        step = apply(model, plan=plan, costs=costs)
        run = TrainingRun(model, args, kwargs)
        yield Way("Encamp", f"{budget / largest:.0%}", run, step, budget)


def _peak(way: Way) -> int:
    for _ in range(WARM_UPS):
        way.run.reset()
        way.run.step(way.step)
    way.run.reset()
    gc.collect()
    return best_meter("cpu").measure(lambda: way.run.step(way.step)).peak_bytes


def _operations(way: Way) -> int:
    way.run.reset()
    with Operations() as counted:
        way.run.step(way.step)
    return counted.count


def _durations(ways: Sequence[Way], rounds: int) -> list[int]:
    """Return each way's median duration in ns, the ways taking turns."""
    taken: list[list[int]] = [[] for _ in ways]
    for _ in range(rounds):
        for way, durations in zip(ways, taken, strict=True):
            durations.extend(way.run.timed([way.step], 1))
    return [sorted(durations)[len(durations) // 2] for durations in taken]
