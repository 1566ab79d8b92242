"""Capture a training step as one joint graph, without running it.

The step goes through `torch.compile` with a backend of our own: Dynamo and
AOTAutograd hand the joint graph to the backend's partitioner, which keeps a copy and
stops there. It is the very graph that the runtime's partitioner meets when training
starts, whether the model's tensors are real or fake.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.debugging import boxed_nop
from torch._dynamo.exc import ShortenTraceback

from encamp.errors import CaptureError
from encamp.graph import Kind

from .breaks import Refused, one_graph, refuse
from .joint import GivenInput, JointStep
from .provenance import attribute_path
from .recurrent import recurrent_layers, trainable_lstm

Step = Callable[..., Any]
"""A module or a function: the forward of a training step, best with its loss."""


class _Captured(ShortenTraceback):
    """Carries the joint graph out of the compiler: not an error."""

    def __init__(self, joint: JointStep) -> None:
        super().__init__("captured", first_useful_frame=None)
        self.joint = joint


def capture(
    step: Step, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
) -> JointStep:
    """Return the joint graph of `step(*args, **kwargs)` and its backward.

    Nothing is computed: parameters and inputs may be real or fake tensors.

    Raises:
        CaptureError: the step does not compile to one graph, or needs no gradient.

    """
    compiled = torch.compile(
        private_copy(step), backend=_capture_backend, dynamic=False, fullgraph=True
    )
    try:
        with recurrent_layers():
            compiled(*args, **(kwargs or {}))
    except _Captured as captured:
        return captured.joint
    except Refused as error:
        refuse(error)
    msg = (
        "nothing in the step requires a gradient, so there is no backward to plan for;"
        " call model.train() and leave torch.no_grad()"
    )
    raise CaptureError(msg)


def private_copy(step: Step) -> Step:
    """Return a function that calls `step` and whose code is its own.

    Dynamo counts recompilations per code object and, past a limit, silently runs
    eager; a code object of its own keeps one step's count apart from all others.
    """

    def call_step(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 -- as the step's
        return step(*args, **kwargs)

    fresh = types.FunctionType(
        call_step.__code__.replace(),
        call_step.__globals__,
        closure=call_step.__closure__,
    )
    return functools.update_wrapper(fresh, step, assigned=("__doc__",), updated=())


def given_inputs(module: fx.GraphModule) -> dict[int, GivenInput]:
    """Say what each input of a graph from Dynamo is, by Dynamo's source for it."""
    given = {}
    for index, node in enumerate(module.graph.find_nodes(op="placeholder")):
        source = getattr(node, "_dynamo_source", None)
        text = getattr(source, "name", "") if source is not None else ""
        given[index] = _given(text if isinstance(text, str) else text(), node)
    return given


def joint_step(
    module: fx.GraphModule,
    num_forward_outputs: int,
    inputs: Mapping[int, GivenInput],
) -> JointStep:
    """Pair a joint graph with what its primals are.

    AOTAutograd says in each placeholder's descriptor which input of Dynamo's graph
    it came from.
    """
    step = JointStep(module, num_forward_outputs)
    known = {}
    for position, node in enumerate(step.primals):
        index = getattr(node.meta.get("desc"), "idx", position)
        known[position] = inputs.get(index, GivenInput(Kind.INPUT))
    return JointStep(module, num_forward_outputs, known)


def _given(source: str, node: fx.Node) -> GivenInput:
    path = attribute_path(source)
    if "_parameters[" in source:
        return GivenInput(Kind.PARAM, path)
    if "_buffers[" in source:
        return GivenInput(Kind.BUFFER, path)
    value = node.meta.get("example_value")
    if isinstance(value, torch.nn.Parameter):
        return GivenInput(Kind.PARAM, str(node.target))
    return GivenInput(Kind.INPUT, str(node.target))


def _capture_backend(module: fx.GraphModule, example_inputs: list[Any]) -> Any:  # noqa: ANN401
    one_graph(module)
    inputs = given_inputs(module)

    def keep(
        joint: fx.GraphModule, _: object, *, num_fwd_outputs: int, **__: object
    ) -> NoReturn:
        raise _Captured(joint_step(joint, num_fwd_outputs, inputs))

    compiler = aot_autograd(
        fw_compiler=boxed_nop,
        bw_compiler=boxed_nop,
        partition_fn=keep,
        keep_inference_input_mutations=True,
    )
    with trainable_lstm():
        return compiler(module, example_inputs)
