"""A plan that trains otherwise is explained by the operation that did not repeat."""

import json

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import encamp
from encamp.api.cli import app
from encamp.runtime import verify
from encamp.runtime.bisection import Bisection
from encamp.runtime.explaining import Explanation
from encamp.tracer import recomputable
from encamp.wire import write_plan
from graphs import plan_of
from stepping import UnitCosts, lowered
from training_cases import routed_experts

_LIBRARY = torch.library.Library("encamp_tests", "FRAGMENT")
_LIBRARY.define("wavering(Tensor x) -> Tensor")


@torch.library.impl(_LIBRARY, "wavering", "CompositeExplicitAutograd")
def _wavering(x):
    in_backward = torch._C._current_graph_task_id() != -1
    return x + 1.0 if in_backward else x.clone()


@torch.library.register_fake("encamp_tests::wavering", lib=_LIBRARY)
def _fake_wavering(x):
    return torch.empty_like(x)


torch.library.register_autograd(
    "encamp_tests::wavering", lambda _, gradient: gradient, lib=_LIBRARY
)


class Wavering(nn.Module):
    """Has an operator that adds 1 when it runs during a backward, and never else."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x):
        y = torch.sigmoid(self.first(x))
        y = torch.ops.encamp_tests.wavering(y)
        return torch.tanh(self.second(torch.sin(y))).square().mean()


def wavering():
    """Make the step with the wavering operator."""
    torch.manual_seed(0)
    return Wavering(), (torch.randn(32, 16),)


@pytest.fixture
def _trusted(monkeypatch):
    """Take the tests' own operators for functions of their arguments."""
    namespaces = ("aten", "prims", "encamp_tests", "encamp_cases")
    monkeypatch.setattr(recomputable, "_PURE_NAMESPACES", namespaces)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def everything_twice(factory):
    """Return a plan that runs the forward again at the start of the backward."""
    graph = lowered(*factory()).graph
    forward = [op.id for op in graph.ops if op.phase == "forward"]
    backward = [op.id for op in graph.ops if op.phase == "backward"]
    again = [op for op in forward if graph.ops[op].recompute.allowed]
    return plan_of(graph, [*forward, backward[0], *again, *backward[1:]])


@pytest.mark.usefixtures("_trusted")
def test_the_operation_that_does_not_repeat_is_named():
    """Not those that read it, which differ too; and what to pin is said."""
    plan = everything_twice(wavering)
    report = verify(wavering, plan, costs=UnitCosts(), steps=2, rounds=1)

    assert not report.ok
    assert report.suspect.target == "encamp_tests.wavering.default"
    assert (report.suspect.step, report.suspect.run) == (1, 2)
    assert report.suspect.same_inputs
    assert report.suspect.source.startswith("test_bisection.py:")
    assert "no function of its arguments" in report.explanation
    assert "--keep 'encamp_tests.wavering.default'" in report.explanation


@pytest.mark.usefixtures("_trusted")
def test_pinning_it_makes_the_plan_exact():
    """The rule that the explanation gives is enough."""
    graph = encamp.trace(*wavering(), costs="roofline:cpu")
    budget = encamp.plan(graph, "peak*1.0").peak_bytes - 1
    kept = encamp.planner.Rule.parse(
        encamp.planner.Action.KEEP, "encamp_tests.wavering.default"
    )
    plan = encamp.plan(graph, budget, rules=(kept,))
    assert plan.num_recomputations > 0

    report = verify(wavering, plan, costs="roofline:cpu", steps=2, rounds=1)
    assert (report.differences, report.suspect, report.explanation) == ((), None, "")


@pytest.mark.usefixtures("_trusted")
def test_a_router_that_flips_is_named():
    """S11: taken for repeatable, the router is found out."""
    plan = everything_twice(routed_experts)
    report = verify(routed_experts, plan, costs=UnitCosts(), steps=2, rounds=1)

    assert report.differences
    assert report.suspect.target == "encamp_cases.route.default"


def test_an_operation_whose_input_was_overwritten_is_told_apart():
    """It read something else than at its first run, so it is not to blame itself."""
    op = lowered(*wavering()).graph.ops[0]
    for read, same_inputs in ((b"a", True), (b"b", False)):
        bisection = Bisection()
        bisection.note(0, (b"a",), (b"x",))
        bisection.note(0, (b"a",), (b"x",))
        bisection.note(0, (read,), (b"y",))
        suspect = bisection.suspect([op])

        assert (suspect.op, suspect.run, suspect.same_inputs) == (
            op.name,
            3,
            same_inputs,
        )
        assert ("had been overwritten" in str(suspect)) != same_inputs


def test_a_step_that_differs_from_itself_is_told():
    """S11: its router is pinned, and flips from one run of the step to the next."""
    plan = plan_of(lowered(*routed_experts()).graph)
    report = verify(routed_experts, plan, costs=UnitCosts(), steps=1, rounds=1)

    assert report.differences
    assert report.suspect is None
    assert "two unplanned runs differ from each other" in report.explanation


def test_what_nobody_can_explain_is_to_be_reported():
    """Where all repeats, and the step repeats itself, the fault is Encamp's."""
    assert "please report" in str(Explanation(suspect=None, unstable=False))


@pytest.mark.usefixtures("_trusted")
def test_the_command_line_names_it(tmp_path, monkeypatch):
    """`encamp verify` exits 6 and prints the operation; with --json, all about it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "wavering_step.py").write_text("made = None\n")
    import wavering_step  # noqa: PLC0415 - just written

    wavering_step.made = wavering
    write_plan(everything_twice(wavering), tmp_path / "plan.json")
    command = ["verify", "wavering_step:made", "--plan", str(tmp_path / "plan.json")]
    command += ["--costs", "roofline:cpu", "--steps", "1"]

    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 6
    assert "encamp_tests.wavering.default (wavering)" in shown.stdout
    told = CliRunner().invoke(app, [*command, "--json"])
    assert told.exit_code == 6
    assert json.loads(told.stdout)["suspect"]["op"] == "wavering"
