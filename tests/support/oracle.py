"""Exhaustive search over all schedules of small graphs: what no planner can beat.

A state is what has run, what is held, and which forward outputs were made again after
the first backward step handed them over. From a state any held value may be let go,
and any op that may run can run, if what is held then fits. Dijkstra's algorithm over
the states finds the least added duration, or the least peak, over every order and any
number of runs. It shares nothing with `replay` but the rules in its docstring.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

from encamp.graph import CostGraph, Op, Phase


@dataclass(frozen=True, slots=True)
class _State:
    """`handed` is set once the backward began; `remade` are outputs made after."""

    done: frozenset[int]
    held: frozenset[int]
    remade: frozenset[int] = frozenset()
    handed: bool = False


@dataclass(frozen=True, slots=True)
class _Move:
    state: _State
    duration: int
    memory: int


class _Rules:
    def __init__(
        self,
        graph: CostGraph,
        *,
        in_order: bool,
        barred: frozenset[int] = frozenset(),
    ) -> None:
        self.graph = graph
        self.barred = barred
        self.in_order = in_order
        self.given = frozenset(
            v.id
            for v in graph.values
            if graph.producer[v.id] is None and not v.resident
        )
        self.resident = frozenset(v.id for v in graph.values if v.resident)
        self.early = frozenset(
            v
            for v in graph.outputs
            if v not in self.resident and self._is_early(graph.producer[v])
        )
        self.late = frozenset(graph.outputs) - self.early - self.resident

    def _is_early(self, maker: int | None) -> bool:
        return maker is None or maker < self.graph.num_forward

    def start(self) -> _State:
        return _State(frozenset(), self.given)

    def ended(self, state: _State) -> bool:
        handed = state.handed or state.held >= self.early
        return len(state.done) == len(self.graph.ops) and (
            handed and state.held >= self.late
        )

    def moves(self, state: _State) -> Iterator[_Move]:
        if state.done:
            for value in state.held:
                yield _Move(self._without(state, value), 0, 0)
        for op in self.graph.ops:
            if self._may_run(state, op):
                yield self._run(state, op)

    def _without(self, state: _State, value: int) -> _State:
        return _State(state.done, state.held - {value}, state.remade, state.handed)

    def _may_run(self, state: _State, op: Op) -> bool:
        if op.id in state.done:
            allowed = op.recompute.allowed
        else:
            allowed = not self.in_order or op.id == len(state.done)
        if op.phase is Phase.BACKWARD and not state.handed:
            forward = frozenset(range(self.graph.num_forward))
            allowed &= state.done >= forward and state.held >= self.early
            allowed &= not state.held & self.barred - frozenset(op.inputs)
        return allowed and self._available(state) >= frozenset(op.inputs)

    def _available(self, state: _State) -> frozenset[int]:
        standing = self.early - state.remade if state.handed else frozenset()
        return state.held | self.resident | standing

    def _run(self, state: _State, op: Op) -> _Move:
        handed = state.handed or op.phase is Phase.BACKWARD
        held, remade, standing = state.held, state.remade, frozenset()
        if handed:
            standing = self.early
            held -= self.early - remade
            remade |= frozenset(op.outputs) & self.early
        held |= frozenset(op.outputs)
        following = _State(state.done | {op.id}, held, remade, handed)
        memory = self._bytes(held) + self._bytes(standing) + self._bytes(self.resident)
        return _Move(following, op.duration_ns, memory + op.workspace_bytes)

    def _bytes(self, values: frozenset[int]) -> int:
        return sum(self.graph.values[v].bytes for v in values)


def least_duration(
    graph: CostGraph,
    budget: int,
    *,
    in_order: bool = False,
    barred: frozenset[int] = frozenset(),
) -> int | None:
    """Return the duration of the shortest schedule within a budget, None if none fits.

    With `in_order` only schedules whose first runs are in op order count. The first
    backward op runs only when no `barred` value is held but what it reads.
    """
    rules = _Rules(graph, in_order=in_order, barred=barred)

    def extend(total: int, move: _Move) -> int | None:
        return total + move.duration if move.memory <= budget else None

    return _least(rules, extend)


def least_peak(graph: CostGraph, *, in_order: bool = False) -> int:
    """Return the smallest peak of any schedule."""
    rules = _Rules(graph, in_order=in_order)
    least = _least(rules, lambda peak, move: max(peak, move.memory))
    assert least is not None
    return least


def _least(rules: _Rules, extend: Callable[[int, _Move], int | None]) -> int | None:
    """Return the least cost of a way to the end: Dijkstra over the states."""
    tie = count()
    queue = [(0, next(tie), rules.start())]
    settled: set[_State] = set()
    while queue:
        cost, _, state = heappop(queue)
        if rules.ended(state):
            return cost
        if state in settled:
            continue
        settled.add(state)
        for move in rules.moves(state):
            extended = extend(cost, move)
            if extended is not None and move.state not in settled:
                heappush(queue, (extended, next(tie), move.state))
    return None
