"""Trace a training step: capture it, lower it, cost it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from encamp.errors import CaptureError, UnsupportedError
from encamp.graph import CostGraph

from .calls import CostSource, Progress
from .capture import Step, capture
from .costs import cost_source
from .joint import JointStep
from .lower import lower

COMPILERS = ("eager", "lite")
"""The compilers a step can be traced for."""

Factory = Callable[[], Any]
"""Returns (model, args), (model, args, kwargs) or a mapping with those names."""


def trace(
    model: Step,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    costs: str | CostSource = "measured",
    compiler: str = "eager",
    name: str | None = None,
    progress: Progress | None = None,
) -> CostGraph:
    """Return the cost graph of one training step, `model(*args, **kwargs)` backward.

    The step's loss belongs inside `model`: what runs outside it is not planned.
    Nothing of the step runs, apart from single operators where costs are measured.

    Args:
        model: a module or function; its tensors may be real or fake.
        args: positional arguments of the step.
        kwargs: keyword arguments of the step.
        costs: "measured" runs each distinct operator call on the step's device;
            "roofline:NAME" computes costs for a device by name, e.g.
            "roofline:h100-sxm" (see `encamp devices`).
        compiler: what will run the step; "eager" and "lite" (Inductor's) both run
            PyTorch's own kernels, one at a time, in the order of the plan.
        name: the graph's name; the model's class by default.
        progress: called with (done, total) while costs are measured.

    Raises:
        CaptureError: the step is no single graph, or has no backward.
        UnsupportedError: it holds an operation Encamp refuses, named in the message.
        CostError: an operation could not be costed.

    """
    require_compiler(compiler)
    joint = capture(model, args, kwargs)
    source = (
        cost_source(costs, device=step_device(joint))
        if isinstance(costs, str)
        else costs
    )
    return lower(
        joint,
        source,
        name=name or name_of(model),
        meta={"compiler": compiler},
        progress=progress,
    ).graph


def trace_factory(
    factory: Factory,
    *,
    costs: str | CostSource = "measured",
    compiler: str = "eager",
    name: str | None = None,
    progress: Progress | None = None,
) -> CostGraph:
    """Trace the step a factory makes, offline: its model is built of fake tensors.

    No weight is allocated, so a model larger than this machine's memory traces. See
    `trace` for the arguments and the exceptions.
    """
    require_compiler(compiler)
    with FakeTensorMode(allow_non_fake_inputs=True):
        model, args, kwargs = _made_fake(factory)
        return trace(
            model,
            args,
            kwargs,
            costs=costs,
            compiler=compiler,
            name=name,
            progress=progress,
        )


def made_by(factory: Factory) -> tuple[Step, Sequence[Any], Mapping[str, Any]]:
    """Call a factory and return its model, arguments and keyword arguments.

    Raises:
        UnsupportedError: it returned something else.

    """
    made = factory()
    if isinstance(made, Mapping) and "model" in made:
        return made["model"], made.get("args", ()), made.get("kwargs") or {}
    if isinstance(made, tuple) and len(made) in (2, 3):
        model, args, *rest = made
        return model, args, rest[0] if rest else {}
    msg = (
        "a factory returns (model, args), (model, args, kwargs) or a dict with 'model',"
        f" 'args' and 'kwargs'; this one returned {type(made).__name__}"
    )
    raise UnsupportedError(msg)


def _made_fake(
    factory: Factory,
) -> tuple[Step, Sequence[Any], Mapping[str, Any]]:
    """Call a factory under fake tensors and explain what they cannot do.

    Raises:
        CaptureError: the factory failed, as on `model.to(dtype)`, which PyTorch does
            not do to fake parameters.

    """
    try:
        return made_by(factory)
    except RuntimeError as error:
        msg = (
            f"the factory failed while its tensors are fake: {error}. Fake parameters"
            " cannot be converted (model.to, .half, .bfloat16): build the model in its"
            " dtype, under torch.set_default_dtype or with a dtype= argument; nor can"
            " values be read (.item, .tolist)"
        )
        raise CaptureError(msg) from error


def step_device(joint: JointStep) -> torch.device:
    """Return the step's accelerator, or the CPU where everything is on the host."""
    devices = {
        node.meta["val"].device
        for node in joint.primals
        if isinstance(node.meta.get("val"), torch.Tensor)
    }
    others = sorted((d for d in devices if d.type != "cpu"), key=str)
    return others[0] if others else torch.device("cpu")


def require_compiler(compiler: str, known: Sequence[str] = COMPILERS) -> None:
    """Refuse a compiler that steps cannot be planned for.

    Raises:
        UnsupportedError: `compiler` is not one of the known ones.

    """
    if compiler not in known:
        msg = f"unknown compiler {compiler!r}; choose one of {', '.join(known)}"
        raise UnsupportedError(msg)


def name_of(model: Step) -> str:
    """Return a name for a step: the class of a module, the name of a function."""
    if isinstance(model, torch.nn.Module):
        return type(model).__name__
    return getattr(model, "__name__", "step")
