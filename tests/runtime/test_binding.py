"""A plan binds by structure; whether it runs is decided by replaying it."""

import pytest
import torch
from torch import nn

from cases import SquaredMean
from encamp.errors import InfeasibleError, StalePlanError
from encamp.planner import Options, solve
from encamp.replay import replay
from encamp.runtime.binding import bind
from encamp.runtime.options import StepOptions
from encamp.units import format_bytes
from encamp.wire import write_plan
from graphs import plan_of
from stepping import lowered


def graph_of(batch, *, depth=6, activation=nn.Tanh):
    """Return the graph of an MLP's step, its layers 16 wide."""
    layers = (m for _ in range(depth) for m in (nn.Linear(16, 16), activation()))
    return lowered(SquaredMean(nn.Sequential(*layers)), (torch.ones(batch, 16),)).graph


@pytest.fixture(scope="module")
def graph():
    """Return the graph of a step of 256 rows."""
    return graph_of(256)


@pytest.fixture(scope="module")
def plan(graph):
    """Return a plan of it that recomputes."""
    budget = int(replay(graph).peak_bytes * 0.7)
    return solve(graph, budget, options=Options(time_limit_s=None, work_limit=300))


def test_a_budget_is_planned_for(graph):
    """Without a plan, one is made within the budget less the reserve."""
    unplanned = replay(graph).peak_bytes
    bound = bind(graph, StepOptions(budget="peak*0.8", reserve="peak*0.1"))

    assert bound.plan.budget_bytes == int(unplanned * 0.8)
    assert bound.limit_bytes == int(unplanned * 0.8) - int(unplanned * 0.1)
    assert bound.timeline.peak_bytes <= bound.limit_bytes
    assert bound.timeline == replay(graph, bound.plan.steps)


def test_a_budget_at_the_unplanned_peak_recomputes_nothing(graph):
    """Where everything fits, every op runs once."""
    bound = bind(graph, StepOptions(budget=replay(graph).peak_bytes))

    assert bound.plan.steps == tuple(range(len(graph.ops)))


def test_a_budget_that_cannot_be_is_refused(graph):
    """What the planner proves infeasible is said as it says it."""
    with pytest.raises(InfeasibleError):
        bind(graph, StepOptions(budget=graph.resident_bytes))


def test_a_plan_runs_on_the_step_it_was_made_for(graph, plan):
    """The plan in hand is run as it is, under its own budget."""
    bound = bind(graph, StepOptions(plan=plan))

    assert bound.plan is plan
    assert bound.limit_bytes == plan.budget_bytes
    assert bound.timeline.peak_bytes == plan.peak_bytes
    assert len(plan.steps) > len(graph.ops)


@pytest.mark.parametrize("name", ["plan.json", "plan.json.zst"])
def test_a_plan_is_read_from_its_file(graph, plan, tmp_path, name):
    """A path, as text or not, is the plan in its file."""
    write_plan(plan, tmp_path / name)

    assert bind(graph, StepOptions(plan=tmp_path / name)).plan == plan
    assert bind(graph, StepOptions(plan=str(tmp_path / name))).plan == plan


def test_a_smaller_batch_runs_on_the_plan(plan):
    """The structure is the same and the peak is smaller, so it runs at once."""
    bound = bind(graph_of(128), StepOptions(plan=plan))

    assert bound.plan is plan
    assert bound.timeline.peak_bytes < plan.peak_bytes


def test_a_larger_batch_is_refused_with_both_peaks(plan):
    """The refusal says where it would peak here, and where it was made to."""
    larger = graph_of(512)
    peak = replay(larger, plan.steps).peak_bytes
    with pytest.raises(StalePlanError) as caught:
        bind(larger, StepOptions(plan=plan))

    message = str(caught.value)
    assert f"peaks at {format_bytes(peak)} on this step" in message
    assert f"over the {format_bytes(plan.budget_bytes)} it may take" in message
    assert f"where it peaks at {format_bytes(plan.peak_bytes)}" in message
    assert "on_stale='replan'" in message


def test_a_larger_budget_lets_a_larger_batch_run(plan):
    """A budget beside a plan takes the place of the plan's own."""
    larger = graph_of(512)
    peak = replay(larger, plan.steps).peak_bytes
    bound = bind(larger, StepOptions(plan=plan, budget=peak))

    assert bound.plan is plan
    assert bound.limit_bytes == peak
    with pytest.raises(StalePlanError):
        bind(larger, StepOptions(plan=plan, budget=peak, reserve=1))


def test_a_larger_batch_is_planned_again_where_asked(plan):
    """With on_stale='replan' there is a new plan, under the budget given or its own."""
    larger = graph_of(512)
    budget = int(replay(larger).peak_bytes * 0.6)
    options = StepOptions(plan=plan, budget=budget, on_stale="replan")
    bound = bind(larger, options)

    assert bound.plan is not plan
    assert bound.timeline.peak_bytes <= budget
    with pytest.raises(InfeasibleError):
        bind(graph_of(2048), StepOptions(plan=plan, on_stale="replan"))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"activation": nn.Sigmoid}, ("tanh", "sigmoid")),
        ({"depth": 7}, ("aten.addmm.default in model.12",)),
    ],
    ids=["another activation", "a layer more"],
)
def test_another_structure_is_refused_by_the_first_op_that_differs(
    plan, changed, words
):
    """The refusal names what the plan has and what the step has instead."""
    with pytest.raises(StalePlanError) as caught:
        bind(graph_of(256, **changed), StepOptions(plan=plan))

    message = str(caught.value)
    assert message.startswith("the plan was made for another step, 'step': ")
    for word in words:
        assert word in message


def test_a_plan_with_a_pinned_op_twice_is_refused(graph):
    """However it came about, a plan that breaks the graph's rules never runs."""
    (tangents,) = (op.id for op in graph.ops if op.name == "tangents")
    steps = [s for op in range(len(graph.ops)) for s in [op] * (1 + (op == tangents))]

    with pytest.raises(StalePlanError, match=r"cannot run: .*tangents"):
        bind(graph, StepOptions(plan=plan_of(graph, steps)))
