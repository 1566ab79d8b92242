"""Compile a planned step with Inductor: plan, compile, measure, correct.

A plan is a hint to a compiler that fuses and reorders. What the compiled step takes is
measured before training does; where that is over the budget, the step is planned for
less by the difference and compiled again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils._python_dispatch import _disable_current_modes

import encamp
from encamp.errors import NoPlanError
from encamp.tracer.calls import CostSource
from encamp.tracer.fused import FusedCosts, Fusion, fused_view
from encamp.tracer.joint import JointStep
from encamp.tracer.lower import Lowered, lower
from encamp.tracer.recomputable import written_nodes
from encamp.tracer.tracing import step_device
from encamp.units import format_bytes

from .compiling import Partition
from .hinted import HintedPlan, hinted_limit, hinted_plan
from .inductor import compile_full, partition_key
from .options import StepOptions
from .rehearsal import rehearsed_peak
from .rewrite import Rewritten, rewrite

log = logging.getLogger(__name__)

ATTEMPTS = 4
"""How often a step is compiled at most, for a peak under its budget."""

DRIFT = 0.05
"""How far a measured peak may be from the predicted one before it is warned of."""


@dataclass(frozen=True, slots=True)
class Hinted:
    """A step as it was planned for Inductor, and the peaks of it, resident included.

    `limit_bytes` is what its peak may be; `measured_bytes` is None where the step was
    compiled for fake tensors, which nothing runs on.
    """

    lowered: Lowered
    fusion: Fusion
    chosen: HintedPlan
    limit_bytes: int
    reserve_bytes: int
    measured_bytes: int | None = None

    @property
    def drift(self) -> float | None:
        """Return (measured - predicted) as a share of the predicted peak."""
        if self.measured_bytes is None:
            return None
        return self.measured_bytes / self.chosen.peak_bytes - 1


@dataclass(slots=True)
class Hinting:
    """Plans joint graphs for Inductor; `correction_bytes` are taken off the budget."""

    options: StepOptions
    name: str
    correction_bytes: int = 0
    hinted: Hinted | None = None

    def partition(self, joint: JointStep, costs: CostSource) -> Rewritten:
        """Plan a joint graph as Inductor has it and split it accordingly.

        Raises:
            NoPlanError: no schedule was found whose fused peak fits the budget.

        """
        fused = FusedCosts(costs, step_device(joint))
        meta = {"compiler": self.options.compiler}
        with unset_fake_temporarily(), _disable_current_modes():
            alone = lower(joint, fused, name=self.name, meta=meta)
            lowered, fusion = fused_view(alone, fused.ns_per_megabyte())
            limit, reserve = hinted_limit(lowered.graph, fusion, self.options)
            wanted = limit - self.correction_bytes
            chosen = hinted_plan(lowered.graph, fusion, self.options, wanted)
        self.hinted = Hinted(lowered, fusion, chosen, limit, reserve)
        return rewrite(lowered, chosen.plan.steps, operators_only=True)

    def compile(
        self, module: fx.GraphModule, example_inputs: list[Any], partition: Partition
    ) -> Any:  # noqa: ANN401 -- what AOTAutograd returns
        """Compile a graph of Dynamo's until its measured peak is within the budget.

        `partition` goes through `self.partition`.

        Raises:
            NoPlanError: no attempt came within the budget.

        """
        for _ in range(ATTEMPTS):
            parts = (encamp.__version__, self.options, self.correction_bytes)
            key = partition_key(*parts)
            compiled = compile_full(module, example_inputs, partition, key)
            if self.hinted is None:  # no gradient is needed: nothing is planned
                return compiled
            self.hinted = measured(self.hinted, compiled, example_inputs)
            over = self._over()
            if over <= 0:
                return compiled
            self.correction_bytes += over
        raise NoPlanError(self._too_much())

    def _over(self) -> int:
        """Return by how much the measured peak is over the budget, and say it."""
        hinted = self.hinted
        if hinted is None or hinted.measured_bytes is None:
            return 0
        over = hinted.measured_bytes - hinted.limit_bytes
        drift = hinted.drift or 0.0
        level = logging.WARNING if over > 0 or abs(drift) > DRIFT else logging.INFO
        log.log(
            level,
            "%s: Inductor's step peaks at %s, %+.1f %% from the %s predicted%s",
            self.name,
            format_bytes(hinted.measured_bytes),
            100 * drift,
            format_bytes(hinted.chosen.peak_bytes),
            "; planned again for less, it is over the budget" if over > 0 else "",
        )
        return over

    def _too_much(self) -> str:
        hinted = self.hinted
        found = format_bytes(hinted.measured_bytes or 0) if hinted else "more"
        limit = format_bytes(hinted.limit_bytes) if hinted else "the budget"
        return (
            f"{self.name!r} was planned and compiled {ATTEMPTS} times with Inductor and"
            f" still peaks at {found}, over {limit}. Raise the budget, or plan for"
            " compiler='eager' or 'lite', whose peaks are those of the plan"
        )


def measured(hinted: Hinted, compiled: Any, example_inputs: list[Any]) -> Hinted:  # noqa: ANN401
    """Return `hinted` with the measured peak of its compiled step."""
    joint = hinted.lowered.joint
    peak = rehearsed_peak(
        compiled, example_inputs, _overwritten(hinted.lowered), step_device(joint)
    )
    total = None if peak is None else hinted.lowered.graph.resident_bytes + peak
    return Hinted(
        hinted.lowered,
        hinted.fusion,
        hinted.chosen,
        hinted.limit_bytes,
        hinted.reserve_bytes,
        total,
    )


def _overwritten(lowered: Lowered) -> set[int]:
    """Return which inputs of Dynamo's graph the step writes into."""
    written = {node for call in lowered.calls for node in written_nodes(call.node)}
    return {
        getattr(node.meta.get("desc"), "idx", position)
        for position, node in enumerate(lowered.joint.primals)
        if node in written
    }
