"""Recurrent layers are taken apart into their steps, and train."""

import pytest
import torch
from torch import nn
from torch._decomp import decompositions
from torch._dynamo import config

import encamp
from encamp.errors import CaptureError
from encamp.runtime import verify
from encamp.tracer.tracing import trace
from stepping import ops_of

ROOFLINE = {"costs": "roofline:cpu"}


class Last(nn.Module):
    """A recurrent layer whose last outputs, squared, are the loss."""

    def __init__(self, kind):
        super().__init__()
        self.layer = kind(6, 8, batch_first=True)

    def forward(self, x):
        return self.layer(x)[0][:, -1].square().mean()


def made(kind):
    """Return a step over five steps of a sequence that needs no gradient itself."""
    torch.manual_seed(0)
    return Last(kind), (torch.randn(16, 5, 6),)


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_a_recurrent_layer_is_planned_and_trains_the_same(kind):
    """Bit for bit as captured, and as PyTorch's own kernel up to rounding."""
    report = verify(lambda: made(kind), budget="peak*0.8", rounds=1, **ROOFLINE)
    assert report.differences == ()
    assert report.planned.storages.measured == report.planned.storages.predicted

    model, (x,) = made(kind)
    model(x).backward()
    expected = [p.grad for p in model.parameters()]
    model.zero_grad(set_to_none=True)
    encamp.apply(model, "peak*0.8", **ROOFLINE)(x).backward()
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_an_lstm_becomes_the_products_of_its_steps():
    """Five steps multiply the state five times; the kernel of inference is not there.

    One more product, of all inputs at once, comes before them.
    """
    graph = trace(*made(nn.LSTM), **ROOFLINE)

    assert ops_of(graph, "aten.mkldnn_rnn_layer") == []
    products = [
        op for op in graph.ops if op.target.startswith(("aten.mm", "aten.addmm"))
    ]
    assert sum(op.phase == "forward" for op in products) == 6


def test_nothing_is_left_changed():
    """Other compilations leave recurrent layers out, as PyTorch has it."""
    before = decompositions.select_one_layer_lstm_function
    trace(*made(nn.LSTM), **ROOFLINE)

    assert config.allow_rnn is False
    assert decompositions.select_one_layer_lstm_function is before


def test_the_backend_alone_says_how_to_plan_a_recurrent_layer():
    """Under torch.compile Dynamo has read its setting before the backend is called."""
    model, (x,) = made(nn.GRU)
    inlet = nn.Linear(6, 6)

    def step(x):
        return model(inlet(x))

    planned = torch.compile(
        step, backend="encamp", options={"budget": "1GB", **ROOFLINE}
    )
    with pytest.raises(CaptureError, match=r"a recurrent layer.* with encamp\.apply"):
        planned(x)
