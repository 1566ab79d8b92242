"""A step is planned whole, for every shape, or refused before it runs."""

import pytest
import torch
from torch.utils import checkpoint as cp
from torch.utils._python_dispatch import TorchDispatchMode

import encamp
from encamp.errors import CaptureError, OptionError, UnsupportedError
from encamp.graph import Reason
from encamp.runtime.backend import EncampBackend
from encamp.runtime.compiling import compile_with
from encamp.runtime.options import StepOptions
from stepping import Stepper, lowered
from ways import Loss, again, layers

LARGE = 1 << 30
ROOFLINE = {"costs": "roofline:cpu"}
THIS = r"test_whole_steps\.py:\d+"


@pytest.fixture(autouse=True)
def _fresh_compilations():
    """Dynamo counts compilations of a function; each test starts from none."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def applied(step, **options):
    """Plan a step by `encamp.apply`."""
    return encamp.apply(step, **{"budget": LARGE, **ROOFLINE, **options})


def compiled(step, *, dynamic=None, **options):
    """Plan a step by `torch.compile`, as any other backend is used."""
    options = {"budget": LARGE, **ROOFLINE, **options}
    return torch.compile(step, backend="encamp", options=options, dynamic=dynamic)


ROUTES = pytest.mark.parametrize("route", [applied, compiled])


def rows(count=32):
    """Return inputs of so many rows."""
    return torch.randn(count, 16)


def gradients(model, step, x):
    """Run one step and return the gradients."""
    model.zero_grad(set_to_none=True)
    step(x).backward()
    return [p.grad for p in model.parameters()]


def trains_alike(model, step, x):
    """Say whether a step leaves the gradients of its model, bit for bit."""
    expected = gradients(model, model, x)
    actual = gradients(model, step, x)
    return all(torch.equal(*pair) for pair in zip(expected, actual, strict=True))


# Dynamo looks at the gradient of what it resumes with.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
@ROUTES
@pytest.mark.parametrize(
    "register",
    [
        lambda module: module.register_full_backward_hook(lambda *_: None),
        lambda module: module.register_full_backward_pre_hook(lambda *_: None),
    ],
    ids=["hook", "pre-hook"],
)
def test_a_backward_hook_of_a_module_is_refused(route, register):
    """It would break the step: the rest of it would be planned, and it would not."""
    model = Loss(layers(2))
    register(model.model[2])
    with pytest.raises(CaptureError) as caught:
        route(model)(rows())

    message = str(caught.value)
    assert "several graphs at ways.py:" in message
    assert "(a module in it has a backward hook)" in message
    assert "tensor.register_hook" in message


def test_tracing_refuses_what_training_refuses():
    """A hook that breaks the step is met while tracing, too."""
    model = Loss(layers(2))
    model.model[2].register_full_backward_hook(lambda *_: None)

    with pytest.raises(CaptureError, match="has a backward hook"):
        encamp.trace(model, (rows(),), **ROOFLINE)


def test_a_forward_hook_of_the_step_is_planned_with_it():
    """`encamp.apply` makes it a part of the step's one graph."""
    model = Loss(layers(2))
    model.register_forward_hook(lambda _, __, loss: loss.sin() * 2)
    backend = EncampBackend(StepOptions(budget=LARGE, **ROOFLINE))
    step = compile_with(model, backend)

    assert trains_alike(model, step, rows())
    (planned,) = backend.planned
    assert "aten.sin.default" in [op.target for op in planned.lowered.graph.ops]


def test_a_forward_hook_that_would_run_outside_is_refused():
    """`torch.compile(module)` leaves its own hooks out of the graph."""
    model = Loss(layers(2))
    model.register_forward_hook(lambda _, __, loss: loss.sin() * 2)

    with pytest.raises(UnsupportedError, match=r"Loss, has a forward hook.*apply"):
        compiled(model)(rows())


@ROUTES
def test_a_hook_that_is_added_later_is_seen(route):
    """The step is compiled again; Dynamo's own setting stays what it was."""
    model, x = Loss(layers(3)), rows()
    step = route(model)
    assert trains_alike(model, step, x)
    model.model[2].register_forward_hook(lambda _, __, output: output * 2)

    assert trains_alike(model, step, x)
    assert torch._dynamo.config.skip_nnmodule_hook_guards


@ROUTES
def test_a_double_backward_is_refused_before_the_first_runs(route):
    """The refusal names the step and where its backward begins."""
    model = Loss(layers(2))
    loss = route(model)(rows())
    with pytest.raises(UnsupportedError) as caught:
        torch.autograd.grad(loss, list(model.parameters()), create_graph=True)

    message = str(caught.value)
    assert "double backward" in message
    assert "aten.mean.default (mean) at ways.py:" in message
    assert "torch.func.grad" in message


def test_a_double_backward_through_a_view_is_refused():
    """Outputs that are views have nodes of their own before the planned one."""
    model = layers(2)

    def step(x):
        y = model(x)
        return y.view(-1), y[2:]

    flat, part = applied(step)(rows())
    for output in (flat, part):
        with pytest.raises(UnsupportedError, match="double backward"):
            torch.autograd.grad(
                output.sum(), model[0].weight, create_graph=True, retain_graph=True
            )
    (flat.sum() + part.sum()).backward()
    assert model[0].weight.grad is not None


@ROUTES
@pytest.mark.parametrize("how", ["grad", "backward"])
def test_differentiating_inside_the_step_is_refused_by_name(route, how):
    """A penalty on gradients would need a backward of the backward."""
    model = Loss(layers(2))

    def step(x):
        loss = model(x)
        if how == "backward":
            loss.backward()
            return loss
        (inner,) = torch.autograd.grad(loss, x, create_graph=True)
        return loss + inner.square().sum()

    with pytest.raises(CaptureError, match=rf"{THIS} \(it differentiates inside"):
        route(step)(rows().requires_grad_())


def test_reading_a_value_on_the_host_is_refused_by_its_line():
    """Its number is known only when the step runs."""
    model = Loss(layers(2))

    def step(x):
        loss = model(x)
        return loss, loss.item()

    with pytest.raises(UnsupportedError, match=rf"{THIS} reads the value of a tensor"):
        applied(step)(rows())


class Watching(TorchDispatchMode):
    """Sees every operator, and so keeps Dynamo from compiling."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Run the operator."""
        del types
        return func(*args, **(kwargs or {}))


def test_a_step_that_ran_uncompiled_is_told():
    """Under a dispatch mode PyTorch runs the step as it is, at its unplanned peak."""
    with Watching(), pytest.raises(CaptureError, match="without its plan"):
        applied(Loss(layers(2)))(rows())


@pytest.mark.parametrize("dynamic", [None, True, False])
def test_each_shape_is_planned_for_itself(dynamic):
    """Whatever Dynamo is told, sizes are fixed; a known one is not planned again."""
    model = Loss(layers(4))
    options = {"budget": "peak*0.8", "time_limit_s": 0.2, **ROOFLINE}
    backend = EncampBackend(StepOptions(**options))
    step = torch.compile(model, backend=backend, dynamic=dynamic)
    sizes = (256, 128, 192, 256, 128)

    assert [trains_alike(model, step, rows(n)) for n in sizes] == [True] * 5
    assert len(backend.planned) == 3
    for size, planned in zip(sizes, backend.planned, strict=False):
        expected = lowered(model, (rows(size),)).graph
        assert planned.lowered.graph.resident_bytes == expected.resident_bytes
        assert again(planned) > 0


def test_a_shape_that_does_not_fit_is_refused_and_the_others_go_on():
    """The budget is of bytes: a larger batch does not run over it."""
    model = Loss(layers(4))
    peak = 4 * 256 * 16 * 8
    step = compiled(model, budget=peak, time_limit_s=0.2)
    assert trains_alike(model, step, rows(256))

    with pytest.raises(encamp.errors.InfeasibleError):
        step(rows(1024))
    assert trains_alike(model, step, rows(256))


@ROUTES
def test_a_new_shape_is_refused_where_so_asked(route):
    """With on_new_shape='error' the first shape is the only one to train on."""
    model = Loss(layers(2))
    step = route(model, on_new_shape="error")
    assert trains_alike(model, step, rows(32))
    with torch.no_grad():
        step(rows(8))

    words = r"shapes \[32, 16\] and is called with \[31, 16\].*on_new_shape='replan'"
    with pytest.raises(UnsupportedError, match=words):
        step(rows(31))
    assert trains_alike(model, step, rows(32))


@ROUTES
def test_no_shape_runs_unplanned_however_many_there_are(route):
    """Where Dynamo would stop compiling and run the step as it is, it is refused."""
    model = Loss(layers(1))
    with torch._dynamo.config.patch(recompile_limit=3):
        step = route(model)
        assert trains_alike(model, step, rows(8))
        assert trains_alike(model, step, rows(9))
        with pytest.raises(UnsupportedError, match=r"compiled for \d different shapes"):
            [step(rows(count)) for count in (10, 11)]
        assert trains_alike(model, step, rows(8))


def test_what_a_checkpoint_must_save_is_pinned():
    """The policy of a selective checkpoint holds; what to recompute is the plan's.

    No op is in the graph twice.
    """
    model = layers(3)

    def policy(_, operator, *__, **___):
        saves = operator is torch.ops.aten.addmm.default
        kinds = cp.CheckpointPolicy
        return kinds.MUST_SAVE if saves else kinds.MUST_RECOMPUTE

    def contexts():
        return cp.create_selective_checkpoint_contexts(policy)

    def step(x):
        x = cp.checkpoint(model[:4], x, use_reentrant=False, context_fn=contexts)
        return model[4:](x).square().mean()

    graph = lowered(step, (rows(),)).graph
    products = [op for op in graph.ops if op.target == "aten.addmm.default"]

    assert [op.recompute.reason for op in products] == [Reason.USER] * 2 + [None]
    assert sum(op.target == "aten.tanh.default" for op in graph.ops) == 3


def test_rules_hold_for_the_plan_that_is_made():
    """What `keep` matches runs once; what is not matched may run again."""
    model = Loss(layers(5))
    options = {"budget": "peak*0.95", "keep": "module:model.2", "time_limit_s": 0.2}
    backend = EncampBackend(StepOptions(**options, **ROOFLINE))
    assert trains_alike(model, compile_with(model, backend), rows(256))

    (planned,) = backend.planned
    runs = [planned.lowered.graph.ops[op] for op in planned.bound.timeline.steps]
    assert [op.phase for op in runs if op.module == "model.2"].count("forward") == 1
    assert again(planned) > 0
    assert planned.bound.plan.certificate.rules == ("keep module:model.2",)


def test_rules_for_a_plan_that_is_made_are_refused():
    """A plan in hand cannot be told what to keep."""
    model, x = Loss(layers(2)), rows()
    plan = encamp.plan(encamp.trace(model, (x,), **ROOFLINE), LARGE)

    with pytest.raises(OptionError, match="rules for making a plan"):
        StepOptions(plan=plan, keep=["aten.mm.*"])


@pytest.mark.parametrize("what", ["parameter", "input"])
def test_changing_what_the_backward_reads_is_an_error(what):
    """A weight or batch overwritten before the backward is noticed, as in PyTorch.

    A plan may read them again where the unplanned step would not.
    """
    torch.manual_seed(0)
    model, x = Loss(layers(4)), rows(256)

    def everything_again(graph):
        forward = [op.id for op in graph.ops if op.phase == "forward"]
        rerun = [op for op in forward if graph.ops[op].recompute.allowed]
        backward = [op.id for op in graph.ops if op.phase == "backward"]
        return [*forward, backward[0], *rerun, *backward[1:]]

    stepper = Stepper(model, (x,), everything_again)
    loss = stepper.call(x)
    with torch.no_grad():
        (model.model[0].weight if what == "parameter" else x).mul_(2)

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
