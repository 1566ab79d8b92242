"""`encamp plan` and `encamp min-budget`."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli_chain import SMALLEST, UNPLANNED_PEAK, chain
from encamp.api.cli import app
from encamp.check import check
from encamp.errors import NoPlanError
from encamp.wire import read_plan, write_graph
from forward_steps import branches


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Go to a folder with the chain."""
    monkeypatch.chdir(tmp_path)
    write_graph(chain(), "chain.json")
    return tmp_path


def run(*arguments):
    """Run the command line in this process."""
    return CliRunner().invoke(app, arguments)


def test_the_unplanned_peak_plans_no_recomputation():
    """508 bytes hold the unplanned step: optimal at 80 ns."""
    plan = json.loads(run("plan", "chain.json", "--budget", "508", "--json").stdout)

    assert plan["status"] == "optimal"
    assert plan["duration_ns"] == plan["certificate"]["lower_bound_ns"] == 80
    assert plan["peak_bytes"] == UNPLANNED_PEAK
    assert "steps" not in plan


def test_the_smallest_budget_is_planned_and_written(folder):
    """405 bytes take 110 ns, and the file holds a plan that passes the check."""
    done = run("plan", "chain.json", "--budget", "405", "-o", "plan.json")

    plan = read_plan(folder / "plan.json")
    assert done.exit_code == 0
    assert (plan.peak_bytes, plan.duration_ns) == (SMALLEST, 110)
    assert check(chain(), plan) == ()
    assert "wrote plan.json" in done.stderr
    assert "110 ns, +37.50 % on the unplanned 80 ns" in done.stdout


def test_json_with_steps_is_the_whole_plan(folder):
    """What `--json --steps` prints is what `-o` writes."""
    done = run(
        *("plan", "chain.json", "--budget", "peak*0.8", "--json", "--steps"),
        *("-o", "plan.json"),
    )

    printed = json.loads(done.stdout)
    assert printed == json.loads((folder / "plan.json").read_text())
    assert printed["budget_bytes"] == 406


def test_a_share_of_the_device_is_a_budget():
    """60 % of the 1000 bytes that the graph records, 50 of them in reserve."""
    plan = json.loads(
        run(
            *("plan", "chain.json", "--budget", "60%", "--reserve", "50", "--json")
        ).stdout
    )

    assert (plan["budget_bytes"], plan["reserve_bytes"]) == (600, 50)


def test_infeasible_names_the_smallest_budget_op_and_values():
    """404 bytes fit nothing: exit 3, and 405 would do, with b3 at the peak."""
    done = run("plan", "chain.json", "--budget", "404")

    assert (done.exit_code, done.stdout) == (3, "")
    for fact in ("405", "b3", "layer3"):
        assert fact in done.stderr


def test_infeasible_is_a_document_too():
    """A program reads the smallest budget from stdout, a person from stderr."""
    done = run("plan", "chain.json", "--budget", "404", "--json")

    found = json.loads(done.stdout)
    assert done.exit_code == 3
    assert found["status"] == "infeasible"
    assert (found["budget_bytes"], found["smallest_bytes"]) == (404, SMALLEST)
    assert found["bound_bytes"] > 404
    assert found["peak"]["op"] == "b3"


def test_no_plan_in_time_is_exit_7(monkeypatch):
    """The time limit may come before any plan."""

    def solve(*_args, **_options):
        raise NoPlanError("nothing within 1 s")

    monkeypatch.setattr("encamp.planner.solve", solve)
    done = run("plan", "chain.json", "--budget", "405", "--time-limit", "1")

    assert (done.exit_code, done.stdout) == (7, "")
    assert done.stderr == "encamp: nothing within 1 s\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--budget", "16GX"], "'16GX'"),
        (["--budget", "405", "--steps"], "--steps goes with --json"),
        (["--budget", "405", "--time-limit", "-1"], "--time-limit"),
        ([], "Missing option '--budget'"),
    ],
)
def test_what_cannot_be_used_is_exit_2(arguments, complaint):
    """The message names the option or its text."""
    done = run("plan", "chain.json", *arguments)

    assert (done.exit_code, done.stdout) == (2, "")
    assert complaint in done.stderr


def test_min_budget():
    """405 bytes at b3; the bound is proven and no higher."""
    found = json.loads(run("min-budget", "chain.json", "--json").stdout)

    assert found["budget_bytes"] == SMALLEST
    assert 0 < found["bound_bytes"] <= SMALLEST
    assert found["unplanned_peak_bytes"] == UNPLANNED_PEAK
    assert found["peak"]["op"] == "b3"


def test_min_budget_for_people():
    """The share of the unplanned peak, and what is live there."""
    shown = run("min-budget", "chain.json").stdout.splitlines()

    assert shown[:2] == [
        "chain",
        "smallest budget  405 B, 79.72 % of the unplanned peak",
    ]
    assert "peak at          b3 layer3" in shown


def test_progress_goes_to_stderr():
    """Stages of the solve are lines on stderr, so that stdout is one document."""
    done = run("plan", "chain.json", "--budget", "405", "--json")

    assert json.loads(done.stdout)["graph"]["name"] == "chain"
    assert "best" in done.stderr
    assert "bound" in done.stderr


class TestFixedOrder:
    """Two branches at 12 bytes: 15 ns in another order, 27 ns in the given one."""

    @pytest.fixture(autouse=True)
    def branches(self):
        """Write the graph of two branches."""
        write_graph(branches(), "branches.json")

    @pytest.mark.parametrize(
        ("options", "duration"), [((), 15), (("--fixed-order",), 27)]
    )
    def test_keeps_the_order_of_first_runs(self, options, duration):
        """The certificate of the plan in another order is one for every order."""
        done = run(
            *("plan", "branches.json", "--budget", "12", "--json"),
            *("--work-limit", "1000", *options),
        )
        plan = json.loads(done.stdout)

        assert (plan["duration_ns"], plan["status"]) == (duration, "optimal")
        assert plan["certificate"]["order"] == ("given" if options else "free")

    def test_holds_for_the_smallest_budget(self):
        """Of both orders 12 bytes are the least: e, c and d are made of 10 and 1."""
        done = run("min-budget", "branches.json", "--fixed-order", "--json")

        assert json.loads(done.stdout)["budget_bytes"] == 12

    def test_is_written_to_a_lock_file(self):
        """What was asked for is what the file asks for the next time."""
        done = run(
            *("plan", "--lock", "encamp.lock", "branches.json", "--budget", "12"),
            *("--work-limit", "50", "--fixed-order"),
        )
        again = run("plan", "--lock", "encamp.lock")
        entry = json.loads(Path("encamp.lock").read_text())["plans"]["branches"]

        assert (done.exit_code, again.exit_code) == (0, 0)
        assert entry["options"]["fixed_order"] is True
        assert entry["plan"]["duration_ns"] == 27
