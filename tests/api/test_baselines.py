"""`encamp baselines`: the known methods beside Encamp's plan, in one table."""

import json

import pytest
from typer.testing import CliRunner

from cli_chain import SMALLEST, UNPLANNED_PEAK, chain
from encamp.api.cli import app
from encamp.planner.baselines import METHODS
from encamp.wire import write_graph
from training_chains import uniform_chain


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Go to a folder with the chain."""
    monkeypatch.chdir(tmp_path)
    write_graph(chain(), "chain.json")
    return tmp_path


def run(*arguments):
    """Run the command line in this process."""
    return CliRunner().invoke(app, ["baselines", *map(str, arguments)])


def document(*arguments):
    """Return what the command prints with --json, methods by name."""
    done = run("chain.json", *arguments, "--json")
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    return found | {"methods": {row["name"]: row for row in found["methods"]}}


@pytest.mark.usefixtures("folder")
class TestBaselines:
    def test_a_row_for_each_method_and_encamp_last(self):
        """At the smallest budget Checkmate finds what Encamp finds: 30 of 80 ns."""
        done = run("chain.json", "--budget", SMALLEST)
        lines = done.stdout.splitlines()

        assert done.exit_code == 0
        assert lines[:2] == ["chain", "budget  405 B"]
        assert [line.split("  ")[1] for line in lines[4:]] == [
            *(method.name for method in METHODS),
            "Encamp",
        ]
        kept = "keep everything 508 B 0.00 % over the unplanned step"
        assert " ".join(lines[4].split()) == kept
        assert "405 B   37.50 %  fits  Jain" in lines[-2]
        assert "405 B   37.50 %  fits  this program" in lines[-1]

    def test_json_has_the_figures(self):
        """Peaks, durations, and overheads as shares of the 80 ns unplanned."""
        found = document("--budget", SMALLEST)
        methods = found["methods"]

        assert found["budget_bytes"] == SMALLEST
        assert found["unplanned"] == {"peak_bytes": UNPLANNED_PEAK, "duration_ns": 80}
        assert methods["Encamp"] | {"source": ""} == {
            "name": "Encamp",
            "source": "",
            "fits": True,
            "peak_bytes": 405,
            "duration_ns": 110,
            "overhead": 0.375,
        }
        assert not methods["keep everything"]["fits"]

    def test_nothing_fits(self):
        """Below the smallest budget each shows how near it comes, and none fits."""
        methods = document("--budget", SMALLEST - 1)["methods"]

        assert {row["fits"] for row in methods.values()} == {False}
        assert methods["revolve"]["peak_bytes"] >= SMALLEST
        for name in ("Checkmate", "Encamp"):
            assert methods[name]["peak_bytes"] is None
            assert methods[name]["overhead"] is None
        assert "none found" in run("chain.json", "--budget", SMALLEST - 1).stdout

    def test_a_method_that_takes_no_such_graph_is_named(self):
        """Checkmate's program stops at 100 ops; stderr says so."""
        write_graph(uniform_chain(51), "long.json")
        done = run("long.json", "--budget", "peak*0.9")

        assert "Checkmate is left out: the graph has 102 ops" in done.stderr
        assert "Checkmate" not in done.stdout
