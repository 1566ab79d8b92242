"""A loss may hold more than its one number."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own abbreviation
from torch import nn

from encamp.tracer.tracing import trace
from stepping import ops_of

LOSSES = {
    "mse_loss": F.mse_loss,
    "smooth_l1_loss": F.smooth_l1_loss,
    "binary_cross_entropy": F.binary_cross_entropy,
    "soft_margin_loss": F.soft_margin_loss,
    "huber_loss": F.huber_loss,
    "binary_cross_entropy_with_logits": F.binary_cross_entropy_with_logits,
}


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_has_the_bytes_of_its_storage(name, reduction):
    """The kernels of four losses shrink what they made; PyTorch's tensor tells."""
    given, target = torch.rand(8, 16), torch.rand(8, 16)
    real = LOSSES[name](given, target, reduction=reduction)

    class Step(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.rand(16))

        def forward(self, x, target):
            return LOSSES[name](x * self.scale, target, reduction=reduction)

    graph = trace(Step(), (given, target), costs="roofline:cpu")
    (op,) = ops_of(graph, f"aten.{name}.")
    assert (
        sum(graph.values[v].bytes for v in op.outputs)
        == real.untyped_storage().nbytes()
    )
