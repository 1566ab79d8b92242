"""What each segment of a chain takes: time and bytes, forward and backward.

Bytes are counted beside those that any schedule of the chain holds throughout. Each
figure is the peak of running the ops of one segment, found by walking them once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import numpy as np

from encamp.planner.jit import IntArray

from .chain import Chain
from .segments import row


class RunCosts(NamedTuple):
    """Forward runs of each segment: added nanoseconds, and peaks in bytes.

    The state is what crosses into a segment; a peak leaves it out where it is held
    elsewhere. A run passes (it leaves the next state), saves (it leaves what the
    backward reads and the next state) or prepares (it leaves what the backward reads).
    """

    pass_ns: IntArray
    save_ns: IntArray
    prepare_ns: IntArray
    pass_held: IntArray
    """Peak of a pass whose state is held elsewhere."""
    pass_freed: IntArray
    """Peak of a pass whose state is counted, and let go on the way."""
    save_peak: IntArray
    prepare_peak: IntArray


class ChainCosts(NamedTuple):
    """A heterogeneous chain: nanoseconds and bytes of each segment."""

    first: RunCosts
    """First runs: of all ops, which adds nothing to the step."""
    again: RunCosts
    """Later runs: of the ops that are needed for what the run leaves."""
    state: IntArray
    """Bytes of the state."""
    saved: IntArray
    """Bytes that a saving run leaves."""
    back_peak: IntArray
    """Peak of the backward, saved values included; state held elsewhere."""
    coming: IntArray
    """Bytes of gradients that come into the backward."""
    done: IntArray
    """Bytes of outputs that the backward of all later segments has made."""


def costs_of(chain: Chain) -> ChainCosts:
    """Return the costs of a chain. Linear in its ops and what crosses its cuts."""
    values = _Values(chain)
    segments = range(len(chain))
    first = [_run_costs(values, s, first=True) for s in segments]
    again = [_run_costs(values, s, first=False) for s in segments]
    return ChainCosts(
        RunCosts(*_columns(first)),
        RunCosts(*_columns(again)),
        *_columns([_other_costs(values, s) for s in segments]),
    )


def _columns(rows: Sequence[tuple[int, ...]]) -> list[IntArray]:
    columns = zip(*rows, strict=True)
    return [np.array(column, dtype=np.int64) for column in columns]


class _Values:
    """The values of a chain by role, as sets."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        problem = chain.problem
        count = len(chain)
        self.states: list[set[int]] = [set() for _ in range(count + 1)]
        self.read: list[set[int]] = [set() for _ in range(count)]
        self.gradients: list[set[int]] = [set() for _ in range(count + 1)]
        self.outputs: list[set[int]] = [set() for _ in range(count)]
        for value in range(problem.num_values):
            maker = int(problem.producers[value])
            first, last = int(chain.first[value]), int(chain.last[value])
            if maker >= problem.num_forward and problem.is_output[value]:
                self.outputs[first].add(value)
            elif 0 <= maker < problem.num_forward and not chain.kept[value]:
                for segment in range(first + 1, last + 1):
                    self.states[segment].add(value)
        for segment in range(count):
            for op in chain.backward[segment]:
                for value in self._reads(op):
                    self._add_read(segment, value)

    def _add_read(self, segment: int, value: int) -> None:
        chain = self.chain
        maker, first = int(chain.problem.producers[value]), int(chain.first[value])
        if maker >= chain.problem.num_forward:
            if not chain.problem.is_output[value]:
                for crossed in range(segment + 1, first + 1):
                    self.gradients[crossed].add(value)
        elif first == segment and not chain.kept[value]:
            self.read[segment].add(value)

    def passed(self, segment: int) -> set[int]:
        """Return the part of the next state that a segment makes."""
        following = self.states[segment + 1]
        return {v for v in following if self.chain.first[v] == segment}

    def _reads(self, op: int) -> list[int]:
        return row(self.chain.problem.reads_at, self.chain.problem.reads, op)

    def size(self, values: Iterable[int]) -> int:
        return int(self.chain.problem.sizes[list(values)].sum())


def _run_costs(values: _Values, segment: int, *, first: bool) -> tuple[int, ...]:
    """Return the figures of `RunCosts` for one segment."""
    chain = values.chain
    read, passed = values.read[segment], values.passed(segment)
    state, following = values.states[segment], values.states[segment + 1]
    counted = values.size(state)
    wanted = (passed, passed | read, read)
    runs = [
        list(chain.forward[segment]) if first else _needed(chain, segment, leaves)
        for leaves in wanted
    ]
    durations = [0 if first else _duration(chain, ops) for ops in runs]
    passing, saving, preparing = runs
    return (
        *durations,
        local_peak(chain, passing, state, state | following) - counted,
        local_peak(chain, passing, state, following),
        local_peak(chain, saving, state, state | following | read) - counted,
        local_peak(chain, preparing, state, state | read) - counted,
    )


def _needed(chain: Chain, segment: int, leaves: AbstractSet[int]) -> list[int]:
    """Return the ops of a segment that have to run again to make `leaves`."""
    problem, wanted = chain.problem, set(leaves)
    ops: list[int] = []
    for op in reversed(chain.again(segment)):
        if not wanted.isdisjoint(row(problem.makes_at, problem.makes, op)):
            wanted.update(row(problem.reads_at, problem.reads, op))
            ops.append(op)
    return ops[::-1]


def _duration(chain: Chain, ops: Sequence[int]) -> int:
    return sum(int(chain.problem.durations[op]) for op in ops)


def _other_costs(values: _Values, segment: int) -> tuple[int, ...]:
    """Return the figures of `ChainCosts` for one segment."""
    coming, going = values.gradients[segment + 1], values.gradients[segment]
    read, made = values.read[segment], values.outputs[segment]
    backward = values.chain.backward[segment]
    earlier = (v for later in values.outputs[segment + 1 :] for v in later)
    return (
        values.size(values.states[segment]),
        values.size(read | values.passed(segment)),
        local_peak(values.chain, backward, read | coming, going | made),
        values.size(coming),
        values.size(earlier),
    )


def local_peak(
    chain: Chain, ops: Sequence[int], start: AbstractSet[int], end: AbstractSet[int]
) -> int:
    """Return the most bytes that `start` and what `ops` make take while they run.

    Values are let go after their last read, those of `end` stay. Values that the
    chain keeps whole are not counted.
    """
    problem = chain.problem
    last = dict.fromkeys(start, -1)
    for position, op in enumerate(ops):
        reads = row(problem.reads_at, problem.reads, op)
        makes = row(problem.makes_at, problem.makes, op)
        last |= {value: position for value in reads if value in last}
        last |= {value: position for value in makes if not chain.kept[value]}
    last |= {value: len(ops) for value in end if value in last}
    leaving: list[list[int]] = [[] for _ in range(len(ops) + 1)]
    for value, position in last.items():
        if position >= 0:
            leaving[position].append(value)
    held = sum(int(problem.sizes[v]) for v in start if last[v] >= 0)
    most = held
    for position, op in enumerate(ops):
        makes = row(problem.makes_at, problem.makes, op)
        held += sum(int(problem.sizes[v]) for v in makes if not chain.kept[v])
        most = max(most, held + int(problem.workspaces[op]))
        held -= sum(int(problem.sizes[v]) for v in leaving[position])
    return most
