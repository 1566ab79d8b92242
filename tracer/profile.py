"""What operator calls cost, measured on the device at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch._ops import HigherOrderOperator

from encamp.errors import CostError
from encamp.folders import cache_folder

from .call_text import describe, digest, target_name
from .calls import OpCall, OpCost, Progress
from .cost_cache import CostCache, Environment
from .isolation import isolated
from .machine import device_memory, device_name
from .meter import best_meter
from .stopwatch import Effort, Sample, measure_call

_COLLECTIVES = ("c10d.", "c10d_functional.", "_c10d_functional", "_dtensor.")
_RANDOM_STATE = (
    "higher_order.run_and_save_rng_state",
    "higher_order.run_with_rng_state",
)
_SAVE_EVERY = 32
_ADVICE = (
    "take costs from a device table instead: costs='roofline:NAME'"
    " (`encamp devices` lists the names)"
)


class MeasuredCosts:
    """A cost source that runs each distinct call on the device and times it.

    Calls of one signature (operator, shapes, strides, dtypes, scalars) are measured
    once, and looked up on disk ever after: for the same device, PyTorch, number of
    threads and settings that change which kernels run. `tracer.stopwatch` says what a
    measurement is; one that other processes disturbed in every run is used, but not
    kept on disk. Time grows with the distinct calls, about 0.1 s for each.
    """

    def __init__(
        self,
        device: torch.device | str = "cpu",
        cache_dir: Path | str | None = None,
        *,
        effort: Effort | None = None,
    ) -> None:
        """Measure on `device`; costs are kept in `cache_dir`, else the user's cache.

        Raises:
            CostError: the device is not there, or is of a kind that has no meter.

        """
        self._device = _present(torch.device(device))
        self._effort = effort or Effort()
        self._meter = best_meter(self._device)
        self._folder = Path(cache_dir) if cache_dir is not None else cache_folder()
        self._disturbed: dict[str, OpCost] = {}

    @property
    def meta(self) -> Mapping[str, str | int]:
        """What the graph records: measured, on what, with how many threads."""
        memory = device_memory(self._device)
        return {
            "costs": "measured",
            "device": device_name(self._device),
            **({"device_memory_bytes": memory} if memory is not None else {}),
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
        }

    def costs(
        self, calls: Sequence[OpCall], progress: Progress | None = None
    ) -> list[OpCost]:
        """Return the cost of each call; `progress` counts distinct ones.

        The caller's random state, gradient mode and other modes stay as they are.

        Raises:
            CostError: a call cannot run on its own; the message names it.

        """
        descriptions = [describe(call) for call in calls]
        distinct = dict(zip(descriptions, calls, strict=True))
        cache = CostCache(self._folder, _environment(self._device))
        stored = cache.read()
        known = {d: stored[digest(d)] for d in distinct if digest(d) in stored}
        # The same source answers the same: a plan it made is judged by its costs.
        known |= {d: c for d, c in self._disturbed.items() if d in distinct}
        if progress is not None:
            progress(len(known), len(distinct))
        missing = {d: call for d, call in distinct.items() if d not in known}
        known |= self._measure_all(missing, cache, progress, len(distinct))
        return [known[description] for description in descriptions]

    def _measure_all(
        self,
        calls: Mapping[str, OpCall],
        cache: CostCache,
        progress: Progress | None,
        total: int,
    ) -> dict[str, OpCost]:
        """Measure the calls and keep each, also those made before an interruption."""
        found: dict[str, OpCost] = {}
        unsaved: dict[str, OpCost] = {}
        try:
            for description, call in calls.items():
                sample = self._measure(description, call)
                found[description] = sample.cost
                if sample.settled:
                    unsaved[description] = sample.cost
                else:
                    self._disturbed[description] = sample.cost
                if progress is not None:
                    progress(total - len(calls) + len(found), total)
                if len(unsaved) >= _SAVE_EVERY:
                    cache.add(unsaved)
                    unsaved = {}
        finally:
            if unsaved:
                cache.add(unsaved)
        return found

    def _measure(self, description: str, call: OpCall) -> Sample:
        _refuse_what_cannot_run(call, description)
        try:
            with isolated(self._device):
                return measure_call(call, self._device, self._meter, self._effort)
        except CostError:
            raise
        except Exception as error:
            msg = (
                f"cannot measure {description} on {self._device}:"
                f" {type(error).__name__}: {error}; {_ADVICE}"
            )
            raise CostError(msg) from error


def _present(device: torch.device) -> torch.device:
    """Return the device, with its index where it is a GPU."""
    if device.type != "cuda":
        return device
    if not torch.cuda.is_available():
        msg = f"there is no CUDA device to measure on; {_ADVICE}"
        raise CostError(msg)
    return torch.empty(0, device=device).device


def _environment(device: torch.device) -> Environment:
    """Return what the cost of a call depends on beside the call."""
    return {
        "device": device_name(device),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "mkldnn": bool(torch.backends.mkldnn.enabled),
        "cudnn": torch.backends.cudnn.enabled,
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
    }


def _refuse_what_cannot_run(call: OpCall, description: str) -> None:
    """Refuse calls that need other processes, or whose body lies elsewhere."""
    name = target_name(call.target)
    if name.startswith(_COLLECTIVES):
        reason = "it is a collective and needs the other processes"
    elif isinstance(call.target, HigherOrderOperator) and name not in _RANDOM_STATE:
        reason = "it is a higher-order operator and needs the graphs it calls"
    else:
        return
    msg = f"cannot measure {description} on its own: {reason}; {_ADVICE}"
    raise CostError(msg)
