"""`torch.compile(backend="encamp")` as a user meets it."""

import logging

import pytest
import torch
from torch import nn

import encamp
from cases import SquaredMean, batch_norm
from encamp.errors import (
    CaptureError,
    CostError,
    EncampError,
    InfeasibleError,
    OptionError,
    StalePlanError,
    UnitError,
    UnsupportedError,
)
from encamp.replay import replay
from encamp.runtime.backend import EncampBackend
from encamp.runtime.compiling import compile_with
from encamp.runtime.options import StepOptions
from encamp.runtime.refusal import refusals
from stepping import UnitCosts, lowered

ROOFLINE = {"costs": "roofline:cpu"}


@pytest.fixture(autouse=True)
def _fresh_compilations():
    """Dynamo counts compilations of a function; each test starts from none."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def mlp(depth=6):
    """Return an MLP, its layers 16 wide, under its loss."""
    torch.manual_seed(0)
    layers = (m for _ in range(depth) for m in (nn.Linear(16, 16), nn.Tanh()))
    return SquaredMean(nn.Sequential(*layers))


def compiled(model, **options):
    """Return the model compiled as a user would."""
    return torch.compile(model, backend="encamp", options={**ROOFLINE, **options})


def gradients(model, step, x):
    """Run one step and return the gradients."""
    model.zero_grad(set_to_none=True)
    step(x).backward()
    return [p.grad for p in model.parameters()]


def same(left, right):
    """Say whether two lists of tensors are the same bits."""
    return all(torch.equal(*pair) for pair in zip(left, right, strict=True))


def test_a_budget_trains_the_same():
    """Half the unplanned peak, and gradients bit for bit those of the model."""
    model, x = mlp(), torch.randn(256, 16)
    step = compiled(model, budget="peak*0.6")

    assert same(gradients(model, step, x), gradients(model, model, x))


def test_apply_is_the_same_in_one_call(tmp_path):
    """`encamp.apply` takes a budget, or a plan or its file."""
    model, x = mlp(), torch.randn(256, 16)
    graph = encamp.trace(model, (x,), **ROOFLINE)
    plan = encamp.plan(graph, "peak*0.6")
    encamp.wire.write_plan(plan, tmp_path / "plan.json")
    expected = gradients(model, model, x)

    for options in ({"budget": "peak*0.6"}, {"plan": plan}):
        step = encamp.apply(model, **options, **ROOFLINE)
        assert same(gradients(model, step, x), expected)
    step = encamp.apply(model, plan=tmp_path / "plan.json", **ROOFLINE)
    assert same(gradients(model, step, x), expected)


def test_a_function_is_planned_like_a_module():
    """A step may be a function that closes over its model."""
    model, x = mlp().model, torch.randn(256, 16)

    def step(x):
        return model(x).square().mean()

    planned = encamp.apply(step, "peak*0.6", **ROOFLINE)
    assert same(gradients(model, planned, x), gradients(model, step, x))


def test_a_budget_at_the_unplanned_peak_recomputes_nothing():
    """Where everything fits, the step in hand runs every op once."""
    model, x = mlp(), torch.randn(256, 16)
    peak = replay(lowered(model, (x,)).graph).peak_bytes
    backend = EncampBackend(StepOptions(budget=peak, costs=UnitCosts()))
    compile_with(model, backend)(x).backward()

    (planned,) = backend.planned
    assert planned.bound.timeline.steps == tuple(range(len(planned.lowered.graph.ops)))


def test_a_plan_made_offline_binds_when_training_starts():
    """The graph traced beforehand is the one the backend meets: no re-planning."""
    model, x = mlp(), torch.randn(256, 16)
    plan = encamp.plan(encamp.trace(model, (x,), **ROOFLINE), "peak*0.6")
    backend = EncampBackend(StepOptions(plan=plan, **ROOFLINE))
    compile_with(model, backend)(x).backward()

    assert backend.planned[0].bound.plan is plan
    assert backend.planned[0].bound.timeline.peak_bytes == plan.peak_bytes


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"budget": "1kB"}, InfeasibleError, "no schedule of"),
        ({"budget": "many"}, UnitError, "not a budget: 'many'"),
        ({"budgte": 1}, OptionError, "did you mean 'budget'?"),
        ({}, OptionError, "give a budget"),
        ({"budget": 1, "costs": "guess"}, CostError, "'measured' or 'roofline:NAME'"),
        ({"budget": 1, "compiler": "magic"}, UnsupportedError, "unknown compiler"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_refusals_come_through_as_they_are(options, error, words):
    """Encamp's own exceptions reach the caller before anything has run."""
    model = mlp()
    step = compiled(model, **options)
    with pytest.raises(error) as caught:
        step(torch.randn(64, 16))

    assert type(caught.value).__name__ == error.__name__
    assert words in str(caught.value)
    assert all(p.grad is None for p in model.parameters())


def test_an_infeasible_budget_carries_its_figures():
    """Through the compiler, the exception keeps what programs read."""
    with pytest.raises(InfeasibleError) as caught:
        compiled(mlp(), budget=1000)(torch.randn(64, 16))

    error = caught.value
    assert "TORCHDYNAMO" not in str(error)
    assert error.budget_bytes == 1000
    assert error.smallest_bytes >= error.bound_bytes > 1000
    assert error.site.op


def test_a_passed_exception_keeps_its_type_and_attributes():
    """What leaves the backend is caught by Encamp's classes, with all it carries."""
    with pytest.raises(InfeasibleError, match="no") as caught, refusals():
        raise InfeasibleError("no", budget_bytes=3, bound_bytes=5)
    assert (caught.value.budget_bytes, caught.value.bound_bytes) == (3, 5)

    with pytest.raises(EncampError) as again, refusals():
        raise caught.value
    assert again.value is caught.value


def test_other_exceptions_are_not_touched():
    """Only Encamp's own are passed on as something else."""
    with pytest.raises(KeyError), refusals():
        raise KeyError("x")


def test_a_graph_break_is_refused_before_the_first_step():
    """A step of two graphs has no one plan; nothing of it has run."""
    model, (x,) = batch_norm()

    def step(x):
        y = model.model[0](x)
        torch._dynamo.graph_break()
        return y.sum()

    with pytest.raises(CaptureError, match=r"several graphs at test_backend\.py:\d+"):
        encamp.apply(step, "peak*0.5", **ROOFLINE)(x)
    assert model.model[0][1].num_batches_tracked == 0


def test_another_batch_is_planned_for_itself():
    """With a budget, each size of the step has its plan."""
    model = mlp()
    step = encamp.apply(model, "peak*0.8", **ROOFLINE)
    for rows in (256, 128):
        x = torch.randn(rows, 16)
        assert same(gradients(model, step, x), gradients(model, model, x))


def test_a_plan_serves_a_smaller_batch_and_refuses_a_larger_one():
    """The plan is replayed on the step in hand, which must fit its budget."""
    model = mlp()
    graph = encamp.trace(model, (torch.randn(256, 16),), **ROOFLINE)
    step = encamp.apply(model, plan=encamp.plan(graph, "peak*0.6"), **ROOFLINE)
    x = torch.randn(128, 16)
    assert same(gradients(model, step, x), gradients(model, model, x))

    with pytest.raises(StalePlanError, match="was made for a step where it peaks at"):
        step(torch.randn(512, 16))


def test_a_plan_of_another_model_is_refused_before_the_first_step():
    """The first op that differs is named."""
    x = torch.randn(64, 16)
    plan = encamp.plan(encamp.trace(mlp(4), (x,), **ROOFLINE), "peak*0.8")

    with pytest.raises(StalePlanError, match="the plan was made for another step"):
        compiled(mlp(6), plan=plan)(x)


def test_a_mode_is_refused():
    """The backend has options and no modes."""
    step = torch.compile(mlp(), backend="encamp", mode="max-autotune")

    with pytest.raises(OptionError, match="has no mode 'max-autotune'"):
        step(torch.randn(8, 16))


def test_a_second_backward_may_follow():
    """Saved tensors are the caller's to keep: retain_graph works."""
    model, x = mlp(), torch.randn(64, 16)
    once = gradients(model, model, x)
    model.zero_grad(set_to_none=True)
    loss = compiled(model, budget="peak*0.8")(x)
    loss.backward(retain_graph=True)
    loss.backward()

    assert same([p.grad for p in model.parameters()], [2 * g for g in once])


def test_evaluation_and_no_grad_run():
    """What needs no gradient needs no plan."""
    model, (x,) = batch_norm()
    step = compiled(model, budget="peak*0.9")
    step(x).backward()
    model.eval()

    with torch.no_grad():
        assert torch.equal(step(x), model(x))


def test_a_loss_outside_the_step_is_said(caplog):
    """Where a large gradient comes from outside, its making is not planned."""
    model = mlp().model
    with caplog.at_level(logging.WARNING, "encamp"):
        compiled(model, budget="peak*0.9")(torch.randn(64, 16)).sum().backward()

    assert "compute the loss inside the step" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, "encamp"):
        compiled(mlp(), budget="peak*0.9")(torch.randn(64, 16)).backward()
    assert caplog.text == ""


def test_gradients_that_do_not_fit_beside_the_plan_are_told(caplog):
    """Accumulated ones are 6 x (16 x 16 + 16) x 4 bytes; reserved, nothing is said."""
    model, x = mlp(), torch.randn(256, 16)
    held = 6 * 17 * 16 * 4
    peak = replay(lowered(model, (x,)).graph).peak_bytes
    for options, told in (
        ({"budget": peak}, True),
        ({"budget": peak + held, "reserve": held}, False),
    ):
        model.zero_grad(set_to_none=True)
        caplog.clear()
        step = compiled(model, **options)
        with caplog.at_level(logging.WARNING, "encamp"):
            step(x).backward()
            assert caplog.text == ""
            step(x).backward()
            step(x).backward()
        assert caplog.text.count(f"reserve={held}") == told


class TwoRanks:
    """Stands in for torch.distributed on one of two ranks."""

    is_available = is_initialized = staticmethod(lambda: True)
    get_world_size = staticmethod(lambda: 2)


def test_ranks_that_plan_apart_are_told(caplog):
    """Each of several ranks has costs of its own; a plan in hand is one for all."""
    model, x = mlp(2), torch.randn(8, 16)
    with pytest.MonkeyPatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr("encamp.runtime.backend.dist", TwoRanks)
        compiled(model, budget="peak*1.0")(x)
        assert "each of the 2 ranks plans for itself" in caplog.text
        caplog.clear()
        plan = encamp.plan(encamp.trace(model, (x,), **ROOFLINE), "peak*1.0")
        compiled(model, plan=plan)(x)

    assert caplog.text == ""


def test_what_a_plan_means_is_logged(caplog):
    """One line says the peak, the added time and the recomputations."""
    with caplog.at_level(logging.INFO, "encamp"):
        compiled(mlp(), budget="peak*0.6")(torch.randn(256, 16))

    assert "recomputations" in caplog.text
    assert "% longer" in caplog.text
