"""Train copies of one model side by side, each on its own random stream."""

from __future__ import annotations

import copy
import gc
import hashlib
import statistics
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from encamp.runtime.training import loss_of
from encamp.tracer.meter import Meter

from .language_model import SEED, Batch

LEARNING_RATE = 1e-3


@dataclass(slots=True)
class Trainer:
    """One copy of a model and its optimizer, trained a step at a time.

    `compiled` makes of the copy what is called; it is called under `settings`. Trainers
    may take turns: each puts its own random state in place first, so that all of them
    draw as if they were alone.
    """

    model: nn.Module
    compiled: Callable[[nn.Module], Callable[..., Any]]
    settings: Callable[[], AbstractContextManager[object]] = nullcontext
    losses: list[float] = field(default_factory=list)
    durations_ns: list[int] = field(default_factory=list)
    peak_bytes: int = 0
    """Allocated by the metered step, above what was there when it began."""
    first_gradients: str = ""
    """Digest of the gradients of the first step."""
    first_random_state: str = ""
    """Digest of the random state after the first step."""
    _call: Callable[..., Any] = field(init=False)
    _optimizer: torch.optim.Optimizer = field(init=False)
    _random_state: torch.Tensor = field(init=False)

    def __post_init__(self) -> None:
        """Copy the model and start a random stream."""
        self.model = copy.deepcopy(self.model)
        self._call = self.compiled(self.model)
        self._optimizer = torch.optim.AdamW(self.model.parameters(), lr=LEARNING_RATE)
        self._random_state = torch.Generator().manual_seed(SEED).get_state()

    def advance(self, batch: Batch, meter: Meter | None = None) -> None:
        """Train one step: timed, and its memory measured where a meter is given."""
        torch.set_rng_state(self._random_state)
        self._optimizer.zero_grad(set_to_none=True)
        with self.settings():
            if meter is None:
                self._run(batch)
            else:
                gc.collect()
                self.peak_bytes = meter.measure(lambda: self._run(batch)).peak_bytes
        self._random_state = torch.get_rng_state()
        if len(self.losses) == 1:
            gradients = (p.grad for p in self.model.parameters() if p.grad is not None)
            self.first_gradients = _digest(gradients)
            self.first_random_state = _digest([self._random_state])
        self._optimizer.step()

    @property
    def median_ns(self) -> int:
        """Median duration of the steps but the first, which compiles, and the last."""
        return int(statistics.median(self.durations_ns[1:-1] or self.durations_ns))

    @property
    def weights(self) -> str:
        """Digest of the model's parameters."""
        return _digest(p.detach() for p in self.model.parameters())

    @property
    def optimizer_bytes(self) -> int:
        """Bytes of the optimizer's state."""
        states = self._optimizer.state.values()
        tensors = [t for s in states for t in s.values() if torch.is_tensor(t)]
        return sum(t.untyped_storage().nbytes() for t in tensors)

    def _run(self, batch: Batch) -> None:
        started = time.perf_counter_ns()
        output = self._call(**batch)
        loss = loss_of(output)
        loss.backward()  # type: ignore[no-untyped-call]
        self.durations_ns.append(time.perf_counter_ns() - started)
        self.losses.append(loss.item())


def _digest(tensors: Iterable[torch.Tensor]) -> str:
    """Return a digest of the tensors' bits."""
    total = hashlib.sha256()
    for tensor in tensors:
        total.update(tensor.contiguous().numpy().tobytes())
    return total.hexdigest()
