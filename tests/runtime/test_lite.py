"""`compiler="lite"`: Inductor runs PyTorch's own kernels in the order of the plan."""

from collections import Counter

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import encamp
from cases import CASES
from encamp.planner import Options, min_budget
from encamp.runtime import verify
from encamp.runtime.backend import EncampBackend
from encamp.runtime.compiling import compile_with
from encamp.runtime.inductor import PlannedPartition, partition_key
from encamp.runtime.options import StepOptions
from encamp.tracer.profile import MeasuredCosts
from encamp.tracer.tracing import trace
from stepping import UnitCosts
from ways import dropping, layers

ROOFLINE = {"costs": "roofline:cpu"}
QUICK_CASES = ("S01", "S02")
QUICK = Options(time_limit_s=None, work_limit=300, target_gap=0.005)


@pytest.fixture(autouse=True)
def _fresh_compilations():
    """Dynamo counts compilations of a function; each test starts from none."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Step(nn.Module):
    """A model under the mean of its squared outputs."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).square().mean()


def made(model=layers):
    """Return a step of five layers and its input."""
    torch.manual_seed(0)
    return Step(model()), (torch.randn(256, 16),)


class Calls(TorchDispatchMode):
    """Counts the operators that are called, by name."""

    def __init__(self):
        super().__init__()
        self.count = Counter()

    @classmethod
    def ignore_compile_internals(cls):
        """Stay out of compilation, which runs no compiled code under other modes."""
        return True

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Count a call and run it."""
        self.count[str(func)] += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=pytest.mark.slow if case not in QUICK_CASES else ())
        for case in CASES
    ],
)
def test_a_case_trains_the_same_within_its_budget(case, tmp_path_factory):
    """At its smallest budget, on measured costs, a case agrees in all things.

    Bit for bit the same graph without a plan, in the same mode; storages to the byte,
    the allocator within 1 %. S01 draws random numbers again, S02 moves buffers.
    """
    costs = MeasuredCosts("cpu", tmp_path_factory.getbasetemp() / "costs")
    plan = min_budget(trace(*CASES[case](), costs=costs), options=QUICK).plan
    report = verify(CASES[case], plan, costs=costs, compiler="lite", steps=3, rounds=1)

    assert report.findings == ()
    assert report.recomputed_ops > 0
    assert abs(report.unplanned.peak.difference) <= 0.01


def test_every_step_of_a_plan_is_a_call():
    """What the plan runs again is called again: no pass merges or drops it."""
    step, (x,) = made()
    options = StepOptions(budget="peak*0.7", compiler="lite", costs=UnitCosts())
    backend = EncampBackend(options)
    compiled = compile_with(step, backend)
    compiled(x).backward()
    with Calls() as calls:
        compiled(x).backward()

    (planned,) = backend.planned
    ops, steps = planned.lowered.graph.ops, planned.bound.timeline.steps
    expected = Counter(
        ops[s].target for s in steps if ops[s].target != "encamp.tangents"
    )
    assert len(steps) > len(ops)
    assert {name: calls.count[name] for name in expected} == expected


def test_a_plan_serves_both_compilers():
    """The graph is the same, so a plan for one is a plan for the other."""
    step, (x,) = made()
    graphs = [trace(step, (x,), compiler=c, **ROOFLINE) for c in ("eager", "lite")]
    assert graphs[0].ops == graphs[1].ops
    assert graphs[1].meta["compiler"] == "lite"

    plan = encamp.plan(graphs[0], "peak*0.7")
    report = verify(made, plan, compiler="lite", rounds=1, **ROOFLINE)
    assert report.differences == ()
    assert report.planned.storages.measured == plan.peak_bytes


def test_a_dropout_that_runs_again_draws_the_same():
    """Gradients and the random stream are those of eager PyTorch, for two steps."""
    left = []
    for apply in (False, True):
        step, (x,) = made(dropping)
        options = {"budget": "peak*0.75", "compiler": "lite", **ROOFLINE}
        run = encamp.apply(step, **options) if apply else step
        torch.manual_seed(1)
        for _ in range(2):
            run(x).backward()
        gradients = [p.grad for p in step.parameters()]
        left.append([*gradients, torch.get_rng_state()])

    assert all(torch.equal(*pair) for pair in zip(*left, strict=True))


def test_a_second_backward_may_follow():
    """No kernel takes over a saved tensor's memory: retain_graph works."""
    step, (x,) = made()
    step(x).backward()
    once = [p.grad for p in step.parameters()]
    step.zero_grad(set_to_none=True)
    loss = encamp.apply(step, "peak*0.8", compiler="lite", **ROOFLINE)(x)
    loss.backward(retain_graph=True)
    loss.backward()

    pairs = zip(step.parameters(), once, strict=True)
    assert all(torch.equal(p.grad, 2 * g) for p, g in pairs)


def test_what_needs_no_gradient_runs():
    """Without gradients there is nothing to plan, and no error."""
    step, (x,) = made()
    compiled = encamp.apply(step, "peak*0.8", compiler="lite", **ROOFLINE)

    with torch.no_grad():
        assert torch.equal(compiled(x), step(x))


def test_caches_tell_partitions_apart():
    """The key is a digest of what a plan depends on; graphs are no part of it."""
    first = partition_key("0.1.0", StepOptions(budget="1GB"))
    assert first == partition_key("0.1.0", StepOptions(budget="1GB"))
    assert first != partition_key("0.1.0", StepOptions(budget="2GB"))

    partition = PlannedPartition(lambda *_, **__: (), first)
    assert (partition.uuid(), partition.__getstate__()) == (first, {})
