"""Time one operator call and take its workspace, on the device itself.

**What is measured.** An operator of a training step rarely finds its operands in the
caches: they were written long ago, and its outputs go to memory not touched lately.
Timing one call over and over would find everything in place. So each run takes the
next of several sets of operands and its outputs stay until their turn comes again;
together they are larger than the last cache.

On two cores of an AMD EPYC the sum over the operators of a 4-layer GPT (width 64 and
256) and of an MLP came to 0.93, 0.94 and 1.01 of the real step that way; with one set
of operands and outputs freed at once to 0.60, 0.92 and 0.98. Overwriting the caches
between runs instead made small operators up to nine times too slow.

Part of the rest is the page faults of memory that the process returns to the system
between steps, which no single operator can be charged with.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.utils._pytree import tree_leaves

from .calls import OpCall, OpCost
from .machine import cache_bytes
from .meter import Meter
from .operands import Operands, duplicate, materialise

if sys.platform != "win32":
    import resource

_MAX_SETS = 64


@dataclass(frozen=True, slots=True)
class Effort:
    """How long one call is measured.

    For `enough_ns` or `max_runs` runs, but until `min_runs` of them were calm; and in
    no case, after the first run, for longer than `limit_ns`.
    """

    min_runs: int = 5
    max_runs: int = 100
    enough_ns: int = 50_000_000
    limit_ns: int = 300_000_000

    def is_spent(self, calm: int, runs: int, elapsed_ns: int) -> bool:
        """Whether to stop after `runs` runs, `calm` of them undisturbed."""
        if runs == 0 or elapsed_ns >= self.limit_ns:
            return runs > 0
        enough = elapsed_ns >= self.enough_ns or runs >= self.max_runs
        return enough and calm >= self.min_runs

    def runs(self, rough_ns: int) -> int:
        """Return how many runs of about `rough_ns` to time, where all are calm."""
        rough_ns = max(1, rough_ns)
        wanted = max(self.min_runs, min(self.max_runs, self.enough_ns // rough_ns))
        return max(1, min(wanted, self.limit_ns // rough_ns))


@dataclass(frozen=True, slots=True)
class Sample:
    """A measured cost; `settled` unless other processes disturbed every run."""

    cost: OpCost
    settled: bool = True


class Rotation:
    """A call's operand sets and the outputs of its last runs, taken in turn."""

    def __init__(self, call: OpCall, first: Operands, num_sets: int) -> None:
        """Make `num_sets` sets of operands, `first` among them."""
        self._target = call.target
        self._sets = [first, *(duplicate(first) for _ in range(num_sets - 1))]
        self._results: list[object] = [None] * num_sets
        self._turn = 0

    def advance(self) -> None:
        """Turn to the next set; the outputs of its last run are freed."""
        self._turn = (self._turn + 1) % len(self._sets)
        self._results[self._turn] = None

    def run(self) -> None:
        """Run the call on the set whose turn it is, and keep the outputs."""
        args, kwargs = self._sets[self._turn]
        self._results[self._turn] = self._target(*args, **kwargs)


def measure_call(
    call: OpCall, device: torch.device, meter: Meter, effort: Effort
) -> Sample:
    """Measure the call's duration (the median), its spread and its workspace.

    Runs under `isolated`. Whatever the operator raises passes through.
    """
    operands = materialise(call, torch.Generator().manual_seed(0))
    args, kwargs = operands
    call.target(*args, **kwargs)  # kernels load, libraries pick their algorithms
    _synchronise(device)
    started = _now()
    made = call.target(*args, **kwargs)
    _synchronise(device)
    rough_ns = _now() - started
    bytes_per_run = _storage_bytes(operands) + fresh_bytes(made, operands)
    del made
    workspace = _workspace(call, operands, meter, 1 if rough_ns > 10**8 else 3)
    num_sets = _num_sets(bytes_per_run, cache_bytes(device))
    rotation = Rotation(call, operands, num_sets)
    rotation.advance()
    rotation.run()
    if device.type == "cuda":
        timed = _time_by_events(rotation, effort.runs(rough_ns), device), True
    else:
        timed = _time_by_clock(rotation, effort)
    return _sample(*timed, workspace)


def _sample(durations: list[int], calm: bool, workspace: int) -> Sample:  # noqa: FBT001
    """Return the median of calm runs; of disturbed ones the least, nearest to calm."""
    duration = round(statistics.median(durations)) if calm else min(durations)
    # Losing the processor once hardly shows in a run of a tenth of a second.
    return Sample(
        OpCost(duration, workspace, _spread(durations)), calm or duration > 10**8
    )


def fresh_bytes(result: object, operands: object, block: int = 1) -> int:
    """Return the bytes of the storages in `result` that are none of the operands'.

    Each storage is rounded up to a multiple of `block`, as an allocator does.
    """
    known = set(_storages(operands))
    fresh = {k: size for k, size in _storages(result).items() if k not in known}
    return sum(-(-size // block) * block for size in fresh.values())


def _storages(tensors: object) -> dict[int, int]:
    found = [
        leaf.untyped_storage()
        for leaf in tree_leaves(tensors)
        if isinstance(leaf, torch.Tensor)
    ]
    return {storage._cdata: storage.nbytes() for storage in found}  # noqa: SLF001


def _storage_bytes(tensors: object) -> int:
    return sum(_storages(tensors).values())


def _num_sets(bytes_per_run: int, cache: int) -> int:
    """Return how many operand sets exceed the cache by a quarter, within reason."""
    return max(1, min(_MAX_SETS, -(-cache * 5 // 4 // max(1, bytes_per_run))))


def _workspace(call: OpCall, operands: Operands, meter: Meter, runs: int) -> int:
    """Return the allocator's peak during the call beyond its fresh outputs.

    The most of several runs: threads of a kernel that allocate for themselves do not
    always overlap as much.
    """
    args, kwargs = operands
    found = []
    for _ in range(runs):
        seen = meter.measure(lambda: call.target(*args, **kwargs))
        outputs = fresh_bytes(seen.result, operands, meter.block_bytes)
        found.append(max(0, seen.peak_bytes - outputs))
    return max(found)


def _time_by_clock(rotation: Rotation, effort: Effort) -> tuple[list[int], bool]:
    """Return the nanoseconds of the calm runs, and whether there were any.

    A run is disturbed when the system took a processor from this process meanwhile:
    threads that wait for one another then wait for another process, and a call of
    0.1 ms was seen to take 40. Where every run was disturbed, those are returned.
    """
    calm: list[int] = []
    disturbed: list[int] = []
    begun = _now()
    elapsed = 0
    while not effort.is_spent(len(calm), len(calm) + len(disturbed), elapsed):
        rotation.advance()
        switches = _lost_processors()
        started = _now()
        rotation.run()
        ended = _now()
        kept = calm if _lost_processors() == switches else disturbed
        kept.append(ended - started)
        elapsed = ended - begun
    return calm or disturbed, bool(calm)


def _now() -> int:
    return time.perf_counter_ns()


def _lost_processors() -> int:
    """Return how often the system took a processor from a thread of this process."""
    if sys.platform == "win32":
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _time_by_events(rotation: Rotation, runs: int, device: torch.device) -> list[int]:
    """Time runs on CUDA, back to back: the host waits only after the last.

    A kernel shorter than its launch therefore costs what the launch costs, as it does
    in an eager step.
    """
    stream = torch.cuda.current_stream(device)
    pairs = []
    for _ in range(runs):
        rotation.advance()
        start, end = (_event(), _event())
        start.record(stream)
        rotation.run()
        end.record(stream)
        pairs.append((start, end))
    torch.cuda.synchronize(device)
    return [round(start.elapsed_time(end) * 1e6) for start, end in pairs]


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def _spread(durations: Sequence[int]) -> int:
    """Return the interquartile range."""
    if len(durations) < 2:
        return 0
    low, _, high = statistics.quantiles(durations, n=4, method="inclusive")
    return round(high - low)


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
