"""Ended solves: by a token, by work, by time; and the same plan in every run."""

import json
from itertools import count

import pytest

from encamp.check import check
from encamp.errors import InfeasibleError, NoPlanError, OptionError
from encamp.planner import Cancel, Options, min_budget, solve
from encamp.planner import clock as clock_module
from encamp.planner.exact import solve_exactly
from encamp.planner.program import Program
from encamp.planner.reduce import reduce
from encamp.wire import plan_to_json
from graphs import CHAIN_PEAK, CHAIN_RECOMPUTED, chain
from small_steps import small_step
from steps import knapsack

HARD = (11, 14, 17, 40)
"""Small steps whose smallest budget leaves a search something to do."""


class TestCancel:
    def test_ends_with_the_best_so_far(self):
        """Told at the first plan, solve returns a plan that fits, with its bound."""
        cancel = Cancel()

        def listen(event):
            if event.duration_ns is not None:
                cancel.set()

        plan = solve(chain(), 43, progress=listen, cancel=cancel)

        assert check(chain(), plan) == ()
        assert plan.steps == CHAIN_RECOMPUTED
        assert "integer-program" not in plan.solver.stages

    def test_before_any_plan_is_no_plan(self):
        """Set from the start, only schedules that need no search are looked at."""
        cancel = Cancel()
        cancel.set()

        assert solve(chain(), CHAIN_PEAK, cancel=cancel).steps == tuple(range(6))
        assert solve(chain(), 43, cancel=cancel).steps == CHAIN_RECOMPUTED
        with pytest.raises(NoPlanError, match="told to stop"):
            solve(chain(), 42, cancel=cancel)

    def test_leaves_the_unplanned_peak_as_the_smallest_budget(self):
        """The search for the smallest budget ends where it begins."""
        cancel = Cancel()
        cancel.set()

        assert min_budget(chain(), cancel=cancel).budget_bytes == CHAIN_PEAK

    def test_stops_a_program(self):
        """CP-SAT ends when told, with no claim that it cannot make."""
        program = Program(reduce(knapsack()), [3], 2)
        answer = solve_exactly(program, below_ns=None, work=1e9, stop=lambda: True)

        assert answer.added_ns in (None, *range(11))


class TestWork:
    @pytest.mark.parametrize("work", [0, 1, 3, 30])
    @pytest.mark.parametrize("seed", HARD)
    def test_gives_one_plan_in_every_run(self, seed, work):
        """Two files are the same, byte for byte, but for the seconds in them."""
        graph = small_step(seed)
        budget = min_budget(graph).budget_bytes
        first, second = (written(graph, budget, work) for _ in "ab")

        assert first == second

    @pytest.mark.parametrize("seed", HARD)
    def test_looks_at_no_clock(self, monkeypatch, seed):
        """Where each look at the clock costs an hour, the plan is the same."""
        graph = small_step(seed)
        budget = min_budget(graph).budget_bytes
        before = written(graph, budget, 30)
        hours = count(step=3600)
        monkeypatch.setattr(clock_module.time, "monotonic", lambda: next(hours))

        assert written(graph, budget, 30) == before

    def test_of_none_finds_none(self):
        """Without any work no plan is found, and the message says why."""
        with pytest.raises(NoPlanError, match="in 0 units of work"):
            solve(chain(), 42, options=Options(work_limit=0))


def written(graph, budget, work):
    """Return the file of a plan, without seconds, or what was said instead."""
    try:
        plan = solve(graph, budget, options=Options(work_limit=work, target_gap=0.0))
    except (InfeasibleError, NoPlanError) as error:
        return str(error)
    document = json.loads(plan_to_json(plan))
    del document["solver"]["seconds"]
    return json.dumps(document)


class TestOptions:
    @pytest.mark.parametrize(
        "wrong",
        [
            {"time_limit_s": -1.0},
            {"work_limit": -1},
            {"target_gap": -0.1},
            {"robust": 1.0},
            {"robust": -0.1},
            {"time_limit_s": float("nan")},
        ],
        ids=str,
    )
    def test_are_refused_out_of_range(self, wrong):
        """The message names the option."""
        with pytest.raises(OptionError, match=next(iter(wrong))):
            Options(**wrong)


def test_an_event_tells_the_gap():
    """The last event's gap is that of the plan; without a plan there is none."""
    events = []
    plan = solve(chain(), 43, progress=events.append)

    assert events[0].gap is None
    assert events[-1].gap == plan.gap == 0
    assert {event.budget_bytes for event in events} == {43}
