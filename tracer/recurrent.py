"""Recurrent layers (RNN, GRU, LSTM) in a graph: unrolled, and fit for training.

Dynamo leaves them out of graphs unless it is told otherwise. AOTAutograd then takes an
LSTM apart into the products of its steps, except on the CPU where its input needs no
gradient: that it takes for inference, and calls a kernel that keeps nothing for the
backward, which fails at the first step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._decomp import decompositions
from torch._dynamo import config

_CHOICE = "select_one_layer_lstm_function"
"""The function of PyTorch's decompositions that chooses how an LSTM layer is run."""


@contextlib.contextmanager
def recurrent_layers() -> Iterator[None]:
    """Let Dynamo take recurrent layers into its graphs, here and nowhere else."""
    before = config.allow_rnn
    config.allow_rnn = True
    try:
        yield
    finally:
        config.allow_rnn = before


@contextlib.contextmanager
def trainable_lstm() -> Iterator[None]:
    """Take every LSTM apart that is traced with gradients, whatever its input needs."""
    chosen: Callable[..., Any] = getattr(decompositions, _CHOICE)

    def choose(*args: Any) -> Any:  # noqa: ANN401 -- as PyTorch's own
        if torch.is_grad_enabled():
            return decompositions.one_layer_lstm
        return chosen(*args)

    setattr(decompositions, _CHOICE, choose)
    try:
        yield
    finally:
        setattr(decompositions, _CHOICE, chosen)
