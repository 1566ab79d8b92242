"""Train one way and another: eagerly, captured but unplanned, and planned.

A `Training` makes a fresh model with its step and drives some training steps with
whatever autograd feature it is about. `outcome` runs it one way and returns all that
is left behind: what the drive reports, gradients, parameters, buffers, random state.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from encamp.runtime.backend import EncampBackend
from encamp.runtime.compiling import compile_with
from encamp.runtime.options import StepOptions
from encamp.runtime.verification import unplanned_step

Outcome = dict[str, Any]


@dataclass
class Trained:
    """A model, its step compiled one way, and the inputs of four steps."""

    model: nn.Module
    step: Callable[..., Any]
    inputs: Sequence[Tensor]
    backend: EncampBackend | None = None


def eager(step, _):
    """Run the step as PyTorch does."""
    return step, None


def unplanned(step, _):
    """Capture the step and recompute nothing."""
    return unplanned_step(step), None


def planned(step, budget):
    """Plan the step, so that it recomputes."""
    options = StepOptions(budget=budget, costs="roofline:cpu", time_limit_s=0.2)
    backend = EncampBackend(options)
    return compile_with(step, backend), backend


class Loss(nn.Module):
    """A model whose loss is the mean of its squared outputs."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).square().mean()


def layers(depth=5):
    """Return linear layers, 16 wide, with tanh between them."""
    pairs = (m for _ in range(depth) for m in (nn.Linear(16, 16), nn.Tanh()))
    return nn.Sequential(*pairs)


def dropping(depth=5):
    """Return linear layers with dropout, its activations larger than a random state."""
    blocks = (
        nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.3), nn.Tanh())
        for _ in range(depth)
    )
    return nn.Sequential(*blocks)


@dataclass(frozen=True)
class Training:
    """A kind of training: how its model is made, what its step is, what is done.

    `drive` does it and returns what else is to be compared.
    """

    drive: Callable[[Trained], Any]
    step: Callable[[nn.Module], Callable[..., Any]] = Loss
    model: Callable[[], nn.Module] = layers
    budget: str = "peak*0.8"

    def outcome(self, way) -> Outcome:
        """Train one way from the same start and return what is left behind."""
        torch.manual_seed(0)
        model = self.model()
        inputs = [torch.randn(256, 16) for _ in range(4)]
        step, backend = way(self.step(model), self.budget)
        said = self.drive(Trained(model, step, inputs, backend))
        if backend is not None:
            assert [p for p in backend.planned if again(p)], "nothing was recomputed"
        return {
            "said": said,
            **{f"grad {n}": p.grad for n, p in model.named_parameters()},
            **{f"parameter {n}": p.detach() for n, p in model.named_parameters()},
            **{f"buffer {n}": b for n, b in model.named_buffers()},
            "random state": torch.get_rng_state(),
        }


def again(step) -> int:
    """Return how many ops a planned step runs again."""
    return len(step.bound.timeline.steps) - len(step.lowered.graph.ops)


def differing(left: Outcome, right: Outcome) -> list[str]:
    """Return the names of what is not the same, tensors bit for bit."""
    assert left.keys() == right.keys()
    return [name for name in left if not same(left[name], right[name])]


def same(left, right) -> bool:
    """Say whether two things are the same, tensors inside of them bit for bit."""
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        return (
            left.dtype == right.dtype
            and left.stride() == right.stride()
            and torch.equal(left.detach(), right.detach())
        )
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(
            same(left[k], right[k]) for k in left
        )
    if isinstance(left, (list, tuple)):
        pairs = zip(left, right, strict=True)
        return len(left) == len(right) and all(same(*pair) for pair in pairs)
    return type(left) is type(right) and left == right
