"""Exact peaks of allocated memory while something runs.

Three meters of what an allocator hands out, kernels' workspaces included, behind one
method (`AllocatorMeter`, `ProfilerMeter`, `CudaMeter`; `best_meter` picks one), and a
fourth, `StorageMeter`, of the storages that operators make.

```
 bytes live        ┌──┐              peak_bytes: highest above the start
            ┌──────┘  └───┐
 ───────────┘             └───────   residual_bytes: left at the end
         start            end
```
"""

from __future__ import annotations

import contextlib
import functools
import os
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from encamp.errors import CostError

from .native import load_library

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Measurement(Generic[Result]):
    """What ran and what it took, in bytes above what was live at the start.

    `peak_bytes` is never negative; `residual_bytes` is what was still live when the
    callable returned, its result included, and is negative where it freed more.
    """

    result: Result
    peak_bytes: int
    residual_bytes: int
    meter: str


class Meter(Protocol):
    """Something that sees an allocator's peak."""

    block_bytes: int
    """What the allocator rounds a request up to a multiple of."""

    def measure(self, run: Callable[[], Result]) -> Measurement[Result]:
        """Call `run` and return its result with the memory it took.

        Measurements may stand inside one another. Reference cycles made earlier and
        collected during `run` count as freed; collect them first where that matters.
        """
        ...


class AllocatorMeter:
    """Counts every byte of c10's CPU allocator: to the byte, all threads, no slowdown.

    Making the first one wraps the allocator of the whole process, for good: memory
    from before that counts neither as live nor, later, as freed.

    Raises:
        CostError: there is no C++ compiler, or it could not build the meter.

    """

    block_bytes = 1

    def __init__(self) -> None:
        """Build the meter's library where it is not built yet, and install it."""
        library = load_library()
        if library is None:
            msg = (
                "the allocator meter cannot be built here: it needs a C++ compiler"
                " (c++, g++, clang++ or $CXX) and PyTorch's headers;"
                " use ProfilerMeter, which needs neither"
            )
            raise CostError(msg)
        self._library = library

    def measure(self, run: Callable[[], Result]) -> Measurement[Result]:
        """Call `run`; allocations of all threads count."""
        library = self._library
        start = library.encamp_live()
        outer_peak = library.encamp_restart_peak()
        try:
            result = run()
            end, peak = library.encamp_live(), library.encamp_peak()
        finally:
            library.encamp_raise_peak(outer_peak)
        return Measurement(result, peak - start, end - start, "allocator")


class ProfilerMeter:
    """Sums the memory events of PyTorch's profiler: to the byte, with no compiler.

    It sees the calling thread and the threads that autograd runs its work on, but not
    the freeing of memory that was allocated while no profiler ran (PyTorch does not
    report it). Seconds when first used in a process, milliseconds afterwards.
    """

    block_bytes = 1

    def measure(self, run: Callable[[], Result]) -> Measurement[Result]:
        """Call `run` under the profiler.

        Raises:
            CostError: another profiler is running in this thread, this meter's own
                among them: its measurements cannot stand inside one another.

        """
        if torch._C._autograd._profiler_enabled():  # noqa: SLF001 -- no public question
            msg = (
                "memory cannot be measured while a profiler runs;"
                " stop it, or install a C++ compiler for the allocator meter"
            )
            raise CostError(msg)
        profile = torch.autograd.profiler.profile(use_device=None, profile_memory=True)
        with contextlib.ExitStack() as stack:
            with _muted():
                profile.__enter__()  # type: ignore[no-untyped-call]
            stack.callback(_stop, profile)
            result = run()
        peak, residual = _walk(_memory_events(profile))
        return Measurement(result, peak, residual, "profiler")


def _stop(profile: Any) -> None:  # noqa: ANN401 -- untyped by torch
    with _muted():
        profile.__exit__(None, None, None)


@contextlib.contextmanager
def _muted() -> Iterator[None]:
    """Drop what is written to standard error: kineto reports each start and stop."""
    try:
        kept = os.dup(2)
    except OSError:  # closed: nothing to mute
        yield
        return
    try:
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 -- no folder of ours
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _memory_events(profile: Any) -> list[int]:  # noqa: ANN401 -- untyped by torch
    """Return the sizes of the CPU's allocations and (negative) frees, in time order."""
    kineto = profile.kineto_results
    if kineto is None:
        return []
    events = [
        (event.start_ns(), event.nbytes())
        for event in kineto.events()
        if event.name() == "[memory]"
        and event.device_type() == torch._C._autograd.DeviceType.CPU  # noqa: SLF001
    ]
    # Stable: events of one nanosecond stay in the order they were recorded.
    return [size for _, size in sorted(events, key=lambda event: event[0])]


def _walk(changes: list[int]) -> tuple[int, int]:
    """Return the highest and the last of the running sums, both from 0."""
    live = peak = 0
    for change in changes:
        live += change
        peak = max(peak, live)
    return peak, live


class CudaMeter:
    """Reads the statistics of CUDA's caching allocator: exact, all streams.

    The allocator hands out blocks of 512 bytes, so that is what it counts in; memory
    it caches but has not handed out is not counted. A measurement inside another one
    spoils the outer peak, because the allocator keeps only one.
    """

    block_bytes = 512

    def __init__(self, device: torch.device) -> None:
        """Measure `device`, a CUDA device."""
        self._device = device

    def measure(self, run: Callable[[], Result]) -> Measurement[Result]:
        """Call `run`, between synchronisations of the device."""
        device = self._device
        torch.cuda.synchronize(device)
        start = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        result = run()
        torch.cuda.synchronize(device)
        peak = torch.cuda.max_memory_allocated(device) - start
        residual = torch.cuda.memory_allocated(device) - start
        return Measurement(result, peak, residual, "cuda")


@functools.cache
def best_meter(device: torch.device | str = "cpu") -> Meter:
    """Return the best meter of `device`'s memory that works here.

    On CUDA the allocator's statistics; on the CPU the allocator meter where it can be
    built, else the profiler. Both of the latter give the same numbers.

    Raises:
        CostError: there is no meter for that kind of device.

    """
    device = torch.device(device)
    if device.type == "cuda":
        return CudaMeter(device)
    if device.type != "cpu":
        msg = f"no memory meter for device {str(device)!r}: there are cpu and cuda"
        raise CostError(msg)
    return AllocatorMeter() if load_library() is not None else ProfilerMeter()


class StorageMeter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Live bytes of the storages that operators make while it is entered.

    Each storage counts once, from the operator that makes it until it dies; views are
    free, and so are storages that operators are handed but did not make (arguments
    and whatever `ignore` was told of). Kernels' workspaces are invisible to it. It
    sees the thread it was entered in, and costs about as much as the operators do.

    >>> with StorageMeter() as meter:
    ...     x = torch.zeros(256) + 1.0
    >>> meter.peak_bytes, meter.live_bytes
    (2048, 1024)
    """

    supports_higher_order_operators = True
    """Those count like operators: by what they return."""

    def __init__(self) -> None:
        """Start with nothing counted."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.live_bytes = 0
        self.peak_bytes = 0
        # By address; the weak reference tells when a storage dies and its address is
        # free for another one.
        self._known: dict[int, tuple[int, weakref.ref[Any]]] = {}

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Stay out of compilation: Dynamo runs no compiled code under other modes."""
        return True

    def ignore(self, *tensors: object) -> None:
        """Count neither the storages of `tensors` (nested as they may be) nor views."""
        for tensor in tree_leaves(tensors):
            self._meet(tensor, counted=False)

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Run the operator and count what it made."""
        self.ignore(args, kwargs)
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            self._meet(tensor, counted=True)
        return made

    def _meet(self, tensor: object, *, counted: bool) -> None:
        storage = _storage_of(tensor)
        if storage is None or storage._cdata in self._known:  # noqa: SLF001
            return
        key, size = storage._cdata, storage.nbytes() if counted else 0  # noqa: SLF001
        gone = weakref.ref(storage, lambda _: self._forget(key))
        self._known[key] = (size, gone)
        self.live_bytes += size
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)

    def _forget(self, key: int) -> None:
        size, _ = self._known.pop(key)
        self.live_bytes -= size


def _storage_of(tensor: object) -> torch.UntypedStorage | None:
    """Return a tensor's storage; sparse and wrapped tensors have none of their own."""
    if not isinstance(tensor, torch.Tensor):
        return None
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return None
