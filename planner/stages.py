"""The stages of a solve: each offers plans or proofs, each pauses for the clock."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from encamp.plan import Order

from .bounds import Bound, Cuts, best_bound, bound, outputs_floor
from .fill import attempt, attempts, recomputations
from .jit import IntArray
from .local_search import Leg, Walk, walk
from .program import Answer, Program, expand
from .progress import Progress
from .repair import FITS, STUCK, Taste, repair
from .replay_fast import drop_dead, first_runs, memory, select
from .start import from_held, starts, unplanned

_GAP_WEIGHTS = (0.0, 0.5, 1.0)
_DROPS_AT_ONCE, _ATTEMPTS_AT_ONCE, _MOVES_AT_ONCE = 16, 256, 8
"""At most so many between two looks at the clock; fewer on large graphs."""
_PASSES_PER_DROP, _PASSES_PER_ATTEMPT = 4, 3
"""Times that a drop and an attempt go through the schedule."""
_MOST_WALKS = 6
_MOST_MOVES = 5000
_WALK_WORK = 5 * 10**7
"""Moves of a local search times steps times recomputations."""
_LONGEST_MOVE = 2 * 10**7
_FIRST_WORK, _PROGRAM_WORK = 1.0, 4.0
"""CP-SAT's deterministic time, about seconds: for one moment, and for more."""
_STEPS_PER_CP_WORK = 10**8
"""Elementary steps that one unit of it counts as."""
_LEAST_S_FOR_A_PROGRAM = 0.2


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
    drops_per_op: float | None = None,
) -> IntArray | None:
    """Repair until it ends or the time is over; None unless the schedule fits.

    Near the smallest budgets repair may go round in circles; so many drops end it.
    """
    if drops_per_op is None:
        drops_per_op = progress.effort.drops_per_op
    most = _DROPS_AT_ONCE + int(drops_per_op * progress.problem.num_ops)
    while most > 0:
        per_drop = _PASSES_PER_DROP * len(steps)
        drops = progress.clock.at_once(per_drop, _DROPS_AT_ONCE)
        taste = taste._replace(max_drops=drops)
        steps, ended = repair(progress.problem, steps, budget, taste, progress.random)
        progress.clock.pay(drops * per_drop)
        most -= drops
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
        stays = np.ones(len(steps), dtype=np.bool_)
        order = attempts(problem, steps, 0.0, progress.random)
        per_attempt = _PASSES_PER_ATTEMPT * len(steps)
        together = progress.clock.at_once(per_attempt, _ATTEMPTS_AT_ONCE)
        for first in range(0, len(order), together):
            chosen = order[first : first + together]
            attempt(problem, steps, progress.budget, chosen, stays)
            progress.clock.pay(len(chosen) * per_attempt)
            if progress.clock.is_over():
                break
        steps = drop_dead(problem, select(steps, stays))
    return steps


def search_locally(progress: Progress) -> None:
    """Search around the best plan, and while the gap is wide, around it again.

    Walks from one plan end at different ones, so another walk is worth more than a
    longer one.
    """
    for _ in range(_MOST_WALKS):
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
    per_move = len(best) * max(1, len(recomputations(problem, best)))
    if per_move > _LONGEST_MOVE:
        return
    progress.begin("local-search")
    work = int(progress.effort.work * _WALK_WORK)
    moves = min(_MOST_MOVES, work // per_move + 1)
    together = progress.clock.at_once(_PASSES_PER_ATTEMPT * per_move, _MOVES_AT_ONCE)
    at = Walk(best, best)
    for first in range(0, moves, together):
        if progress.done:
            break
        pause = min(moves, first + together)
        leg = Leg(first, pause, moves, progress.target_ns)
        at = walk(problem, at, progress.budget, leg, progress.random)
        progress.clock.pay((pause - first) * _PASSES_PER_ATTEMPT * per_move)
        progress.offer(at.best)
    if progress.options.fill:
        progress.offer(fill_within(progress, at.best))


def first_moments(progress: Progress, op: int) -> list[int]:
    """Return where the integer programs begin: at the op whose cut proved most.

    With barred values the turn is among them.
    """
    turn = {progress.problem.num_forward} if progress.problem.barred.any() else set()
    return sorted({op} | turn)


def solve_programs(
    progress: Progress, moments: list[int], most_unfinished: int = 0
) -> list[int]:
    """Solve the program at some moments, then at more, until its solution fits.

    Each solution is expanded into a schedule and replayed; where that exceeds the
    budget most, the next program has one more moment. A solution that fits is
    optimal. It ends when more than `most_unfinished` programs were not solved to
    their end (what they prove till then is valid all the same), and returns the
    moments to go on with; none where there is nothing to gain.
    """
    progress.begin("integer-program")
    unfinished = 0
    while len(moments) <= progress.effort.moments:
        if progress.clock.left < _LEAST_S_FOR_A_PROGRAM:
            return []
        answer = _solve_program(progress, moments)
        if not answer.runs or progress.done:
            return []
        steps = expand(progress.problem, moments, answer)
        progress.offer(steps)
        improve(progress, steps)
        another = _worst_moment(progress, steps, moments)
        if another is None:
            return []
        moments = sorted([*moments, another])
        unfinished += not answer.complete
        if unfinished > most_unfinished:
            return moments
    return []


def _solve_program(progress: Progress, ops: list[int]) -> Answer:
    work = _FIRST_WORK if len(ops) == 1 else _PROGRAM_WORK
    work *= progress.effort.work
    left = progress.clock.work_left
    if left is not None:
        work = min(work, max(left, 0) / _STEPS_PER_CP_WORK)
    program = Program(progress.problem, ops, progress.budget)
    answer = program.solve(
        below_ns=progress.added_ns, work=work, stop=progress.clock.is_over
    )
    progress.clock.pay(int(answer.work * _STEPS_PER_CP_WORK))
    if answer.added_ns is not None:
        progress.prove(program.order, answer.added_ns, "integer-program")
    return answer


def _worst_moment(progress: Progress, steps: IntArray, ops: list[int]) -> int | None:
    """Return the op to look at next: the first run at or after the worst step."""
    held = memory(progress.problem, steps)
    first = first_runs(progress.problem, steps)
    base = np.sort(first)
    over = np.flatnonzero(held > progress.budget)
    for step in over[np.argsort(-held[over], kind="stable")]:
        at = np.searchsorted(base, step)
        if at < len(base) and int(steps[base[at]]) not in ops:
            return int(steps[base[at]])
    return None
