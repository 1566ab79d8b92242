"""The stage that searches over orders: annealings from new starts and from their best.

It is for graphs of one phase. Where a backward mirrors the forward, the order of the
first runs is as good as forced, and a plan in another order would only lose the
bounds that hold for the given one.

Up to some size many short annealings find more than a long one; between them the best
few schedules are heated up again, to temperatures that leave most of them standing.
Two annealings run at a time, on two threads. Which they are depends on the seed alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import repeat

from .cooling import Cooling, State, anneal, begin
from .jit import IntArray, below, random_state, uniform
from .progress import Progress
from .replay_fast import peak
from .slots import board
from .start import unplanned

_LEAST_OPS, _MOST_OPS = 3, 4000
_AT_ONCE = 2
_MOVES_PER_OP, _LEAST_MOVES = 3_000, 20_000
_LONG_FROM, _LONG_MOVES_PER_OP = 501, 10_000
"""From this many ops on the first annealing is a long one."""
_MOST_ROUNDS, _MOST_MOVES = 24, 36_000_000
"""Of all rounds together, on each of the threads."""
_PATIENCE = 10
"""Rounds without a better plan after which no more is tried."""
_ELITE, _FEW = 6, 3
_STEPS_PER_MOVE, _SLOTS_PER_STEP = 100, 4
_MOST_AT_ONCE = 65_536
"""Moves between two looks at the clock."""
_SEEDS = 2**31
_RESOLUTION = 200
"""The search for a smaller peak ends at steps of one in so many."""


def may_reorder(progress: Progress) -> bool:
    """Return whether a search for another order is allowed and worth it.

    It is where there is one phase, and neither so few ops that nothing can change nor
    so many that a search gets nowhere.
    """
    options, problem = progress.options, progress.problem
    allowed = options.annealing and not options.fixed_order
    one_phase = problem.num_forward == problem.num_ops
    return allowed and one_phase and _LEAST_OPS <= problem.num_ops <= _MOST_OPS


def search_orders(progress: Progress) -> None:
    """Anneal schedules of any order, and offer the best as they are found."""
    progress.begin("annealing")
    portfolio = _Portfolio(progress)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        for annealings in portfolio.rounds():
            _run(progress, annealings, threads)
            portfolio.collect(annealings)
            if progress.done:
                return


def squeeze_orders(progress: Progress, steps: IntArray, least: int) -> IntArray:
    """Return a schedule of any order of a peak as small as short annealings find.

    Bisects between the peak of `steps` and the `least` of any schedule, taking a goal
    that the annealings of one round miss as out of reach; so a smaller one may exist.
    """
    progress.begin("annealing")
    problem, clock, low = progress.problem, progress.clock, least
    top = int(peak(problem, steps))
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        while top - low > max(1, top // _RESOLUTION) and not clock.is_over():
            goal = (low + top) // 2
            attempt = Progress(problem, goal, progress.options, clock)
            _run(attempt, _Portfolio(attempt).fresh(), threads)
            if attempt.best is None:
                low = goal
            else:
                steps, top = attempt.best, int(peak(problem, attempt.best))
    return steps


@dataclass(frozen=True, slots=True)
class _Annealing:
    """One annealing under way."""

    state: State
    cooling: Cooling

    @property
    def is_over(self) -> bool:
        return int(self.state.move[0]) >= self.cooling.moves

    @property
    def best(self) -> tuple[int, IntArray] | None:
        """Return the duration of the best schedule and the schedule."""
        size, duration = self.state.found.tolist()
        return None if size < 0 else (duration, self.state.best[:size].copy())

    def go_on(self, moves: int) -> None:
        anneal(self.state, self.cooling, int(self.state.move[0]) + moves)


def _run(
    progress: Progress, annealings: list[_Annealing], threads: ThreadPoolExecutor
) -> None:
    """Run annealings side by side, a piece at a time, until they or the search end.

    A gap that is small enough does not end them: what they find last is often best.
    """
    clock = progress.clock
    while not (clock.is_over() or all(one.is_over for one in annealings)):
        slots = annealings[0].state.board.line.shape[1]
        per_move = _STEPS_PER_MOVE + slots // _SLOTS_PER_STEP
        moves = clock.at_once(len(annealings) * per_move, _MOST_AT_ONCE)
        list(threads.map(_Annealing.go_on, annealings, repeat(moves)))
        clock.pay(len(annealings) * moves * per_move)
        for one in annealings:
            if one.best is not None:
                progress.offer(one.best[1])
        if progress.closed:
            return


@dataclass(slots=True)
class _Portfolio:
    """Which annealings to run, given what earlier ones have found."""

    progress: Progress
    elite: list[tuple[int, IntArray]] = field(default_factory=list)
    """The best schedules so far, of different durations, the shortest first."""
    _unchanged: int = 0
    """Rounds since the shortest was found."""

    def rounds(self) -> Iterator[list[_Annealing]]:
        """Yield the annealings to run next, until no more are worth it."""
        num_ops = self.progress.problem.num_ops
        moves, done = _moves(num_ops), 0
        if num_ops >= _LONG_FROM:
            done = _LONG_MOVES_PER_OP * num_ops
            yield [self._begin(self._long(done), None) for _ in range(_AT_ONCE)]
        most = min(_MOST_MOVES, _MOST_ROUNDS * moves) * self.progress.effort.work
        total = max(done + moves, int(most))
        while done + moves <= total and self._unchanged < _PATIENCE:
            yield [self._next(moves, done / total) for _ in range(_AT_ONCE)]
            done += moves

    def fresh(self) -> list[_Annealing]:
        """Return short annealings from the unplanned schedule."""
        moves = _moves(self.progress.problem.num_ops)
        return [self._begin(self._new(moves), None) for _ in range(_AT_ONCE)]

    def collect(self, annealings: list[_Annealing]) -> None:
        """Put what annealings found among the best."""
        before = self.elite[0][0] if self.elite else None
        found = [one.best for one in annealings if one.best is not None]
        known = dict([*found, *self.elite])
        self.elite = sorted(known.items(), key=lambda one: one[0])[:_ELITE]
        changed = self.elite and self.elite[0][0] != before
        self._unchanged = 0 if changed else self._unchanged + 1

    def _next(self, moves: int, share: float) -> _Annealing:
        """Return a new start; ever more often, one of the best heated up again."""
        fresh = 0.5 * (1 - 2 * share)
        if len(self.elite) < _FEW or uniform(self.progress.random) < fresh:
            return self._begin(self._new(moves), None)
        chosen = 0
        while chosen + 1 < len(self.elite) and uniform(self.progress.random) < 0.37:
            chosen += 1
        return self._begin(self._again(moves), self.elite[chosen][1])

    def _new(self, moves: int) -> Cooling:
        return Cooling(
            moves,
            hot=self._one_of(0.3, 0.5, 1.0),
            cold=self._one_of(0.005, 0.01, 0.02),
            target=self._one_of(1e-3, 5e-3, 1e-2),
            cascades=self._one_of(0.02, 0.1, 0.15, 0.25),
        )

    def _again(self, moves: int) -> Cooling:
        return Cooling(
            moves,
            hot=self._one_of(0.05, 0.1, 0.2, 0.4),
            cold=self._one_of(0.005, 0.01, 0.02),
            price=self._one_of(20.0, 50.0, 100.0),
            target=1e-3,
            cascades=self._one_of(0.02, 0.1, 0.15, 0.25),
        )

    def _long(self, moves: int) -> Cooling:
        return Cooling(moves, hot=0.5, cold=0.003)

    def _one_of(self, *choices: float) -> float:
        return choices[below(self.progress.random, len(choices))]

    def _begin(self, cooling: Cooling, steps: IntArray | None) -> _Annealing:
        problem = self.progress.problem
        steps = unplanned(problem) if steps is None else steps
        slots = _slots(problem.num_ops, len(steps))
        laid = board(problem, self.progress.budget, slots)
        random = random_state(below(self.progress.random, _SEEDS))
        return _Annealing(begin(laid, steps, cooling, random), cooling)


def _moves(num_ops: int) -> int:
    """Return the moves of a short annealing."""
    return max(_LEAST_MOVES, _MOVES_PER_OP * num_ops)


def _slots(num_ops: int, steps: int) -> int:
    """Return how many slots leave gaps enough; fewer are faster on large graphs."""
    wanted = 4 * num_ops if num_ops <= 400 else 5 * num_ops // 2
    return max(wanted, 2 * steps, 256)
