"""What the cases of `training_cases` are about, beside what holds for every case."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import encamp
from encamp.graph import Reason
from encamp.planner import Options, min_budget
from encamp.replay import replay
from encamp.runtime.backend import EncampBackend
from encamp.runtime.compiling import compile_with
from encamp.runtime.options import StepOptions
from encamp.wire import write_plan
from stepping import Stepper, differences, lowered, random_schedule
from training_cases import (
    TRAINING_CASES,
    TanhStack,
    block_used_thrice,
    routed,
    routed_experts,
    shared_under_autocast,
)
from ways import Training, differing, eager, planned, unplanned

QUICK = Options(time_limit_s=None, work_limit=300)
SUPPORT = Path(__file__).parents[1] / "support"


@pytest.fixture(autouse=True)
def _fresh_compilations():
    """Dynamo counts compilations of a function; each test starts from none."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("case", TRAINING_CASES)
def test_a_random_schedule_trains_the_same(case, seed):
    """Any valid schedule leaves what the unplanned step leaves, bit for bit."""
    stepper = Stepper(*TRAINING_CASES[case](), lambda g: random_schedule(g, seed))
    (expected,) = Stepper(*TRAINING_CASES[case]()).outcomes(1)
    (actual,) = stepper.outcomes(1)

    assert differences(expected, actual) == []
    assert len(stepper.steps) > len(stepper.lowered.graph.ops)


def test_ranks_run_the_plan_of_the_file_whatever_their_costs(tmp_path):
    """S04: two ranks, a block used three times, costs a fifth apart.

    Both run the very steps of the plan, no parameter is marked ready twice, and what
    they leave is what unplanned data parallelism leaves, with the plan inside of
    DistributedDataParallel and outside.
    """
    graph = lowered(*block_used_thrice()).graph
    plan = min_budget(graph, options=QUICK).plan
    write_plan(plan, tmp_path / "plan.json")
    reports = [tmp_path / f"{rank}.json" for rank in (0, 1)]
    ranks = [
        subprocess.Popen(
            [
                *(sys.executable, SUPPORT / "data_parallel.py", str(rank)),
                *(tmp_path / "meeting", tmp_path / "plan.json", report),
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, report in enumerate(reports)
    ]
    try:
        told = [rank.communicate(timeout=240)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], told

    first, second = (json.loads(report.read_text()) for report in reports)
    assert len(plan.steps) > len(graph.ops)
    assert first["steps"] == second["steps"] == [list(plan.steps)] * 2
    assert first["durations"] != second["durations"]
    assert first["alike"] == second["alike"] == [True, True]
    assert first["gradient"] == second["gradient"]
    assert "_dynamo.config.optimize_ddp = False" in first["refusal"]


def routed_training(step, model, x):
    """Train two steps from one state, the router asked from its first answer on."""
    routed.clear()
    torch.manual_seed(0)
    left = []
    for _ in range(2):
        model.zero_grad(set_to_none=True)
        loss = step(x)
        loss.backward()
        left += [loss.detach(), *(p.grad.clone() for p in model.parameters())]
    return left


def test_an_operator_that_nobody_vouches_for_runs_once():
    """S11: the router is pinned as an unknown operator, whatever the budget.

    At the smallest budget other ops run again; it runs once a forward, and what is
    left is what eager training leaves.
    """
    model, (x,) = routed_experts()
    graph = encamp.trace(model, (x,), costs="roofline:cpu")
    plan = min_budget(graph, options=QUICK).plan
    (route,) = (op for op in graph.ops if "route" in op.target)
    assert route.recompute.reason is Reason.UNKNOWN_OP
    assert plan.peak_bytes < replay(graph).peak_bytes

    expected = routed_training(model, model, x)
    assert routed == [32] * 2
    step = encamp.apply(model, plan=plan, costs="roofline:cpu")
    actual = routed_training(step, model, x)
    assert routed == [32] * 2
    assert all(torch.equal(*pair) for pair in zip(expected, actual, strict=True))


@pytest.mark.parametrize("seed", [1, 2])
def test_a_router_runs_once_in_any_schedule(seed):
    """S11: in schedules full of recomputation, too."""
    stepper = Stepper(*routed_experts(), lambda g: random_schedule(g, seed))
    routed.clear()
    (expected,) = Stepper(*routed_experts()).outcomes(1)
    assert routed == [32]
    routed.clear()
    (actual,) = stepper.outcomes(1)

    assert routed == [32]
    assert differences(expected, actual) == []


def twice_and_accumulated(trained):
    """Differentiate each of three forwards by two losses, and add all up."""
    for x in trained.inputs[:3]:
        output = trained.step(x)
        output.square().mean().backward(retain_graph=True)
        output.sin().mean().backward()


def test_one_forward_is_differentiated_twice_and_accumulated():
    """S13: a second loss over one forward, over three micro-batches."""
    training = Training(
        twice_and_accumulated, step=lambda model: model, model=lambda: TanhStack(16)
    )
    expected = training.outcome(eager)

    assert differing(expected, training.outcome(unplanned)) == []
    assert differing(expected, training.outcome(planned)) == []


def test_casts_of_shared_weights_differ_little_from_eager():
    """S14: bit for bit the captured step; from eager training it is 1e-4 at most.

    Capturing alone orders the sums of a shared weight's gradients otherwise.
    """
    model, args = shared_under_autocast()
    model(*args).backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    backend = EncampBackend(StepOptions(budget="peak*0.95", costs="roofline:cpu"))
    compile_with(model, backend)(*args).backward()

    pairs = zip(model.parameters(), expected, strict=True)
    largest = max((p.grad - e).abs().max().item() for p, e in pairs)
    assert largest <= 1e-4
