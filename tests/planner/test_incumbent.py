import pytest

from encamp.check import check
from encamp.errors import InvalidPlanError, NoPlanError
from encamp.planner import Action, Cancel, Incumbent, Options, Rule, min_budget, solve
from graphs import CHAIN_RECOMPUTED, chain
from small_steps import small_step


def cancelled() -> Cancel:
    """Return a request that was made before the solve begins."""
    cancel = Cancel()
    cancel.set()
    return cancel


def test_the_best_so_far_is_a_whole_plan():
    """Whenever a solve has a plan, it can be had from outside, checked."""
    incumbent, seen = Incumbent(), []

    def listen(event):
        plan = incumbent.plan()
        assert (plan is None) == (event.duration_ns is None)
        if plan is not None:
            seen.append(plan)

    last = solve(chain(), 43, progress=listen, incumbent=incumbent)

    assert seen
    assert all(check(chain(), plan) == () for plan in seen)
    assert incumbent.plan().steps == last.steps == CHAIN_RECOMPUTED


def test_there_is_none_before_a_solve_begins():
    """Nor while it has found nothing that fits."""
    incumbent = Incumbent()
    assert incumbent.plan() is None
    with pytest.raises(NoPlanError):
        solve(chain(), 42, cancel=cancelled(), incumbent=incumbent)
    assert incumbent.plan() is None


def test_none_is_shown_whose_worst_case_takes_a_search():
    """Robust figures share their cuts with the solve that is under way."""
    incumbent = Incumbent()
    solve(chain(), 43, options=Options(robust=0.1), incumbent=incumbent)
    assert incumbent.plan() is None


@pytest.mark.parametrize("seed", [11, 14, 17])
def test_a_solve_goes_on_from_a_schedule(seed):
    """Ended at once, it still returns what it was given; with work, nothing worse."""
    graph = small_step(seed)
    budget = min_budget(graph).budget_bytes
    known = solve(graph, budget)

    again = solve(graph, budget, start=known.steps, cancel=cancelled())
    assert again.duration_ns <= known.duration_ns
    assert check(graph, again) == ()
    more = solve(graph, budget, start=known.steps)
    assert more.duration_ns <= known.duration_ns


def test_a_start_over_the_budget_is_passed_over():
    """The unplanned schedule has a peak of 53 bytes, which is not within 43."""
    plan = solve(chain(), 43, start=range(6))
    assert plan.steps == CHAIN_RECOMPUTED


def test_a_start_against_the_rules_is_passed_over():
    """Op 0 is kept, so the schedule that runs it twice is none that counts."""
    keep = Rule.parse(Action.KEEP, "name:first")
    plan = solve(chain(), 53, options=Options(rules=(keep,)), start=CHAIN_RECOMPUTED)
    assert plan.steps.count(0) == 1


def test_a_start_of_another_graph_is_refused():
    """The chain has no op 9."""
    with pytest.raises(InvalidPlanError, match="op 9"):
        solve(chain(), 43, start=(0, 9))
