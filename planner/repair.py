"""Repair: bring a schedule under a budget by dropping values and recomputing them.

While some step is over the budget, look at the worst one. Each value that is live
there and unused may be dropped, if the ops that make it again (its chain) can run
just before its next use, never earlier. The value with the most useful bytes per
added nanosecond goes first. Greedy, so it may fail where a plan exists.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .jit import FloatArray, IntArray, RandomState, compiled, uniform
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
"""How a repair ended: under the budget, without a move, or at its limit of rounds."""
_SHARE = 16
"""A round relieves the worst step of one in so many of the bytes it is over."""
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
    max_rounds: int = 2**31
    """Pause after this many rounds of drops."""


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
    places = before * problem.num_ops + chain
    return drop_dead(problem, insert(problem, steps, places))


@compiled
def repair(
    problem: Problem, steps: IntArray, budget: int, taste: Taste, random: RandomState
) -> tuple[IntArray, int]:
    """Return the schedule brought under `budget`, or as far as that went, and which.

    An unfinished repair goes on where it stopped when called again. A round relieves
    the worst step of a share of its excess, so rounds grow with the logarithm of the
    excess; each is linear in the schedule and in the chains of the values live there.
    """
    space = scratch(problem, random)
    for _ in range(taste.max_rounds):
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
        places = _relieve(problem, uses, excess, taste, space)
        if len(places) == 0:
            return steps, STUCK
        steps = drop_dead(problem, insert(problem, steps, places))
    return steps, UNFINISHED


@compiled
def _relieve(
    problem: Problem, uses: Uses, excess: Excess, taste: Taste, space: Scratch
) -> IntArray:
    """Return the places of the chains that relieve a share of the excess, one at least.

    They come by falling score. Each sees the drops before it, and waits for the next
    round if those made it dearer.
    """
    values, scores, costs = _candidates(problem, uses, excess, taste, space)
    places = np.empty(0, dtype=np.int64)
    if len(values) == 0:
        return places
    goal = 0 if excess.breaks_rule else excess.bytes // _SHARE
    best = int(np.argmax(scores))
    ranked = np.array([best])
    if problem.sizes[values[best]] < goal:
        ranked = np.argsort(-scores, kind="mergesort")
    relieved, added = 0, 0
    for rank in ranked:
        value = values[rank]
        if not is_idle(uses, value, excess.step):
            continue
        count = chain_of(problem, uses, value, space)
        cost = _duration_of(problem, space.chain[:count])
        if count == 0 or cost > costs[rank] or added + cost >= excess.allowance:
            continue
        before = uses.next[value]
        chain = space.chain[:count]
        places = np.concatenate((places, before * problem.num_ops + chain))
        _note_drop(problem, uses, before, chain)
        relieved += problem.sizes[value]
        added += cost
        if relieved >= goal:
            break
    return places


@compiled
def _note_drop(problem: Problem, uses: Uses, before: int, chain: IntArray) -> None:
    """Note that a chain will run just before a step, for the chains to come."""
    for op in chain:
        for at in range(problem.makes_at[op], problem.makes_at[op + 1]):
            value = problem.makes[at]
            # What runs before the same step may read it; what runs earlier may not.
            uses.remade[value] = min(uses.remade[value], before - 1)
            if uses.next[value] >= before:
                uses.next[value] = NEVER


@compiled
def _candidates(
    problem: Problem, uses: Uses, excess: Excess, taste: Taste, space: Scratch
) -> tuple[IntArray, FloatArray, IntArray]:
    """Return the values that can be dropped for the excess, their scores and costs."""
    values = np.empty(problem.num_values, dtype=np.int64)
    scores = np.empty(problem.num_values, dtype=np.float64)
    costs = np.empty(problem.num_values, dtype=np.int64)
    size = 0
    for value in range(problem.num_values):
        if not is_idle(uses, value, excess.step):
            continue
        if excess.breaks_rule and not problem.barred[value]:
            continue
        count = chain_of(problem, uses, value, space)
        if count == 0:
            continue
        added = _duration_of(problem, space.chain[:count])
        if added >= excess.allowance:
            continue
        score = min(problem.sizes[value], excess.bytes) / (added + 1.0)
        if taste.gap_weight > 0:
            gap = excess.over[uses.next[value]] - excess.over[uses.last[value] + 1]
            score *= max(1, gap) ** taste.gap_weight
        if taste.noise > 0:
            score *= np.exp(taste.noise * (uniform(space.random) - 0.5) * 3.5)
        values[size], scores[size], costs[size] = value, score, added
        size += 1
    return values[:size], scores[:size], costs[:size]


@compiled
def _duration_of(problem: Problem, chain: IntArray) -> int:
    """Return the nanoseconds of some ops."""
    total = 0
    for op in chain:
        total += problem.durations[op]
    return total


@compiled
def is_idle(uses: Uses, value: int, here: int) -> bool:
    """Return whether a value lives across step `here` without being used there."""
    across = 0 <= uses.born[value] < here < uses.next[value] != NEVER
    return bool(across and uses.last[value] < here)
