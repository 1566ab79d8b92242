"""The optimal schedule of a heterogeneous chain: a dynamic program over its segments.

Beaumont, Herrmann, Pallez (Aupy), Shilova: "Optimal checkpointing for heterogeneous
chains: how to train deep neural networks with limited memory", 2019, arXiv:1911.13214;
its program is known as rotor. `time(s, t, m)` is the least time that running segments
s to t forward and then backward adds, in `m` slots of memory, their state held
elsewhere:

```
 save:       forward s saving, time(s+1, t, m - saved s), backward s
 split at k: forward s .. k-1 leaving the state of k, time(k, t, m - state k),
             time(s, k-1, m)
```

The least over both is optimal among the schedules that hold a checkpoint until the
segment it belongs to is reversed. Bytes are counted in slots and rounded up, so that
the true memory of a chain is never more than its slots. Gradients of parameters, which
stay once made, are counted as well; the paper has them in place beforehand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from encamp.planner.jit import IntArray, compiled
from encamp.planner.problem import Problem
from encamp.planner.replay_fast import peak
from encamp.planner.start import unplanned

from .chain import Action, Run, chain_of, unroll
from .chain_costs import ChainCosts, RunCosts, costs_of
from .method import Limits

NEVER = 2**62
"""The time of what does not fit."""
SAVE = -1
"""The choice that is no split."""
_SLOTS = 500
"""As many slots as the authors' implementation takes by default."""


def in_slots(costs: ChainCosts, unit: int) -> ChainCosts:
    """Return the costs with bytes counted in units, rounded up."""

    def rounded(figures: Iterable[IntArray]) -> Iterator[IntArray]:
        return (-(-figure // unit) for figure in figures)

    first, again = costs.first, costs.again
    return ChainCosts(
        RunCosts(*first[:3], *rounded(first[3:])),
        RunCosts(*again[:3], *rounded(again[3:])),
        *rounded(costs[2:]),
    )


class Table(NamedTuple):
    """Of segments s to t in m slots, by `[s, t, m]`."""

    times: IntArray
    """The least time added, or `NEVER`."""
    choices: npt.NDArray[np.int16]
    """`SAVE`, or the segment to split at; nothing where it is `NEVER`."""


@compiled
def best_times(costs: ChainCosts, slots: int) -> Table:
    """Return the least times of a chain in up to so many slots.

    The first runs of all segments are those of `[s, last]`; they add nothing. Cubic in
    the segments and linear in the slots; memory is quadratic in the segments.
    """
    count = len(costs.state)
    times = np.full((count, count, slots + 1), NEVER, dtype=np.int64)
    choices = np.zeros((count, count, slots + 1), dtype=np.int16)
    table = Table(times, choices)
    for span in range(count):
        for s in range(count - span):
            t = s + span
            runs = costs.first if t == count - 1 else costs.again
            if span == 0:
                _prepare(costs, runs, s, table)
            else:
                _save(costs, runs, s, t, table)
                _split(costs, runs, s, t, table)
    return table


@compiled
def _prepare(costs: ChainCosts, runs: RunCosts, s: int, table: Table) -> None:
    """Enter the times of one segment: run what its backward reads, then that."""
    rest = costs.coming[s] + costs.done[s]
    need = max(rest + runs.prepare_peak[s], costs.done[s] + costs.back_peak[s])
    table.times[s, s, need:] = runs.prepare_ns[s]
    table.choices[s, s, need:] = SAVE


@compiled
def _save(
    costs: ChainCosts,
    runs: RunCosts,
    s: int,
    t: int,
    table: Table,
) -> None:
    """Enter the times of saving what the backward of `s` reads from the start."""
    after = table.times[s + 1, t]
    rest = costs.coming[t] + costs.done[t]
    need = max(rest + runs.save_peak[s], costs.done[s] + costs.back_peak[s])
    for m in range(max(need, costs.saved[s]), len(after)):
        if after[m - costs.saved[s]] < NEVER:
            table.times[s, t, m] = runs.save_ns[s] + after[m - costs.saved[s]]
            table.choices[s, t, m] = SAVE


@compiled
def _split(
    costs: ChainCosts,
    runs: RunCosts,
    s: int,
    t: int,
    table: Table,
) -> None:
    """Enter the times of passing to a segment whose state is held, where shorter."""
    time, choice = table.times[s, t], table.choices[s, t]
    rest = costs.coming[t] + costs.done[t]
    need, spent = rest + runs.pass_held[s], 0
    for k in range(s + 1, t + 1):
        spent += runs.pass_ns[k - 1]
        if k > s + 1:
            need = max(need, rest + runs.pass_freed[k - 1])
        state = costs.state[k]
        far, near = table.times[k, t], table.times[s, k - 1]
        for m in range(max(need, state), len(time)):
            if far[m - state] < NEVER and near[m] < NEVER:
                total = spent + far[m - state] + near[m]
                if total < time[m]:
                    time[m], choice[m] = total, k


def chosen_actions(costs: ChainCosts, table: Table, slots: int) -> Iterator[Action]:
    """Yield the runs behind the least time of the whole chain in some slots."""
    stack: list[tuple[int, int, int] | Action] = [(0, len(costs.state) - 1, slots)]
    while stack:
        top = stack.pop()
        if len(top) == 2:
            yield top
            continue
        s, t, m = top
        k = int(table.choices[s, t, m])
        if k == SAVE:
            yield Run.FORWARD, s
            stack.append((Run.BACKWARD, s))
            if s < t:
                stack.append((s + 1, t, m - int(costs.saved[s])))
        else:
            for segment in range(s, k):
                yield Run.FORWARD, segment
            stack += [(s, k - 1, m), (k, t, m - int(costs.state[k]))]


def chain_program(problem: Problem, _limits: Limits) -> Iterator[IntArray]:
    """Yield the optimal schedules of the chain of segments, one for each memory.

    All numbers of slots come from one table. On a graph that is no chain the replay
    decides which of them fits the budget.
    """
    chain = chain_of(problem)
    unit = -(-int(peak(problem, unplanned(problem))) // _SLOTS) or 1
    costs = in_slots(costs_of(chain), unit)
    table = best_times(costs, _SLOTS)
    whole = table.times[0, len(chain) - 1]
    for slots in range(_SLOTS + 1):
        if whole[slots] < NEVER and (not slots or whole[slots] < whole[slots - 1]):
            yield unroll(chain, chosen_actions(costs, table, slots))
