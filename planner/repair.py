"""Repair: bring a schedule under a budget by dropping values and recomputing them.

While some step is over the budget, look at the worst one. Each value that is live
there and unused may be dropped, if the ops that make it again (its chain) can run
just before its next use, never earlier. The value with the most useful bytes per
added nanosecond goes first. Greedy, so it may fail where a plan exists.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .jit import IntArray, RandomState, compiled, uniform
from .problem import Problem
from .replay_fast import (
    FORBIDDEN,
    boundary,
    drop_dead,
    duration,
    insert,
    memory,
    worst_step,
)

NEVER = 2**62
"""A next use that does not come, and a duration limit that does not bind."""
FITS, STUCK, UNFINISHED = 0, 1, 2
"""How a repair ended: under the budget, without a move, or at its limit of drops."""
_LONGEST = 8
"""Repair is stuck where schedules have so many times the graph's ops."""


class Taste(NamedTuple):
    """How repair chooses among values, and when it gives up."""

    gap_weight: float = 0.0
    """Power of the number of steps over budget that a drop helps."""
    noise: float = 0.0
    """Spread of the random factor on each score; 0 is deterministic."""
    duration_limit: int = NEVER
    """Give up once the schedule takes this many nanoseconds."""
    max_drops: int = 2**31
    """Pause after this many drops."""


class Uses(NamedTuple):
    """The instance of each value around one step of a schedule."""

    born: IntArray
    """Step that made the newest instance up to here, or -1."""
    last: IntArray
    """Its last use up to here, or the step that made it."""
    next: IntArray
    """Its next use after here, or `NEVER`."""
    remade: IntArray
    """First step after here that makes a newer instance, or `NEVER`."""


@compiled
def uses_around(problem: Problem, steps: IntArray, here: int) -> Uses:
    """Return where each value stands at step `here`. Linear in the schedule.

    Being handed over, at the first backward step or at the end, counts as a use.
    """
    turn = boundary(problem, steps)
    born, last = _up_to(problem, steps, here)
    following = np.full(problem.num_values, NEVER, dtype=np.int64)
    remade = np.full(problem.num_values, NEVER, dtype=np.int64)
    for value in range(problem.num_values):
        early = problem.producers[value] < problem.num_forward
        if problem.is_output[value] and early and born[value] < turn <= here:
            last[value] = here
    for step in range(here + 1, len(steps) + 1):
        if step in (turn, len(steps)):
            for value in range(problem.num_values):
                early = problem.producers[value] < problem.num_forward
                due = step == (turn if early and turn > here else len(steps))
                if problem.is_output[value] and due:
                    _use(following, remade, value, step)
        if step == len(steps):
            break
        op = steps[step]
        for at in range(problem.reads_at[op], problem.reads_at[op + 1]):
            _use(following, remade, problem.reads[at], step)
        for at in range(problem.makes_at[op], problem.makes_at[op + 1]):
            value = problem.makes[at]
            remade[value] = min(remade[value], step)
    return Uses(born, last, following, remade)


@compiled
def _up_to(problem: Problem, steps: IntArray, here: int) -> tuple[IntArray, IntArray]:
    """Return birth and last use of each value's newest instance up to `here`."""
    born = np.full(problem.num_values, -1, dtype=np.int64)
    last = np.full(problem.num_values, -1, dtype=np.int64)
    for value in range(problem.num_values):
        if problem.producers[value] < 0:
            born[value] = last[value] = 0
    for step in range(here + 1):
        op = steps[step]
        for at in range(problem.reads_at[op], problem.reads_at[op + 1]):
            last[problem.reads[at]] = step
        for at in range(problem.makes_at[op], problem.makes_at[op + 1]):
            value = problem.makes[at]
            born[value] = step
            last[value] = step
    return born, last


@compiled
def _use(following: IntArray, remade: IntArray, value: int, step: int) -> None:
    if remade[value] == NEVER and following[value] == NEVER:
        following[value] = step


class Scratch(NamedTuple):
    """What one search reuses: a mark per op, a stack of ops, its random stream."""

    marks: IntArray
    chain: IntArray
    random: RandomState


@compiled
def scratch(problem: Problem, random: RandomState) -> Scratch:
    """Return fresh work space for `chain_of`."""
    marks = np.full(problem.num_ops + 1, -1, dtype=np.int64)
    return Scratch(marks, np.empty(problem.num_ops, dtype=np.int64), random)


class Excess(NamedTuple):
    """The step to relieve, and by how much."""

    step: int
    bytes: int
    over: IntArray
    """For each step how many steps before it are over the budget."""
    allowance: int
    """Nanoseconds that a drop must add less than."""
    breaks_rule: bool
    """Whether barred values are held there, which nothing else can make up for."""


@compiled
def chain_of(problem: Problem, uses: Uses, value: int, space: Scratch) -> int:
    """Count the ops that make `value` again just before its next use.

    They are left in `space.chain`. Other values that are used later are there to be
    read, and so are those made again in between. Returns 0 where the chain
    would need a pinned op, or `value` itself.
    """
    before = uses.next[value]
    first = problem.producers[value]
    if first < 0 or problem.pinned[first]:
        return 0
    space.marks[-1] += 1
    stamp = space.marks[-1]
    space.marks[first] = stamp
    space.chain[0] = first
    count = 1
    done = 0
    while done < count:
        op = space.chain[done]
        done += 1
        for at in range(problem.reads_at[op], problem.reads_at[op + 1]):
            read = problem.reads[at]
            if read == value:
                return 0
            if uses.next[read] != NEVER or uses.remade[read] < before:
                continue
            maker = problem.producers[read]
            if maker < 0:
                continue
            if problem.pinned[maker]:
                return 0
            if space.marks[maker] != stamp:
                space.marks[maker] = stamp
                space.chain[count] = maker
                count += 1
    return count


@compiled
def drop_value(
    problem: Problem, steps: IntArray, before: int, chain: IntArray
) -> IntArray:
    """Return the schedule that recomputes a chain of ops just before a step."""
    ordered = chain.copy()
    for position in range(1, len(ordered)):
        op = ordered[position]
        place = position
        while place > 0 and ordered[place - 1] > op:
            ordered[place] = ordered[place - 1]
            place -= 1
        ordered[place] = op
    return drop_dead(problem, insert(steps, before, ordered))


@compiled
def repair(
    problem: Problem, steps: IntArray, budget: int, taste: Taste, random: RandomState
) -> tuple[IntArray, int]:
    """Return the schedule brought under `budget`, or as far as that went, and which.

    An unfinished repair goes on where it stopped when called again. One drop is
    linear in the schedule and in the chains of the values live at its worst step.
    """
    space = scratch(problem, random)
    for _ in range(taste.max_drops):
        held = memory(problem, steps)
        worst = worst_step(held)
        if held[worst] <= budget:
            return steps, FITS
        if len(steps) > _LONGEST * problem.num_ops:
            return steps, STUCK
        over = np.zeros(len(steps) + 1, dtype=np.int64)
        for step in range(len(steps)):
            over[step + 1] = over[step] + (1 if held[step] > budget else 0)
        allowance = taste.duration_limit - duration(problem, steps)
        breaks_rule = held[worst] >= FORBIDDEN
        excess = Excess(worst, held[worst] - budget, over, allowance, breaks_rule)
        uses = uses_around(problem, steps, worst)
        before, chain = _best_chain(problem, uses, excess, taste, space)
        if len(chain) == 0:
            return steps, STUCK
        steps = drop_value(problem, steps, before, chain)
    return steps, UNFINISHED


@compiled
def _best_chain(
    problem: Problem, uses: Uses, excess: Excess, taste: Taste, space: Scratch
) -> tuple[int, IntArray]:
    """Return the chain with the best score for the excess, and where it would run."""
    best_score = -1.0
    best_before = 0
    best = space.chain[:0].copy()
    for value in range(problem.num_values):
        if not is_idle(uses, value, excess.step):
            continue
        if excess.breaks_rule and not problem.barred[value]:
            continue
        count = chain_of(problem, uses, value, space)
        if count == 0:
            continue
        added = 0
        for position in range(count):
            added += problem.durations[space.chain[position]]
        if added >= excess.allowance:
            continue
        score = min(problem.sizes[value], excess.bytes) / (added + 1.0)
        if taste.gap_weight > 0:
            gap = excess.over[uses.next[value]] - excess.over[uses.last[value] + 1]
            score *= max(1, gap) ** taste.gap_weight
        if taste.noise > 0:
            score *= np.exp(taste.noise * (uniform(space.random) - 0.5) * 3.5)
        if score > best_score:
            best_score, best_before = score, uses.next[value]
            best = space.chain[:count].copy()
    return best_before, best


@compiled
def is_idle(uses: Uses, value: int, here: int) -> bool:
    """Return whether a value lives across step `here` without being used there."""
    across = 0 <= uses.born[value] < here < uses.next[value] != NEVER
    return bool(across and uses.last[value] < here)
