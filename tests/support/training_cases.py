"""More steps that went wrong for users: those that need more than a loss to show it.

They stand beside `cases`, with the same meaning: the model of one public report each,
and a factory that returns it in train mode with the step's inputs. What is special
about each training is in the tests that use it.
"""

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own abbreviation
from torch import Tensor, nn

from cases import Case, Factory, SquaredMean


class BlockUsedThrice(nn.Module):
    """One block applied three times, for data-parallel training.

    https://github.com/pytorch/pytorch/issues/24005,
    https://github.com/huggingface/transformers/issues/23018 and
    https://github.com/pytorch/pytorch/pull/147561: recomputing a shared block marked
    its parameters ready twice, and ranks decided differently what to recompute.
    """

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.inlet = nn.Linear(width, width)
        self.block = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        self.outlet = nn.Linear(width, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.inlet(x)
        for _ in range(3):
            x = x + self.block(x)
        return self.outlet(x)


routed: list[int] = []
"""The number of rows of each call of the router since this was cleared."""


def _route(scores: Tensor) -> Tensor:
    shift = len(routed) % 2
    routed.append(len(scores))
    return (scores.argmax(-1) + shift) % scores.shape[-1]


_LIBRARY = torch.library.Library("encamp_cases", "FRAGMENT")
_LIBRARY.define("route(Tensor scores) -> Tensor")
_LIBRARY.impl("route", _route, "CompositeExplicitAutograd")


@torch.library.register_fake("encamp_cases::route", lib=_LIBRARY)
def _fake_route(scores: Tensor) -> Tensor:
    return scores.new_empty(scores.shape[:-1], dtype=torch.long)


class RoutedExperts(nn.Module):
    """Experts chosen by a router whose answer flips when it is asked again.

    https://github.com/NVIDIA-NeMo/Automodel/pull/3140,
    https://github.com/pytorch/torchtitan/issues/1117 and
    https://github.com/pytorch/pytorch/issues/186572: run again, it sent rows to other
    experts, and gradients were silently wrong. It must run once a step.
    """

    def __init__(self, width: int = 16, experts: int = 4) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.experts = nn.Parameter(torch.randn(experts, width, width) * 0.2)

    def forward(self, x: Tensor) -> Tensor:
        shares = self.router(x).softmax(-1)
        chosen = torch.ops.encamp_cases.route(shares.detach())
        mixed = torch.einsum("bd,bdo->bo", torch.tanh(1.5 * x), self.experts[chosen])
        return torch.sin(mixed) * shares.gather(-1, chosen[:, None])


class TanhStack(nn.Sequential):
    """Six small layers whose forward is differentiated twice, and accumulated.

    https://github.com/pytorch/pytorch/issues/142862 and
    https://github.com/openai/guided-diffusion/pull/144: the second backward over one
    forward was an error.
    """

    def __init__(self, width: int = 32, depth: int = 6) -> None:
        super().__init__(
            *(nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(depth))
        )


class SharedUnderAutocast(nn.Module):
    """Two weights used by two regions under bfloat16 autocast.

    https://github.com/pytorch/pytorch/issues/193338 and /141896: the cached casts of
    the weights were an error, or moved the gradients.
    """

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)

    def region(self, x: Tensor) -> Tensor:
        return F.gelu(self.second(F.gelu(self.first(x))))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            summed = self.region(x) + self.region(y)
        return summed.float().square().mean()


def block_used_thrice(rank: int = 0) -> Case:
    """Return S04: a block used three times, the batch of one rank."""
    torch.manual_seed(0)
    model = SquaredMean(BlockUsedThrice())
    torch.manual_seed(100 + rank)
    return model.train(), (torch.randn(8, 16),)


def routed_experts() -> Case:
    """Return S11: experts behind a router that flips."""
    torch.manual_seed(0)
    return SquaredMean(RoutedExperts()).train(), (torch.randn(32, 16),)


def tanh_stack() -> Case:
    """Return S13: small layers, with a loss inside."""
    torch.manual_seed(0)
    return SquaredMean(TanhStack()).train(), (torch.randn(8, 32),)


def shared_under_autocast() -> Case:
    """Return S14: two weights shared under autocast."""
    torch.manual_seed(0)
    inputs = torch.randn(16, 32), torch.randn(16, 32)
    return SharedUnderAutocast().train(), inputs


TRAINING_CASES: dict[str, Factory] = {
    "S04": block_used_thrice,
    "S13": tanh_stack,
    "S14": shared_under_autocast,
}
"""Those that train alike however often their step is run from the same state."""
