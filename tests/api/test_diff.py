"""`encamp diff`, on plans of the chain whose figures are added up by hand."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from cli_chain import SMALLEST, SMALLEST_STEPS, UNPLANNED_PEAK, chain, plan_of
from encamp import fingerprint
from encamp.api.cli import app
from encamp.wire import write_graph, write_plan


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """Go to a folder with the chain, its plan at 508 bytes and that at 405."""
    monkeypatch.chdir(tmp_path)
    graph = chain()
    write_graph(graph, "chain.json")
    write_plan(plan_of(graph, range(7), UNPLANNED_PEAK), "large.json")
    write_plan(plan_of(graph, SMALLEST_STEPS, SMALLEST), "small.json")


def run(*arguments):
    """Run the command line in this process."""
    return CliRunner().invoke(app, ["diff", *arguments])


def test_figures_before_and_after():
    """From 508 to 405 bytes: 80 ns become 110, and 30 of 80 are 37.5 %."""
    found = json.loads(run("large.json", "small.json", "--json").stdout)

    figures = found["figures"]
    assert figures["budget_bytes"] == {"before": 508, "after": 405}
    assert figures["peak_bytes"] == {"before": 508, "after": 405}
    assert figures["duration_ns"] == {"before": 80, "after": 110}
    assert figures["overhead"] == {"before": 0.0, "after": 0.375}
    assert figures["recomputations"] == {"before": 0, "after": 3}
    assert (found["same_exact"], found["same_steps"]) == (True, False)


def test_with_the_graph_modules_and_their_times():
    """f1 of layer1 runs twice more, 20 ns, and f2 of layer2 once, 10 ns."""
    found = json.loads(
        run("large.json", "small.json", "--graph", "chain.json", "--json").stdout
    )

    assert (found["ops_more"], found["ops_less"]) == (2, 0)
    assert found["groups"] == [
        {"name": "layer1", "before": 0, "after": 2, "before_ns": 0, "after_ns": 20},
        {"name": "layer2", "before": 0, "after": 1, "before_ns": 0, "after_ns": 10},
    ]


def test_the_other_way_round_less_is_recomputed():
    """The same two modules, with their signs turned."""
    shown = run("small.json", "large.json", "--graph", "chain.json").stdout

    assert shown.endswith(
        "0 ops recomputed more, 2 ops less\n"
        "  extra runs    adds  where\n"
        "      2 -> 0  -20 ns  layer1\n"
        "      1 -> 0  -10 ns  layer2\n"
    )
    rows = [line.split(maxsplit=1) for line in shown.splitlines()[3:]]
    told = {row[0]: " ".join(row[1].split()) for row in rows if len(row) == 2}
    assert told["peak"] == "405 B 508 B +25.43 %"
    assert told["overhead"] == "37.50 % 0.00 % -37.50 points"
    assert told["recomputed"] == "3 runs 0 runs -100.00 %"


def test_without_a_graph_the_outline_names_operators():
    """A plan keeps the targets of its ops, but not what they take."""
    plan = plan_of(chain(), SMALLEST_STEPS, SMALLEST)
    write_plan(replace(plan, outline=fingerprint.outline(chain())), "outlined.json")

    found = json.loads(run("outlined.json", "large.json", "--json").stdout)

    assert [(g["name"], g["before"], g["before_ns"]) for g in found["groups"]] == [
        ("test.f1", 2, None),
        ("test.f2", 1, None),
    ]


def test_the_same_plan():
    """Nothing has changed, and it says so."""
    done = run("small.json", "small.json")

    assert done.exit_code == 0
    assert done.stdout.endswith("\nthe steps are the same\n")
    assert "%  " not in done.stdout.split("gap")[0]


def test_other_structures_are_compared_by_figures():
    """Op numbers of one structure mean nothing in another."""
    graph = chain()
    renamed = replace(graph.ops[0], target="test.g1")
    other = replace(graph, name="other", ops=(renamed, *graph.ops[1:]))
    write_plan(plan_of(other, range(7), 600), "other.json")

    found = json.loads(run("small.json", "other.json", "--json").stdout)
    shown = run("small.json", "other.json").stdout

    assert found["groups"] is found["ops_more"] is None
    assert found["figures"]["budget_bytes"] == {"before": 405, "after": 600}
    assert shown.startswith("chain -> other\ngraph  another structure")


def test_a_graph_that_is_not_theirs_is_stale():
    """Laid over another graph, the ops would be other ops."""
    graph = chain()
    renamed = replace(graph.ops[0], target="test.g1")
    write_graph(replace(graph, ops=(renamed, *graph.ops[1:])), "other.json")

    done = run("large.json", "small.json", "--graph", "other.json")

    assert (done.exit_code, done.stdout) == (4, "")
    assert "the first plan" in done.stderr


def test_plans_at_other_places_are_no_same_steps():
    """The same runs in another order: nothing runs more or less."""
    graph = chain()
    write_plan(plan_of(graph, (0, 1, 2, 3, 4, 0, 1, 5, 6), 600), "late.json")
    write_plan(plan_of(graph, (0, 1, 0, 1, 2, 3, 4, 5, 6), 600), "early.json")

    done = run("late.json", "early.json")

    assert done.stdout.endswith("\nthe same ops run again, at other places\n")
