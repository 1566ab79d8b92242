"""The stages of a solve: each offers plans or proofs, each pauses for the clock."""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt

import numpy as np

from encamp.plan import Order

from .bounds import Bound, Cuts, best_bound, bound, outputs_floor
from .exact import Answer, solve_exactly
from .fill import attempt, attempts, recomputations, what_stays
from .jit import IntArray
from .local_search import Leg, Walk, walk
from .program import Program, expand
from .progress import Progress
from .relaxation import Limits, Relaxation, relax
from .repair import FITS, STUCK, Taste, repair
from .replay_fast import first_runs, memory
from .start import from_held, starts, unplanned
from .timeline import timeline

_GAP_WEIGHTS = (0.0, 0.5, 1.0)
_ROUNDS_AT_ONCE, _ATTEMPTS_AT_ONCE, _MOVES_AT_ONCE = 16, 256, 8
"""At most so many between two looks at the clock; fewer on large graphs."""
_PASSES_PER_ROUND, _PASSES_PER_MOVE = 4, 20
"""Times that a round of repair and a move of a local search go through a schedule."""
_STEPS_PER_ATTEMPT = 400
"""Elementary steps of taking a recomputation out and bringing it back."""
_MOST_WALKS = 6
_MOST_MOVES = 5000
_WALK_WORK = 10**8
"""Elementary steps of one walk."""
_LONGEST_MOVE = 2 * 10**7
_FIRST_WORK, _PROGRAM_WORK = 1.0, 6.0
"""CP-SAT's deterministic time, about seconds: for one moment, and for more."""
_STEPS_PER_CP_WORK = 10**8
"""Elementary steps that one unit of it counts as."""
_LEAST_S_FOR_A_PROGRAM = 0.2
_PAIRS_IN_PROGRAM, _PAIRS_IN_RELAXATION, _PAIRS_APART = 160_000, 45_000, 20_000
"""Most pairs of moments times ops: in a program that grows while it can be solved, in
a relaxation, and in the program that comes after."""
_LEAST_GAIN = 0.0002
"""Share of the unplanned step by which a relaxation is to prove more."""
_CLOSE = 100
"""Moments are close within one in so many of the graph's ops."""
_MOST_ITERATIONS = 30_000
"""Steps of the simplex method in a relaxation and its dive."""
_SMALL, _MOMENTS_OF_SMALL = 100, 8
"""Ops and moments up to which programs are solved on within a gap that would do."""
_MOMENTS_AT_ONCE = 3
"""Moments by which a program grows."""


def prove_bound(cuts: Cuts, progress: Progress) -> Bound | None:
    """Prove what priced cuts can prove; return the cut that proved most.

    Returns a bound without added nanoseconds where the budget is infeasible. Takes a
    third of what is left at most.
    """
    progress.begin("cut")
    last = outputs_floor(cuts.problem)
    if last.least_bytes > progress.budget:
        return last
    if cuts.problem.barred.any():
        at_turn = bound(cuts.at_turn(), progress.budget)
        if at_turn.added_ns is None:
            return at_turn
        progress.prove(Order.FREE, at_turn.added_ns, "rules-cut")
    best: Bound | None = None
    for found in _bounds(cuts, Order.FREE, progress):
        best = found
        if found.added_ns is None:
            return found
        progress.prove(Order.FREE, found.added_ns, "priced-cut")
    return best


def prove_given(cuts: Cuts, progress: Progress) -> None:
    """Prove what the cuts of the given order prove, in a third of what is left."""
    progress.begin("given-cut")
    for found in _bounds(cuts, Order.GIVEN, progress):
        if found.added_ns is not None:
            progress.prove(Order.GIVEN, found.added_ns, "priced-cut")


def _bounds(cuts: Cuts, order: Order, progress: Progress) -> Iterator[Bound]:
    clock = progress.clock.share(1 / 3)
    return best_bound(cuts, order, progress.budget, pay=clock.pay, stop=clock.is_over)


def start_repair_fill(cuts: Cuts, found: Bound | None, progress: Progress) -> None:
    """Repair and fill the unplanned schedule and those of the bound's cut.

    Those that fit as they are come first, so that there is a plan early.
    """
    progress.begin("repair")
    schedules = list(_schedules(cuts, found, progress))
    nothing = np.zeros(cuts.problem.num_values, dtype=np.bool_)
    for steps in (*schedules, from_held(cuts.problem, nothing)):
        progress.offer(steps)
    for steps in schedules:
        improve(progress, steps)
        if progress.done:
            return


def _schedules(
    cuts: Cuts, found: Bound | None, progress: Progress
) -> Iterator[IntArray]:
    yield unplanned(cuts.problem)
    if found is not None and progress.options.starts:
        yield from starts(cuts, found)


def improve(progress: Progress, steps: IntArray, noise: float = 0.0) -> None:
    """Offer what repair and fill make of a schedule, in some variants."""
    for gap_weight in _GAP_WEIGHTS:
        taste = Taste(gap_weight=gap_weight, noise=noise)
        repaired = repair_within(progress, steps, progress.budget, taste)
        if repaired is not None:
            progress.offer(repaired)
            if progress.options.fill:
                progress.offer(fill_within(progress, repaired))
        if progress.done:
            return


def repair_within(
    progress: Progress,
    steps: IntArray,
    budget: int,
    taste: Taste,
    *,
    rounds_per_op: float | None = None,
) -> IntArray | None:
    """Repair until it ends or the time is over; None unless the schedule fits.

    Near the smallest budgets repair may go round in circles; so many rounds end it.
    """
    if rounds_per_op is None:
        rounds_per_op = progress.effort.rounds_per_op
    most = _ROUNDS_AT_ONCE + int(rounds_per_op * progress.problem.num_ops)
    while most > 0:
        per_round = _PASSES_PER_ROUND * len(steps)
        rounds = progress.clock.at_once(per_round, _ROUNDS_AT_ONCE)
        taste = taste._replace(max_rounds=rounds)
        steps, ended = repair(progress.problem, steps, budget, taste, progress.random)
        progress.clock.pay(rounds * per_round)
        most -= rounds
        if ended == FITS:
            return steps
        if ended == STUCK or progress.clock.is_over():
            break
    return None


def fill_within(progress: Progress, steps: IntArray) -> IntArray:
    """Fill until nothing more can go, or the time is over."""
    problem, before = progress.problem, len(steps) + 1
    while len(steps) < before and not progress.clock.is_over():
        before = len(steps)
        line = timeline(problem, steps)
        progress.clock.pay(len(steps))
        order = attempts(problem, steps, 0.0, progress.random)
        together = progress.clock.at_once(_STEPS_PER_ATTEMPT, _ATTEMPTS_AT_ONCE)
        for first in range(0, len(order), together):
            chosen = order[first : first + together]
            attempt(problem, line, progress.budget, chosen)
            progress.clock.pay(len(chosen) * _STEPS_PER_ATTEMPT)
            if progress.clock.is_over():
                break
        steps = what_stays(problem, line)
    return steps


def search_locally(progress: Progress, walks: int = _MOST_WALKS) -> None:
    """Search around the best plan, and while the gap is wide, around it again.

    Walks from one plan end at different ones, so another walk is worth more than a
    longer one.
    """
    for _ in range(walks):
        if progress.best is None or progress.done:
            return
        _walk_around(progress, progress.best)
        if not progress.wide:
            return


def _walk_around(progress: Progress, best: IntArray) -> None:
    """Walk from the best plan, by an amount of work that the graph's size sets.

    A single move on a graph so large that it would not end in time is not begun.
    """
    problem = progress.problem
    attempted = len(recomputations(problem, best))
    per_move = _PASSES_PER_MOVE * len(best) + _STEPS_PER_ATTEMPT * attempted
    if per_move > _LONGEST_MOVE:
        return
    progress.begin("local-search")
    work = int(progress.effort.work * _WALK_WORK)
    moves = min(_MOST_MOVES, work // per_move + 1)
    together = progress.clock.at_once(per_move, _MOVES_AT_ONCE)
    at = Walk(best, best)
    for first in range(0, moves, together):
        if progress.done:
            break
        pause = min(moves, first + together)
        leg = Leg(first, pause, moves, progress.target_ns)
        at = walk(problem, at, progress.budget, leg, progress.random)
        progress.clock.pay((pause - first) * per_move)
        progress.offer(at.best)
    if progress.options.fill:
        progress.offer(fill_within(progress, at.best))


def first_moments(progress: Progress, op: int) -> list[int]:
    """Return where the integer programs begin: at the op whose cut proved most.

    With barred values the turn is among them.
    """
    turn = {progress.problem.num_forward} if progress.problem.barred.any() else set()
    return sorted({op} | turn)


def solve_programs(progress: Progress, moments: list[int]) -> list[int]:
    """Solve the program at some moments, then at more, until its solution fits.

    Each solution is expanded into a schedule and replayed; where that exceeds the
    budget most, the next program has further moments. A solution that fits is
    optimal. It ends with a program that was not solved to its end (what that proves
    till then is valid all the same), and returns the moments to go on with; none
    where there is nothing to gain.
    """
    progress.begin("integer-program")
    while len(moments) <= _most_moments(progress, _PAIRS_IN_PROGRAM):
        if progress.clock.left < _LEAST_S_FOR_A_PROGRAM:
            return []
        program = Program(progress.problem, moments, progress.budget)
        answer = _solve_program(progress, program)
        if not answer.runs or _is_enough(progress, len(moments)):
            return []
        if not progress.keeps_order:  # what more moments prove does not cover it
            return []
        steps = expand(program, answer.runs)
        progress.offer(steps)
        improve(progress, steps)
        others = _worst_moments(progress, steps, moments)
        if not others:
            return []
        if not answer.complete:
            return _apart(progress, [*others, *moments])
        moments = sorted([*moments, *others])
    return moments


def _is_enough(progress: Progress, moments: int) -> bool:
    """Return whether no larger program is worth solving.

    Those of small graphs take so little that a gap which would do is closed with them.
    """
    small = progress.problem.num_ops <= _SMALL and moments <= _MOMENTS_OF_SMALL
    return progress.closed or progress.clock.is_over() or (progress.done and not small)


def relax_programs(progress: Progress, moments: list[int]) -> list[int]:
    """Solve relaxations at some moments, then at more; return those to go on with.

    A relaxation is cheap enough for more moments than a program, and its prices tell
    which of them a program should look at. It ends when more moments prove no more.
    """
    progress.begin("linear-program")
    priced, proved = moments, -1
    most = _most_moments(progress, _PAIRS_IN_RELAXATION)
    while len(moments) <= most and not progress.done:
        program = Program(progress.problem, moments, progress.budget)
        found = _relax(progress, program)
        if found is None:
            break
        progress.prove(program.order, found.added_ns, "linear-program")
        priced = list(found.priced)
        steps = expand(program, found.runs)
        progress.offer(steps)
        improve(progress, steps)
        others = _worst_moments(progress, steps, moments)
        gained = found.added_ns - proved
        proved = max(proved, found.added_ns)
        if not others or gained < _LEAST_GAIN * progress.unplanned_ns:
            break
        moments = sorted([*priced, *others])
    return _apart(progress, priced)


def _apart(progress: Progress, moments: list[int]) -> list[int]:
    """Return the first of some moments, as many as a program can look at.

    Those close to each other hold nearly the same values; one of them will do.
    """
    close = progress.problem.num_ops // _CLOSE
    chosen: list[int] = []
    for op in moments:
        if all(abs(op - other) > close for other in chosen):
            chosen.append(op)
    return sorted(chosen[: _most_moments(progress, _PAIRS_APART)])


def _relax(progress: Progress, program: Program) -> Relaxation | None:
    clock, size = progress.clock, max(1, program.num_variables)
    iterations = _MOST_ITERATIONS
    if clock.work_left is not None:
        iterations = min(iterations, max(clock.work_left, 0) // size)
    limits = Limits(iterations, lambda: clock.left, clock.is_over)
    found = relax(program, limits)
    if found is not None:
        clock.pay(found.iterations * size)
    return found


def _most_moments(progress: Progress, pairs_of_ops: int) -> int:
    """Return how many moments make a program that can be solved in its share of work.

    Its size is that of the graph for each two of them.
    """
    pairs = pairs_of_ops // progress.problem.num_ops
    return min(progress.effort.moments, max(1, isqrt(2 * pairs)))


def _solve_program(progress: Progress, program: Program) -> Answer:
    work = _FIRST_WORK if len(program.ops) == 1 else _PROGRAM_WORK
    work *= progress.effort.work
    left = progress.clock.work_left
    if left is not None:
        work = min(work, max(left, 0) / _STEPS_PER_CP_WORK)
    answer = solve_exactly(
        program, below_ns=progress.added_ns, work=work, stop=progress.clock.is_over
    )
    progress.clock.pay(int(answer.work * _STEPS_PER_CP_WORK))
    if answer.added_ns is not None:
        progress.prove(program.order, answer.added_ns, "integer-program")
    return answer


def _worst_moments(
    progress: Progress, steps: IntArray, moments: list[int]
) -> list[int]:
    """Return where a schedule is over budget: one op of each stretch that is.

    A stretch is a run of first runs, each reached over budget; its op is the one
    reached highest. The highest stretches come first, some of them at once.
    """
    base = np.sort(first_runs(progress.problem, steps))
    starts = np.concatenate(([0], base[:-1] + 1))
    highest = np.maximum.reduceat(memory(progress.problem, steps), starts)
    over = np.flatnonzero(highest > progress.budget)
    over = over[~np.isin(steps[base[over]], moments)]
    stretches = np.split(over, np.flatnonzero(np.diff(over) > 1) + 1)
    tops = [int(s[highest[s].argmax()]) for s in stretches if len(s)]
    tops.sort(key=lambda position: -highest[position])
    return [int(steps[base[position]]) for position in tops[:_MOMENTS_AT_ONCE]]
