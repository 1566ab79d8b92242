"""The stages of a solve: each offers plans or proofs, each pauses for the clock."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from encamp.plan import Order

from .bounds import Bound, Cuts, best_bound, bound, moments, outputs_floor
from .fill import attempt, attempts, recomputations
from .jit import IntArray
from .local_search import Leg, Walk, walk
from .program import Answer, Program, expand
from .progress import Progress
from .repair import FITS, STUCK, Taste, repair
from .replay_fast import drop_dead, first_runs, memory, select
from .start import starts, unplanned

_GAP_WEIGHTS = (0.0, 0.5, 1.0)
_DROPS_AT_ONCE = 16
_DROPS_PER_OP = 4
_ATTEMPTS_AT_ONCE = 256
_MOVES_AT_ONCE = 8
_MOST_MOVES = 5000
_WALK_WORK = 5 * 10**7
"""Moves of a local search times steps times recomputations."""
_FIRST_WORK, _PROGRAM_WORK = 1.0, 4.0
"""CP-SAT's deterministic time, about seconds: for one moment, and for more."""
_MOST_MOMENTS = 12


def prove_bound(cuts: Cuts, progress: Progress) -> Bound | None:
    """Prove what priced cuts can prove; return the cut that proved most.

    Returns a bound without added nanoseconds where the budget is infeasible.
    """
    progress.begin("cut")
    last = outputs_floor(cuts.problem)
    if last.least_bytes > progress.budget:
        return last
    best: Bound | None = None
    ops = _until_over(progress, moments(cuts.problem))
    for found in best_bound(cuts, progress.budget, ops):
        best = found
        if found.added_ns is None:
            return found
        progress.prove(Order.FREE, found.added_ns, "priced-cut")
    return best


def prove_given(cuts: Cuts, progress: Progress) -> int | None:
    """Prove what the cuts of the given order prove; return the best one's op."""
    progress.begin("given-cut")
    best, best_op = -1, None
    for op in _until_over(progress, moments(cuts.problem)):
        added = bound(cuts.at(op, Order.GIVEN), progress.budget).added_ns
        if added is not None and added > best:
            best, best_op = added, op
            progress.prove(Order.GIVEN, added, "priced-cut")
    return best_op


def _until_over(progress: Progress, ops: Iterable[int]) -> Iterable[int]:
    for op in ops:
        if progress.clock.is_over():
            return
        yield op


def start_repair_fill(cuts: Cuts, found: Bound | None, progress: Progress) -> None:
    """Repair and fill the unplanned schedule and those of the bound's cut."""
    progress.begin("repair")
    schedules = [unplanned(cuts.problem)]
    if found is not None and progress.options.starts:
        schedules += starts(cuts, found)
    for steps in schedules:
        improve(progress, steps)
        if progress.done:
            return


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
    drops_per_op: int = _DROPS_PER_OP,
) -> IntArray | None:
    """Repair until it ends or the time is over; None unless the schedule fits.

    Near the smallest budgets repair may go round in circles; so many drops end it.
    """
    taste = taste._replace(max_drops=_DROPS_AT_ONCE)
    most = _DROPS_AT_ONCE + drops_per_op * progress.problem.num_ops
    for _ in range(0, most, _DROPS_AT_ONCE):
        steps, ended = repair(progress.problem, steps, budget, taste, progress.random)
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
        for first in range(0, len(order), _ATTEMPTS_AT_ONCE):
            chosen = order[first : first + _ATTEMPTS_AT_ONCE]
            attempt(problem, steps, progress.budget, chosen, stays)
            if progress.clock.is_over():
                break
        steps = drop_dead(problem, select(steps, stays))
    return steps


def search_locally(progress: Progress) -> None:
    """Search around the best plan, by an amount of work that the graph's size sets."""
    if progress.best is None:
        return
    progress.begin("local-search")
    problem, best = progress.problem, progress.best
    per_move = len(best) * max(1, len(recomputations(problem, best)))
    moves = min(_MOST_MOVES, _WALK_WORK // per_move + 1)
    at = Walk(best, best)
    for first in range(0, moves, _MOVES_AT_ONCE):
        if progress.done:
            break
        pause = min(moves, first + _MOVES_AT_ONCE)
        leg = Leg(first, pause, moves, progress.target_ns)
        at = walk(problem, at, progress.budget, leg, progress.random)
        progress.offer(at.best)
    if progress.options.fill:
        progress.offer(fill_within(progress, at.best))


def solve_programs(progress: Progress, first_op: int) -> None:
    """Solve the program at one moment, then at more, until its solution fits.

    Each solution is expanded into a schedule and replayed; where that exceeds the
    budget most, the next program has one more moment. A solution that fits is
    optimal. It ends early when a program is not solved to its end.
    """
    progress.begin("integer-program")
    ops = [first_op]
    while len(ops) <= _MOST_MOMENTS:
        answer = _solve_program(progress, ops)
        if not answer.runs or progress.done:
            return
        steps = expand(progress.problem, ops, answer)
        progress.offer(steps)
        improve(progress, steps)
        another = _worst_moment(progress, steps, ops)
        if another is None or not answer.complete:
            return
        ops = sorted([*ops, another])


def _solve_program(progress: Progress, ops: list[int]) -> Answer:
    program = Program(progress.problem, ops, progress.budget)
    answer = program.solve(
        below_ns=progress.added_ns,
        work=_FIRST_WORK if len(ops) == 1 else _PROGRAM_WORK,
        seconds=progress.clock.left,
    )
    if answer.added_ns is not None:
        order = Order.FREE if len(ops) == 1 else Order.GIVEN
        progress.prove(order, answer.added_ns, "integer-program")
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
