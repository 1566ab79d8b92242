"""Verify a plan: bit for bit the unplanned step, and the peak that was predicted.

The unplanned step is the same captured graph split by PyTorch's own
`default_partition`: nothing recomputed, nothing of ours in between.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

from torch import fx
from torch._functorch.partitioners import default_partition

from encamp.errors import UnsupportedError
from encamp.graph import CostGraph
from encamp.plan import Plan
from encamp.replay import replay
from encamp.tracer.breaks import one_graph
from encamp.tracer.calls import CostSource
from encamp.tracer.capture import Step
from encamp.tracer.meter import Meter, StorageMeter, best_meter
from encamp.tracer.tracing import Factory, made_by, name_of

from .backend import EncampBackend
from .compiling import compile_split, compile_with
from .explaining import explain
from .options import StepOptions
from .parity import compare
from .refusal import refusals
from .report import PeakPair, Report, StepFigures
from .training import TrainingRun

_ROUNDS_OTHERWISE = (
    "verify compares bit for bit, and Inductor rounds otherwise with every other choice"
    " of what to fuse; its peak is measured when the step is compiled. Verify with"
    " compiler='eager' or 'lite'"
)

WARM_UPS = 2
"""Steps run before anything is measured: compilation and caches."""


def verify(
    factory: Factory,
    plan: Plan | str | PathLike[str] | None = None,
    *,
    budget: str | int | None = None,
    costs: str | CostSource = "measured",
    compiler: str = "eager",
    steps: int = 3,
    rounds: int = 5,
    seed: int = 0,
) -> Report:
    """Run the step of a factory on a plan and without one, and compare.

    Args:
        factory: returns (model, args[, kwargs]) with real tensors; the model returns
            its loss.
        plan: the plan to verify, or the path of its file.
        budget: plan under this budget, where there is no plan to verify.
        costs: where predicted times and workspaces come from.
        compiler: what runs the steps, planned and unplanned: "eager" or "lite".
        steps: how many steps in a row are compared, buffers and all.
        rounds: how many times each step is timed; the medians are reported.
        seed: the random seed every run starts from.

    Raises:
        StalePlanError: the plan is not for this step, or does not fit on it.
        UnsupportedError: the step holds something that is not planned, or the
            compiler is Inductor.

    """
    if compiler == "inductor":
        raise UnsupportedError(_ROUNDS_OTHERWISE)
    options = StepOptions(plan=plan, budget=budget, costs=costs, compiler=compiler)
    model, args, kwargs = made_by(factory)
    run = TrainingRun(model, args, kwargs, seed=seed)
    backend = EncampBackend(options, name=name_of(model))
    unplanned = unplanned_step(model, compiler)
    planned = compile_with(model, backend)
    differences, compared = compare(run, unplanned, planned, steps)
    times = run.timed([unplanned, planned], rounds)
    compiled = backend.planned[-1]
    graph, bound = compiled.lowered.graph, compiled.bound
    explained = None
    if differences:
        explained = explain(run, model, bound.plan, unplanned, costs=costs, steps=steps)
    meter = best_meter(run.device)
    measuring = _Measuring(run, graph, meter)
    return Report(
        name=graph.name,
        budget_bytes=bound.limit_bytes,
        steps=steps,
        compared=compared,
        differences=tuple(differences),
        planned=measuring.figures(planned, bound.timeline.steps, times[1]),
        unplanned=measuring.figures(unplanned, range(len(graph.ops)), times[0]),
        recomputed_ops=len(bound.timeline.steps) - len(graph.ops),
        num_ops=len(graph.ops),
        meter=type(meter).__name__,
        suspect=explained.suspect if explained else None,
        explanation=str(explained) if explained else "",
    )


def unplanned_step(model: Step, compiler: str = "eager") -> Step:
    """Return the captured step compiled with nothing recomputed, by PyTorch alone."""

    def backend(module: fx.GraphModule, example_inputs: list[Any]) -> Any:  # noqa: ANN401
        with refusals():
            one_graph(module)
        if compiler == "eager":
            return compile_split(module, example_inputs, default_partition)
        from .inductor import compile_lite  # noqa: PLC0415 -- a second to import

        return compile_lite(module, example_inputs, default_partition, "unplanned")

    compiled: Step = compile_with(model, backend)
    return compiled


@dataclass(frozen=True, slots=True)
class _Measuring:
    """Measures steps and sets the figures beside what a replay predicts."""

    run: TrainingRun
    graph: CostGraph
    meter: Meter

    def figures(
        self, compiled: Step, steps: Sequence[int], measured_ns: int
    ) -> StepFigures:
        timeline = replay(self.graph, steps)
        bare = replay(_without_workspace(self.graph), steps)
        return StepFigures(
            peak=PeakPair(timeline.peak_bytes, self._allocator_peak(compiled)),
            storages=PeakPair(bare.peak_bytes, self._storage_peak(compiled)),
            predicted_ns=timeline.duration_ns,
            measured_ns=measured_ns,
        )

    def _allocator_peak(self, compiled: Step) -> int:
        self._prepare(compiled)
        measurement = self.meter.measure(lambda: self.run.step(compiled))
        return self.graph.resident_bytes + measurement.peak_bytes

    def _storage_peak(self, compiled: Step) -> int:
        self._prepare(compiled)
        meter = StorageMeter()
        with meter:
            self.run.step(compiled)
        return self.graph.resident_bytes + meter.peak_bytes

    def _prepare(self, compiled: Step) -> None:
        for _ in range(WARM_UPS):
            self.run.reset()
            self.run.step(compiled)
        self.run.reset()
        gc.collect()


def _without_workspace(graph: CostGraph) -> CostGraph:
    bare = tuple(replace(op, workspace_bytes=0) for op in graph.ops)
    return replace(graph, ops=bare)
