"""The `torch.compile` backend: plan the joint graph, run it on the plan.

AOTAutograd hands the joint graph to a partitioner of ours. It lowers and costs the
graph, binds or solves a plan, and returns a forward and a backward graph that run
it. Everything that can be refused is refused there, before the first step.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.debugging import boxed_nop
from torch._functorch import config as functorch_config
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils._python_dispatch import _disable_current_modes

from encamp.errors import OptionError
from encamp.graph import Kind
from encamp.tracer.calls import CostSource
from encamp.tracer.capture import given_inputs, joint_step, one_graph
from encamp.tracer.costs import cost_source
from encamp.tracer.joint import JointStep
from encamp.tracer.lower import Lowered, lower
from encamp.tracer.tracing import step_device
from encamp.units import format_bytes

from .binding import BoundPlan, bind
from .options import StepOptions, read_options
from .refusal import refusals
from .rewrite import rewrite

log = logging.getLogger(__name__)

_SCALAR_BYTES = 16
"""No scalar takes more."""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One compiled step: its lowered graph and the plan it runs."""

    lowered: Lowered
    bound: BoundPlan


@dataclass(slots=True)
class EncampBackend:
    """A backend for `torch.compile` that runs steps on plans.

    `planned` lists the steps compiled so far.
    """

    options: StepOptions
    name: str = "step"
    planned: list[PlannedStep] = field(default_factory=list)

    __name__ = "encamp"

    def __call__(self, module: fx.GraphModule, example_inputs: list[Any]) -> Any:  # noqa: ANN401
        """Compile one graph of Dynamo's."""
        with refusals():
            one_graph(module)
            inputs = given_inputs(module)

            def partition(
                joint: fx.GraphModule, _: object, *, num_fwd_outputs: int, **__: object
            ) -> tuple[fx.GraphModule, fx.GraphModule]:
                with refusals():
                    return self._partition(joint_step(joint, num_fwd_outputs, inputs))

            compiler = aot_autograd(
                fw_compiler=boxed_nop,
                bw_compiler=boxed_nop,
                inference_compiler=boxed_nop,
                partition_fn=partition,
                keep_inference_input_mutations=True,
            )
            # Kernels run one by one never reuse a saved tensor's memory; saying they do
            # would only forbid a second backward.
            with functorch_config.patch(donated_buffer=False):
                return compiler(module, example_inputs)

    def _partition(self, joint: JointStep) -> tuple[fx.GraphModule, fx.GraphModule]:
        with unset_fake_temporarily(), _disable_current_modes():
            lowered = lower(
                joint,
                _costs(self.options, joint),
                name=self.name,
                meta={"compiler": self.options.compiler},
            )
            bound = bind(lowered.graph, self.options)
        self.planned.append(PlannedStep(lowered, bound))
        _warn_of_outside_loss(lowered)
        log.info(
            "%s: peak %s, %.1f %% longer, %d recomputations",
            self.name,
            format_bytes(bound.timeline.peak_bytes),
            100 * (bound.timeline.duration_ns / lowered.graph.duration_ns - 1),
            len(bound.timeline.steps) - len(lowered.graph.ops),
        )
        graphs = rewrite(lowered, bound.timeline.steps)
        return graphs.forward, graphs.backward


def encamp_backend(
    module: fx.GraphModule,
    example_inputs: list[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Any:  # noqa: ANN401 -- what AOTAutograd returns
    """Serve `torch.compile(..., backend="encamp", options={"budget": "16GiB"})`.

    The options are those of `StepOptions`.

    Raises:
        OptionError: an option is unknown or missing.

    """
    with refusals():
        if mode is not None:
            msg = f"backend 'encamp' has no mode {mode!r}; pass options={{...}}"
            raise OptionError(msg)
        backend = EncampBackend(read_options(options))
    return backend(module, example_inputs)


def _warn_of_outside_loss(lowered: Lowered) -> None:
    """Say where part of the step's memory lies outside the plan."""
    values = lowered.graph.values
    given = [v for v in values if v.kind is Kind.TANGENT]
    # Beside a loss of its own, a step may return what nobody differentiates (logits).
    if given and all(v.bytes > _SCALAR_BYTES for v in given):
        log.warning(
            "the gradient of an output of %s comes from outside the step, so what"
            " computes it (a loss?) is not planned; compute the loss inside the step",
            format_bytes(max(v.bytes for v in given)),
        )


def _costs(options: StepOptions, joint: JointStep) -> CostSource:
    if isinstance(options.costs, str):
        return cost_source(options.costs, device=step_device(joint))
    return options.costs


def compile_with(step: Callable[..., Any], backend: Callable[..., Any]) -> Any:  # noqa: ANN401
    """Return `step` compiled for fixed shapes with `backend`."""
    return torch.compile(step, backend=backend, dynamic=False)
