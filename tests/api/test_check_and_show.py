"""`encamp check` and `encamp show`, which only read."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from cli_chain import SMALLEST, SMALLEST_STEPS, chain, plan_of
from encamp.api.cli import app
from encamp.graph import CostGraph, Kind, Op, Phase, Reason, Recompute, Value
from encamp.wire import write_graph, write_plan


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Go to a folder with the chain, and its plan at the smallest budget."""
    monkeypatch.chdir(tmp_path)
    graph = chain()
    write_graph(graph, "chain.json")
    write_plan(plan_of(graph, SMALLEST_STEPS, SMALLEST), "plan.json.zst")
    return tmp_path


def run(*arguments):
    """Run the command line in this process."""
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.mark.usefixtures("files")
class TestCheck:
    def test_a_plan_that_keeps_the_rules_passes(self):
        """Ten steps, 405 bytes and 110 ns, as added up by hand."""
        done = run("check", "chain.json", "plan.json.zst")

        assert (done.exit_code, done.stderr) == (0, "")
        assert done.stdout == "ok: 10 steps, peak 405 B, 110 ns\n"

    def test_json_lists_no_violation(self):
        """A passing check is a document too."""
        done = run("check", "chain.json", "plan.json.zst", "--json")

        assert json.loads(done.stdout) == {"ok": True, "violations": []}

    def test_over_a_given_budget_is_stale(self):
        """A plan of 405 bytes does not fit 404."""
        done = run("check", "chain.json", "plan.json.zst", "--budget", "404", "--json")

        assert done.exit_code == 4
        (violation,) = json.loads(done.stdout)["violations"]
        assert violation["kind"] == "over-budget"

    def test_a_plan_of_another_graph_is_stale(self):
        """One byte more in an activation makes it another graph."""
        graph = chain()
        larger = replace(graph.values[1], bytes=101)
        values = (graph.values[0], larger, *graph.values[2:])
        write_graph(replace(graph, values=values), "other.json")

        done = run("check", "other.json", "plan.json.zst")

        assert done.exit_code == 4
        assert "other-exact" in done.stdout

    def test_a_plan_that_states_a_false_figure_fails(self):
        """The steps take 110 ns, not 109."""
        plan = plan_of(chain(), SMALLEST_STEPS, SMALLEST)
        write_plan(replace(plan, duration_ns=109), "false.json")

        done = run("check", "chain.json", "false.json")

        assert done.exit_code == 6
        assert done.stdout.startswith("1 violation:\n  stated-duration: ")


@pytest.mark.usefixtures("files")
class TestShowGraph:
    def test_says_where_the_unplanned_step_peaks(self):
        """508 bytes at b1, of which the resident input is 100."""
        lines = run("show", "chain.json").stdout.splitlines()

        assert "device memory   1.00 kB (1000 B)" in lines
        assert "unplanned peak  508 B" in lines
        assert "peak at         b1 (backward) in layer1" in lines

    def test_json_itemises_the_peak_and_what_is_live(self):
        """Three activations and one gradient of 100, the loss and the tangent of 4."""
        shown = json.loads(run("show", "chain.json", "--json").stdout)

        assert shown["peak_bytes"] == 508
        assert shown["memory"] == {
            "input": 100,
            "activation": 304,
            "tangent": 4,
            "gradient": 100,
            "workspace": 0,
        }
        assert [v["bytes"] for v in shown["live"]] == [100, 100, 100, 100, 4, 4]

    def test_graph_option_goes_with_a_plan(self):
        """Laying a graph over a graph means nothing."""
        done = run("show", "chain.json", "--graph", "chain.json")

        assert done.exit_code == 2
        assert "chain.json is a graph; --graph goes with a plan" in done.stderr


@pytest.mark.usefixtures("files")
class TestShowPlan:
    def test_says_what_the_plan_costs(self):
        """110 ns are 37.5 % more than 80, at 405 of 508 bytes."""
        shown = run("show", "plan.json.zst").stdout

        assert "405 B, 79.72 % of the unplanned 508 B" in shown
        assert "110 ns, +37.50 % on the unplanned 80 ns" in shown
        assert "2 of 7 ops in 3 extra runs" in shown

    def test_with_the_graph_says_what_runs_again(self):
        """f1 runs twice more and f2 once more, 10 ns each."""
        shown = run("show", "plan.json.zst", "--graph", "chain.json", "--json")

        again = json.loads(shown.stdout)["recomputation"]
        assert again["ops"] == [
            {"name": "f1 of layer1", "runs": 2, "duration_ns": 20},
            {"name": "f2 of layer2", "runs": 1, "duration_ns": 10},
        ]
        assert [module["name"] for module in again["modules"]] == ["layer1", "layer2"]
        assert "steps" not in json.loads(shown.stdout)

    def test_with_the_graph_lists_modules_and_operators(self):
        """What adds most stands first."""
        shown = run("show", "plan.json.zst", "--graph", "chain.json").stdout

        assert shown.endswith(
            "most recomputed modules\n"
            "   adds  runs  name\n"
            "  20 ns     2  layer1\n"
            "  10 ns     1  layer2\n"
            "\n"
            "most recomputed operators\n"
            "   adds  runs  name\n"
            "  20 ns     2  test.f1\n"
            "  10 ns     1  test.f2\n"
        )

    def test_a_graph_of_another_structure_is_refused(self):
        """Op numbers of one graph mean nothing in another."""
        graph = chain()
        renamed = replace(graph.ops[0], target="test.g1")
        write_graph(replace(graph, ops=(renamed, *graph.ops[1:])), "other.json")

        done = run("show", "plan.json.zst", "--graph", "other.json")

        assert (done.exit_code, done.stdout) == (4, "")
        assert "another structure" in done.stderr


def dropout_step(*, replayable):
    """Return a forward with one random op; replayable ones read a random state."""
    values = [Value(0, 8, Kind.INPUT, resident=True)]
    values += [Value(i, 8, Kind.ACTIVATION) for i in (1, 2)]
    pinned = Recompute(allowed=False, reason=Reason.RANDOM)
    take = Op(0, "take", "encamp.random_state", Phase.FORWARD, (), (1,), 1, 0, pinned)
    reads, rule = ((0, 1), Recompute()) if replayable else ((0,), pinned)
    draw = Op(1, "drop", "aten.dropout", Phase.FORWARD, reads, (2,), 1, 0, rule)
    return CostGraph("dropout", tuple(values), (take, draw), (2,))


@pytest.mark.parametrize(
    ("replayable", "steps", "fate"),
    [(True, (0, 1), "saved"), (True, (0, 1, 1), "replayed"), (False, (0, 1), "saved")],
)
def test_show_says_what_becomes_of_random_ops(tmp_path, replayable, steps, fate):
    """A draw that runs again is replayed; one that does not is saved."""
    graph = dropout_step(replayable=replayable)
    write_graph(graph, tmp_path / "graph.json")
    write_plan(plan_of(graph, steps, 1000), tmp_path / "plan.json")

    shown = run("show", tmp_path / "plan.json", "--graph", tmp_path / "graph.json")

    assert shown.stdout.endswith(f"\nrandom ops: 1 {fate}\n  drop  {fate}\n")
