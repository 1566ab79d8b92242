"""From a factory to a verified plan, by commands alone."""

import json

import pytest
from typer.testing import CliRunner

from encamp.api.cli import app
from encamp.runtime.report import PeakPair, Report, StepFigures
from encamp.wire import read_graph, read_plan

STEPS = """
import torch
from torch import nn

class Loss(nn.Module):
    def __init__(self, activation):
        super().__init__()
        block = (nn.Linear(32, 32), activation(), nn.Dropout(0.1))
        self.layers = nn.Sequential(*block, *block, *block)

    def forward(self, x):
        return self.layers(x).square().mean()

def made(activation):
    torch.manual_seed(0)
    return Loss(activation), (torch.randn(64, 32),)

def gelu():
    return made(nn.GELU)

def tanh():
    return made(nn.Tanh)

def nothing():
    return None
"""


def run(*arguments):
    """Run the command line in this process."""
    return CliRunner().invoke(app, arguments)


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """Give a folder with a module of factories, a traced graph and its plan."""
    folder = tmp_path_factory.mktemp("traced")
    (folder / "cli_steps.py").write_text(STEPS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(str(folder))
        costs = ("--costs", "roofline:cpu")
        done = run("trace", "cli_steps:gelu", "-o", "gelu.json.zst", *costs)
        assert done.exit_code == 0, done.output
        plan = ("plan", "gelu.json.zst", "--budget", "peak*0.8", "-o", "gelu.plan.json")
        planned = run(*plan)
        assert planned.exit_code == 0, planned.output
        yield folder


def test_trace_writes_a_graph_with_the_costs_it_was_asked_for(traced):
    """Three layers with one dropout each, and a name that can be traced again."""
    graph = read_graph(traced / "gelu.json.zst")

    assert graph.name == "cli_steps:gelu"
    assert graph.meta["costs"] == "roofline:cpu"
    assert [op.target for op in graph.ops].count("aten.native_dropout.default") == 3


def test_verify_passes_on_the_step_the_plan_was_made_for(traced):
    """Bit for bit, and the peak of storages to the byte; exit 0 says so."""
    done = run(
        *("verify", "cli_steps:gelu", "--plan", "gelu.plan.json", "--json"),
        *("--costs", "roofline:cpu"),
    )

    report = json.loads(done.stdout)
    plan = read_plan(traced / "gelu.plan.json")
    storages = report["planned"]["storages"]
    assert report["differences"] == []
    assert report["planned"]["peak"]["predicted"] == plan.peak_bytes
    assert storages["measured"] == storages["predicted"]
    assert report["recomputed_ops"] == plan.num_recomputations > 0


@pytest.mark.usefixtures("traced")
def test_verify_refuses_the_plan_of_another_step():
    """A plan for GELU is stale for tanh: exit 4, before anything runs."""
    done = run("verify", "cli_steps:tanh", "--plan", "gelu.plan.json")

    assert (done.exit_code, done.stdout) == (4, "")
    assert "gelu" in done.stderr
    assert "tanh" in done.stderr


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("as_json", [True, False])
def test_any_difference_is_exit_6(monkeypatch, as_json):
    """One gradient that differs fails the verification, and is named."""
    figures = StepFigures(PeakPair(8, 8), PeakPair(8, 8), 1, 1)
    difference = "the gradient of layers.0.weight differs in step 1"
    report = Report(
        name="gelu",
        budget_bytes=8,
        steps=1,
        compared=9,
        differences=(difference,),
        planned=figures,
        unplanned=figures,
        recomputed_ops=1,
        num_ops=9,
        meter="by hand",
    )
    monkeypatch.setattr("encamp.runtime.verify", lambda *_, **__: report)

    flags = ["--json"] if as_json else []
    done = run("verify", "cli_steps:gelu", "--plan", "gelu.plan.json", *flags)

    assert done.exit_code == 6
    assert difference in done.stdout
    assert as_json or done.stdout.startswith(f"gelu: FAILED\n  {difference}\n")


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["cli_steps:gelu", "-o", "g.json", "--costs", "guessed"], "'guessed'"),
        (["cli_steps:nothing", "-o", "g.json"], "a factory returns (model, args)"),
        (["cli_steps:gelu", "-o", "g.txt", "--costs", "roofline:cpu"], "g.txt"),
        (["cli_steps:gelu"], "Missing option '--output'"),
    ],
)
def test_what_cannot_be_traced_is_exit_2(arguments, complaint):
    """The message names what was given."""
    done = run("trace", *arguments)

    assert (done.exit_code, done.stdout) == (2, "")
    assert complaint in done.stderr
