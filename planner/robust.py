"""How bad a plan can turn out when ops take more or less time than the graph says.

Let every duration be off by a factor from 1 - r to 1 + r, each op by its own. The plan
adds the time A to the unplanned step T, and no schedule adds less than L.

*Choosing a plan.* Whatever the plan, its worst added time is (1 + r) A: all that runs
again is slow. So the plan of the least worst added time is the plan of the least added
time: there is nothing to inflate, and the search is the same with or without r.

*Its regret*, the time it loses to the schedule Q that is best under the true
durations, is what r can spoil. Runs that both make cancel. At worst all that only the
plan runs again is slow, and all that only Q runs again is fast:

    regret <= (1 + r) A - (what Q costs if the plan's recomputations are slow and all
              others fast)

and what any Q costs at such durations is bounded from below by the priced cut, which
counts a second run of an op once, at the rate of its first: no schedule pays less.
Without another cut, Q adds at least (1 - r) L: regret <= (A - L) + r (A + L).
As a share of the unplanned step, which takes at least (1 - r) T, the least of these is
the worst gap. It is within the nominal gap plus r whenever 2 A / T + r <= 1, by the
second formula: at r = 20 % for every plan of up to 40 % overhead.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from encamp.plan import Order, Robustness

from .bounds import Cuts, bound
from .jit import IntArray
from .problem import Problem
from .progress import Progress

_MOMENTS = 8


def robustness(cuts: Cuts, progress: Progress, steps: IntArray) -> Robustness | None:
    """Return the worst that a spread of durations makes of a schedule.

    None where no spread is asked for. A few priced cuts.
    """
    if progress.options.robust is None:
        return None
    problem = progress.problem
    spread = Fraction(str(progress.options.robust))
    total = int(problem.durations[steps].sum())
    added, proved = total - progress.unplanned_ns, progress.strongest[1].added_ns
    regret = added - proved + spread * (added + proved)
    adverse = problem._replace(durations=_adverse(problem, steps, spread))
    least = (1 + spread) * added - _least_added(adverse, cuts, progress.budget)
    unplanned = (1 - spread) * progress.unplanned_ns
    worst = max(min(regret, least), Fraction(0))
    gap = float(worst / unplanned) if unplanned else 0.0
    longest = -(-total * (1 + spread) // 1)
    return Robustness(progress.options.robust, int(longest), gap)


def _adverse(problem: Problem, steps: IntArray, spread: Fraction) -> IntArray:
    """Return the durations under which others look best: slow where the plan reruns."""
    again = np.bincount(steps, minlength=problem.num_ops) > 1
    factors = [1 + spread if slow else 1 - spread for slow in again.tolist()]
    exact = zip(problem.durations.tolist(), factors, strict=True)
    return np.array([ns * factor // 1 for ns, factor in exact], dtype=np.int64)


def _least_added(problem: Problem, cuts: Cuts, budget: int) -> int:
    """Return a bound on what any schedule adds, at these durations."""
    others = Cuts(problem)
    chosen = [others.at(op) for op in cuts.worth_trying(Order.FREE)[:_MOMENTS]]
    if problem.barred.any():
        chosen.append(others.at_turn())
    proved = [bound(cut, budget).added_ns for cut in chosen]
    return max((ns for ns in proved if ns is not None), default=0)
