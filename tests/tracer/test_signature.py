"""What the two fingerprints of a traced step keep, and what they ignore."""

import pytest
import torch
from torch import nn

from cases import (
    InPlace,
    LargeHead,
    LlamaStack,
    NoisyDropout,
    NormedConvolutions,
    SquaredMean,
    TiedAndShared,
    UNet,
)
from encamp import fingerprint
from stepping import lowered

SIZED = {
    "dropout": lambda b: (SquaredMean(NoisyDropout()), (torch.randn(8 * b, 64),)),
    "batch norm": lambda b: (
        SquaredMean(NormedConvolutions()), (torch.randn(b, 8, 4 + 4 * b, 8),),
    ),
    "in place": lambda b: (SquaredMean(InPlace()), (torch.randn(b, 32),)),
    "tied": lambda b: (
        TiedAndShared(), (torch.zeros(b, 4 * b).long(), torch.zeros(4 * b * b).long()),
    ),
    "attention": lambda b: (SquaredMean(LlamaStack(1)), (torch.randn(b, 4 * b, 64),)),
    "u-net": lambda b: (SquaredMean(UNet()), (torch.randn(b, 3, 16 * b, 16 * b),)),
    "large head": lambda b: (LargeHead(100), (torch.zeros(b, 4 * b).long(),)),
}  # fmt: skip
"""Models whose batch, and where it applies length and picture, grow with `b`."""


class Scaled(nn.Module):
    """Layers under a softmax, with a number and a dimension to choose."""

    def __init__(self, factor=2.0, dim=1, depth=2):
        super().__init__()
        self.factor, self.dim = factor, dim
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x)) * self.factor
        return x.softmax(self.dim).square().sum()


def fingerprints(model, *args):
    """Return (structure, exact) of a step."""
    graph = lowered(model, args).graph
    return fingerprint.structure(graph), fingerprint.exact(graph)


@pytest.mark.parametrize("name", SIZED)
def test_the_batch_changes_the_exact_fingerprint_only(name):
    """A plan made for one batch size binds to another, by structure."""
    made = []
    for size in (2, 3):
        model, args = SIZED[name](size)
        made.append(fingerprints(model, *args))
    (structure, exact), (other_structure, other_exact) = made

    assert structure == other_structure
    assert exact != other_exact


def test_precision_changes_the_exact_fingerprint_only():
    """Double precision has the structure of single precision."""
    x = torch.ones(3, 4)
    single, double = Scaled(), Scaled().double()

    assert fingerprints(single, x)[0] == fingerprints(double, x.double())[0]
    assert fingerprints(single, x)[1] != fingerprints(double, x.double())[1]


@pytest.mark.parametrize(
    "changed", [{"factor": 3.0}, {"dim": 0}, {"depth": 3}], ids=str
)
def test_another_step_has_another_structure(changed):
    """A scalar, a dimension or a layer more make it another step."""
    x = torch.ones(3, 4)

    assert fingerprints(Scaled(**changed), x)[0] != fingerprints(Scaled(), x)[0]


def test_weights_and_names_change_nothing():
    """Neither the numbers in the weights nor the module around them matter."""
    x = torch.ones(3, 4)
    wrapped = nn.Sequential(Scaled())

    assert fingerprints(Scaled(), x) == fingerprints(Scaled(), x + 1)
    assert fingerprints(wrapped, x) == fingerprints(Scaled(), x)


def test_a_view_between_ops_is_part_of_the_structure():
    """Views are no ops, yet reading through one is another call."""
    weight = torch.ones(4, 4, requires_grad=True)
    plain = fingerprints(lambda w: (w @ w).sum(), weight)
    transposed = fingerprints(lambda w: (w @ w.t()).sum(), weight)

    assert plain[0] != transposed[0]


def test_a_shape_changes_the_exact_fingerprint():
    """A wider layer is the same structure at other sizes."""
    narrow, wide = nn.Linear(4, 4), nn.Linear(4, 8)

    first = fingerprints(SquaredMean(narrow), torch.ones(3, 4))
    second = fingerprints(SquaredMean(wide), torch.ones(3, 4))
    assert first[0] == second[0]
    assert first[1] != second[1]
