"""`compiler="inductor"`: planned inside of Inductor, measured, planned again."""

import logging
import os
import shutil
from collections import Counter

import pytest
import torch
from torch import nn

import encamp
from cases import CASES
from encamp.errors import NoPlanError, OptionError, UnsupportedError
from encamp.runtime import hinting, verify
from encamp.runtime.backend import EncampBackend
from encamp.runtime.compiling import compile_with
from encamp.runtime.hinted import hinted_limit
from encamp.runtime.options import StepOptions
from encamp.runtime.rehearsal import rehearsed_peak
from encamp.tracer.capture import capture
from encamp.tracer.profile import MeasuredCosts
from encamp.tracer.tracing import trace
from stepping import UnitCosts
from ways import dropping, layers

CPU = torch.device("cpu")
COMPILES = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which(os.environ.get("CXX", "g++")) is None,
        reason="Inductor needs a C++ compiler here",
    ),
]


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


def deep():
    """Return linear layers with a GELU between them, each behind a LayerNorm."""
    blocks = (
        nn.Sequential(
            nn.LayerNorm(64), nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)
        )
        for _ in range(4)
    )
    return nn.Sequential(*blocks)


def made(model, width):
    """Return a step and its input of 512 rows."""
    torch.manual_seed(0)
    return Step(model()), (torch.randn(512, width),)


TRAININGS = {
    "deep": lambda: made(deep, 64),
    "dropout": lambda: made(dropping, 16),
    "BatchNorm": CASES["S02"],
}


def trained(step, model, args):
    """Run two steps and return what they leave behind."""
    torch.manual_seed(1)
    for _ in range(2):
        step(*args).backward()
    gradients = [p.grad for p in model.parameters()]
    return [*gradients, *model.buffers(), torch.get_rng_state()]


def compiled(model, budget, costs="roofline:cpu"):
    """Compile a model with Inductor under a budget; return it with its backend."""
    options = StepOptions(
        budget=budget, compiler="inductor", costs=costs, time_limit_s=5.0
    )
    backend = EncampBackend(options)
    return compile_with(model, backend), backend


class TestCompiled:
    """Compiled with Inductor and its C++ compiler."""

    pytestmark = COMPILES

    @pytest.mark.parametrize("training", TRAININGS)
    def test_a_step_trains_as_under_inductor_alone(self, training, tmp_path_factory):
        """Gradients and buffers up to rounding, the random stream to the bit.

        Convolutions take workspaces, which only measured costs know.
        """
        costs = MeasuredCosts("cpu", tmp_path_factory.getbasetemp() / "costs")
        model, args = TRAININGS[training]()
        step, backend = compiled(model, "peak*0.85", costs)
        left = trained(step, model, args)
        stock, args = TRAININGS[training]()
        expected = trained(torch.compile(stock), stock, args)

        for actual, wanted in zip(left, expected, strict=True):
            torch.testing.assert_close(actual, wanted)
        (planned,) = backend.planned
        assert len(planned.bound.timeline.steps) > len(planned.lowered.graph.ops)
        assert planned.measured_bytes <= planned.bound.limit_bytes

    def test_the_measured_peak_is_the_predicted_one(self, caplog):
        """Within 5 %, and it is told."""
        model, args = TRAININGS["deep"]()
        step, _ = compiled(model, "peak*0.8")
        with caplog.at_level(logging.INFO, "encamp"):
            step(*args)

        (told,) = [r for r in caplog.records if r.name == hinting.__name__][-1:]
        assert abs(told.args[2]) <= 100 * hinting.DRIFT
        assert "predicted" in told.getMessage()

    def test_products_that_run_again_are_in_the_code(self):
        """As many products are called as the plan has runs of them."""
        model, args = TRAININGS["deep"]()
        step, backend = compiled(model, "peak*0.6")
        step(*args).backward()
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True
        ) as profile:
            step(*args).backward()

        (planned,) = backend.planned
        ops, steps = planned.lowered.graph.ops, planned.bound.timeline.steps
        products = ("aten.mm.", "aten.addmm.")
        runs = Counter(s for s in steps if ops[s].target.startswith(products))
        called = [e for e in profile.events() if e.name in ("aten::mm", "aten::addmm")]
        assert max(runs.values()) > 1
        assert len(called) == runs.total()

    def test_a_second_backward_may_follow(self):
        """retain_graph works: no kernel takes over a saved tensor's memory."""
        model, args = TRAININGS["deep"]()
        loss = compiled(model, "peak*0.9")[0](*args)
        loss.backward(retain_graph=True)
        once = [p.grad.clone() for p in model.parameters()]
        loss.backward()

        pairs = zip(model.parameters(), once, strict=True)
        assert all(torch.equal(p.grad, 2 * g) for p, g in pairs)


class Compiler:
    """Stands in for Inductor: splits a captured step and measures what it is told."""

    def __init__(self, monkeypatch, *peaks):
        model, args = made(layers, 16)
        self.joint, self.peaks, self.keys = capture(model, args), list(peaks), []
        monkeypatch.setattr(hinting, "compile_full", self.compile)
        monkeypatch.setattr(hinting, "rehearsed_peak", lambda *_: self.peaks.pop(0))

    def compile(self, _, __, partition, key):
        """Split the captured step."""
        self.keys.append(key)
        partition(self.joint)

    def run(self, budget):
        """Plan the captured step for a budget and return what planned it."""
        options = StepOptions(budget=budget, compiler="inductor", time_limit_s=1.0)
        found = hinting.Hinting(options, "step")
        found.compile(None, [], lambda joint: found.partition(joint, UnitCosts()))
        return found


def test_a_peak_over_the_budget_is_planned_for_less(monkeypatch, caplog):
    """1000 bytes over, the next plan is for 1000 bytes less; each has a key."""
    probe = Compiler(monkeypatch, 0).run("peak*1.0")
    graph, fusion = probe.hinted.lowered.graph, probe.hinted.fusion
    limit, _ = hinted_limit(graph, fusion, StepOptions(budget="peak*0.9"))
    compiler = Compiler(monkeypatch, limit - graph.resident_bytes + 1000, 0)
    found = compiler.run("peak*0.9")

    assert found.correction_bytes == 1000
    assert found.hinted.chosen.peak_bytes <= limit - 1000
    assert found.hinted.limit_bytes == limit
    assert len(set(compiler.keys)) == 2
    assert "planned again for less" in caplog.text


def test_a_step_that_stays_over_its_budget_is_refused(monkeypatch):
    """It is never run: four attempts, then an exception with the last peak."""
    probe = Compiler(monkeypatch, 0).run("peak*1.0").hinted
    limit = probe.fusion.peak_bytes(range(len(probe.lowered.graph.ops)))
    over = limit - probe.lowered.graph.resident_bytes + 1
    compiler = Compiler(monkeypatch, *[over] * hinting.ATTEMPTS)

    with pytest.raises(NoPlanError, match="compiled 4 times with Inductor and still"):
        compiler.run("peak*1.0")


def test_a_budget_that_no_schedule_fits_is_refused(monkeypatch):
    """Before anything is compiled, with what to do."""
    with pytest.raises(NoPlanError, match="plan for compiler='eager' or 'lite'"):
        Compiler(monkeypatch, 0).run("peak*0.01")


def test_a_rehearsal_leaves_no_trace():
    """A buffer is overwritten in a copy, no gradient is kept, the stream goes on.

    The peak is of the squares, 4 KiB, and of one gradient, 4 KiB.
    """
    weight, buffer = torch.randn(1024, requires_grad=True), torch.zeros(4)
    state = torch.get_rng_state()

    def run(weight, buffer):
        buffer.add_(1)
        torch.rand(1)
        return [weight.square().sum()]

    peak = rehearsed_peak(run, [weight, buffer], {1}, CPU)
    assert 8192 <= peak <= 3 * 4096 + 64
    assert weight.grad is None
    assert torch.equal(buffer, torch.zeros(4))
    assert torch.equal(torch.get_rng_state(), state)


def test_a_plan_is_refused():
    """It is for the graph before Inductor took it apart."""
    step, args = made(layers, 16)
    plan = encamp.plan(trace(step, args, costs="roofline:cpu"), "peak*1.0")

    with pytest.raises(OptionError, match="which no plan is for: give a budget"):
        StepOptions(plan=plan, compiler="inductor")
    with pytest.raises(OptionError, match="which no plan is for: give a budget"):
        StepOptions(budget="1GB", plans="plans", compiler="inductor")


def test_inductor_is_not_verified_bit_for_bit():
    """Rounding is its own; the other two compilers are compared."""
    with pytest.raises(UnsupportedError, match="Verify with compiler='eager' or"):
        verify(lambda: made(layers, 16), budget="peak*0.9", compiler="inductor")
