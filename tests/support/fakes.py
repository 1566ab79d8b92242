"""Operator calls on fake tensors, as lowering hands them to a cost source."""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from encamp.tracer.calls import OpCall

MODE = FakeTensorMode()


def fake(*shape, dtype=torch.float32):
    """Return a fake tensor of that shape; all are of one fake mode."""
    with MODE:
        return torch.empty(shape, dtype=dtype)


def indices(*shape):
    """Return fake indices of that shape."""
    return fake(*shape, dtype=torch.int64)


def call(target, *args, **kwargs):
    """Return a call of the operator."""
    return OpCall(target, args, kwargs)
