"""What a plan refuses to state, and what it derives."""

from dataclasses import replace

import pytest

from encamp.errors import InvalidPlanError
from encamp.plan import Certificate, Status
from graphs import CHAIN_RECOMPUTED, chain, plan_of, unsolved_plan


def refusal(plan, **changes):
    """Return the message with which a changed plan is refused."""
    with pytest.raises(InvalidPlanError) as caught:
        replace(plan, **changes)
    return str(caught.value)


def test_figures_are_shares_of_the_unplanned_step():
    """2,200 of 2,100 ns against a bound of 2,100 is a gap and overhead of 1/21."""
    plan = plan_of(chain(), CHAIN_RECOMPUTED)

    assert plan.gap == pytest.approx(1 / 21)
    assert plan.overhead == pytest.approx(1 / 21)
    assert plan.num_recomputations == 1


def test_an_answer_without_steps_has_no_gap():
    """What has no duration is not compared with a bound."""
    plan = unsolved_plan(chain(), Status.UNKNOWN)

    assert (plan.gap, plan.overhead, plan.num_recomputations) == (0.0, 0.0, 0)


def test_an_infeasible_answer_may_have_more_reserve_than_budget():
    """Nothing fits what is left of such a budget, which is what it says."""
    plan = unsolved_plan(chain(), Status.INFEASIBLE)

    assert replace(plan, budget_bytes=1, reserve_bytes=2).budget_bytes == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": ()}, "a plan that is feasible with 0 steps"),
        ({"status": Status.UNKNOWN}, "a plan that is unknown with 6 steps"),
        (
            {"budget_bytes": 60, "reserve_bytes": 8},
            "a peak of 53 bytes is over the budget of 60 less 8 in reserve",
        ),
        ({"memory": {"input": 52}}, "memory sums to 52 bytes, the peak is 53"),
    ],
)
def test_figures_that_contradict_each_other_are_refused(changes, message):
    """A plan is consistent in itself; `check` compares it with its graph."""
    assert refusal(plan_of(chain()), **changes) == message


def test_an_answer_without_steps_states_no_figures():
    """A peak without a schedule means nothing."""
    plan = unsolved_plan(chain(), Status.INFEASIBLE)
    message = "a plan that is infeasible has no peak, duration or memory"

    assert refusal(plan, duration_ns=1) == message


def test_a_bound_above_the_duration_is_left_to_check():
    """The gap is negative then, rather than hidden."""
    plan = replace(plan_of(chain()), certificate=Certificate(2121, "wrong"))

    assert plan.gap == pytest.approx(-0.01)
