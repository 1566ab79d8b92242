"""The `torch.compile` backend: plan the joint graph, run it on the plan.

AOTAutograd hands the joint graph to a partitioner of ours. It lowers and costs the
graph, binds or solves a plan, and returns a forward and a backward graph that run
it. Everything that can be refused is refused there, before the first step.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch import fx
from torch._dynamo.backends.debugging import boxed_nop
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils._python_dispatch import _disable_current_modes

import encamp
from encamp.errors import OptionError
from encamp.graph import Kind
from encamp.replay import replay
from encamp.tracer.breaks import one_graph
from encamp.tracer.calls import CostSource
from encamp.tracer.capture import given_inputs, joint_step
from encamp.tracer.costs import cost_source
from encamp.tracer.joint import JointStep
from encamp.tracer.lower import Lowered, lower
from encamp.tracer.tracing import step_device
from encamp.units import format_bytes

from .accumulation import tell_of_gradients
from .binding import BoundPlan, bind
from .compiling import Partition, compile_split
from .frames import require_whole_step
from .options import OnNewShape, StepOptions, read_options
from .refusal import refusals
from .rewrite import Rewritten, rewrite
from .second_order import first_order_only
from .shapes import FirstShapes, fix_sizes

if TYPE_CHECKING:  # loading it loads Inductor
    from .hinting import Hinting

log = logging.getLogger(__name__)

_SCALAR_BYTES = 16
"""No scalar takes more."""

_FIRST_SHAPES: dict[int, tuple[Mapping[str, Any], FirstShapes]] = {}
"""By the identity of a mapping of options, which is kept so that it stays its own."""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One compiled step: its lowered graph and the plan it runs.

    `measured_bytes` is its peak, resident bytes included, where that was measured
    because the compiler fuses (`compiler="inductor"`).
    """

    lowered: Lowered
    bound: BoundPlan
    measured_bytes: int | None = None

    @property
    def room_bytes(self) -> int:
        """What the budget leaves beside the step's peak."""
        if self.measured_bytes is None:
            return self.bound.room_bytes
        allowed = self.bound.limit_bytes + self.bound.reserve_bytes
        return allowed - self.measured_bytes


@dataclass(slots=True)
class EncampBackend:
    """A backend for `torch.compile` that runs steps on plans.

    `compile_graph` makes planned graphs run; `planned` lists the steps compiled so far.
    """

    options: StepOptions
    name: str = "step"
    compile_graph: Callable[..., Any] = boxed_nop
    planned: list[PlannedStep] = field(default_factory=list)
    first_shapes: FirstShapes = field(init=False)

    __name__ = "encamp"

    def __post_init__(self) -> None:
        """Remember shapes from here on."""
        self.first_shapes = FirstShapes(self.options.on_new_shape)

    def __call__(self, module: fx.GraphModule, example_inputs: list[Any]) -> Any:  # noqa: ANN401
        """Compile one graph of Dynamo's, which must be the whole step."""
        with refusals():
            one_graph(module)
            require_whole_step()
            fix_sizes(module, example_inputs)
            return self._compile(module, example_inputs)

    def _compile(self, module: fx.GraphModule, example_inputs: list[Any]) -> Any:  # noqa: ANN401
        inputs = given_inputs(module)
        already = len(self.planned)
        make: Callable[[JointStep], Rewritten] = self._partition
        hinting = self._hinting()
        if hinting is not None:
            make = functools.partial(self._hint, hinting)

        def partition(
            joint: fx.GraphModule, _: object, *, num_fwd_outputs: int, **__: object
        ) -> tuple[fx.GraphModule, fx.GraphModule]:
            with refusals():
                self.first_shapes.require(inputs, example_inputs)
                made = make(joint_step(joint, num_fwd_outputs, inputs))
                return made.forward, made.backward

        if hinting is not None:
            compiled = hinting.compile(module, example_inputs, partition)
            self._note(hinting)
        else:
            compiled = self._run(module, example_inputs, partition)
        if len(self.planned) == already:  # no gradient is needed: nothing is planned
            return compiled
        planned = self.planned[-1]
        compiled = tell_of_gradients(compiled, planned.room_bytes)
        return first_order_only(compiled, self.name, planned.lowered.joint)

    def _run(
        self, module: fx.GraphModule, example_inputs: list[Any], partition: Partition
    ) -> Any:  # noqa: ANN401 -- what AOTAutograd returns
        """Compile the graph with a compiler that runs plans as they stand."""
        if self.options.compiler == "eager":
            return compile_split(module, example_inputs, partition, self.compile_graph)
        # Imported here: Inductor takes a second that others need not wait.
        from .inductor import compile_lite, partition_key  # noqa: PLC0415

        key = partition_key(encamp.__version__, self.options)
        return compile_lite(module, example_inputs, partition, key)

    def _hinting(self) -> Hinting | None:
        """Return what plans for Inductor, where that is the compiler."""
        if self.options.compiler != "inductor":
            return None
        from .hinting import Hinting  # noqa: PLC0415 -- as above

        return Hinting(self.options, self.name)

    def _hint(self, hinting: Hinting, joint: JointStep) -> Rewritten:
        _warn_of_ranks(self.options)
        return hinting.partition(joint, _costs(self.options, joint))

    def _note(self, hinting: Hinting) -> None:
        """Keep what was planned for Inductor among the steps planned."""
        hinted = hinting.hinted
        if hinted is None:
            return
        plan = hinted.chosen.plan
        timeline = replay(hinted.lowered.graph, plan.steps)
        bound = BoundPlan(plan, timeline, hinted.limit_bytes, hinted.reserve_bytes)
        self.planned.append(PlannedStep(hinted.lowered, bound, hinted.measured_bytes))
        _warn_of_outside_loss(hinted.lowered)

    def _partition(self, joint: JointStep) -> Rewritten:
        with unset_fake_temporarily(), _disable_current_modes():
            lowered = lower(
                joint,
                _costs(self.options, joint),
                name=self.name,
                meta={"compiler": self.options.compiler},
            )
            _warn_of_ranks(self.options)
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
        return rewrite(
            lowered,
            bound.timeline.steps,
            operators_only=self.options.compiler != "eager",
        )


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
        backend = _backend(read_options(options), options)
    return backend(module, example_inputs)


def _backend(options: StepOptions, given: Mapping[str, Any] | None) -> EncampBackend:
    """Return the backend of a `torch.compile` call, known by its mapping of options.

    Such a call hands nothing from one compilation to the next but that mapping.
    """
    backend = EncampBackend(options)
    if given is not None and options.on_new_shape == OnNewShape.ERROR:
        _, backend.first_shapes = _FIRST_SHAPES.setdefault(
            id(given), (given, backend.first_shapes)
        )
    return backend


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


def _warn_of_ranks(options: StepOptions) -> None:
    """Say where ranks of one training would each make a plan of their own."""
    if options.plan is not None or options.has_source or not dist.is_available():
        return
    if dist.is_initialized() and dist.get_world_size() > 1:
        log.warning(
            "each of the %d ranks plans for itself, from costs of its own, so their"
            " plans may differ; make one plan (encamp plan) and pass plan= on each",
            dist.get_world_size(),
        )


def _costs(options: StepOptions, joint: JointStep) -> CostSource:
    if isinstance(options.costs, str):
        return cost_source(options.costs, device=step_device(joint))
    return options.costs
