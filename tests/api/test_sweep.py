"""`encamp sweep`, and the options of searches: rules, limits, spreads, interruption."""

import csv
import json
import re
import signal

import pytest
from typer.testing import CliRunner

from cli_chain import SMALLEST, SMALLEST_STEPS, UNPLANNED_PEAK, chain
from encamp.api.cli import app
from encamp.api.cli.search import interruptible
from encamp.api.frontier_picture import draw_frontier
from encamp.errors import OptionError
from encamp.planner import sweep
from encamp.planner.baselines import METHODS, compare_all
from encamp.wire import read_plan, write_graph


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Go to a folder with the chain."""
    monkeypatch.chdir(tmp_path)
    write_graph(chain(), "chain.json")
    return tmp_path


def run(*arguments):
    """Run the command line in this process."""
    return CliRunner().invoke(app, arguments)


class TestSweep:
    def test_prints_a_table(self):
        """508 bytes for nothing down to 405 bytes for 37.5 % more time."""
        done = run("sweep", "chain.json", "--points", "2")
        rows = done.stdout.splitlines()

        assert done.exit_code == 0
        assert rows[:2] == ["chain", "unplanned peak  508 B"]
        assert re.search(r"508 B +100\.00 % +508 B +0\.00 % .* optimal", done.stdout)
        assert re.search(r"405 B +79\.72 % +405 B +37\.50 % ", done.stdout)
        assert "planning for 405 B" in done.stderr

    def test_prints_json(self):
        """Points by falling budget, each with its bound and its proof."""
        found = json.loads(run("sweep", "chain.json", "--points", "3", "--json").stdout)

        assert [point["budget_bytes"] for point in found["points"]] == [508, 457, 405]
        assert found["points"][-1]["duration_ns"] == 110
        assert found["unplanned"] == {"peak_bytes": UNPLANNED_PEAK, "duration_ns": 80}
        assert found["bound_bytes"] <= SMALLEST
        assert found["missed"] == []

    def test_takes_budgets_as_people_write_them(self):
        """60 % of the device's 1000 bytes, 80 % of the peak, and bytes."""
        done = run("sweep", "chain.json", "--budgets", "60%,peak*0.8,410", "--json")
        points = json.loads(done.stdout)["points"]

        assert [point["budget_bytes"] for point in points] == [600, 410, 406]

    def test_writes_csv(self, folder):
        """A line for each point under a line of names."""
        run("sweep", "chain.json", "--points", "2", "-o", "points.csv")
        with (folder / "points.csv").open(encoding="utf-8", newline="") as file:
            first, last = csv.DictReader(file)

        assert (first["peak_bytes"], first["status"]) == ("508", "optimal")
        assert (last["peak_bytes"], last["overhead"]) == ("405", "0.375")

    def test_writes_the_json_that_it_prints(self, folder):
        """But for the seconds, which differ from run to run."""
        done = run("sweep", "chain.json", "--points", "2", "--json", "-o", "a.json")

        assert json.loads((folder / "a.json").read_text()) == json.loads(done.stdout)

    def test_of_what_nothing_fits_is_exit_3(self):
        """The message says how little could fit."""
        done = run("sweep", "chain.json", "--budgets", "300")

        assert (done.exit_code, done.stdout) == (3, "")
        assert "the largest budget of the sweep" in done.stderr

    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [
            (["-o", "points.txt"], "ends in .csv or .json"),
            (["--baselines"], "goes with --picture"),
            (["--points", "1"], "--points"),
            (["--time-limit", "1", "--work-limit", "1"], "exclude each other"),
        ],
    )
    def test_what_cannot_be_used_is_exit_2(self, arguments, complaint):
        """Before any search begins."""
        done = run("sweep", "chain.json", *arguments)

        assert (done.exit_code, done.stdout) == (2, "")
        assert complaint in done.stderr


class TestPicture:
    @pytest.fixture(autouse=True)
    def _matplotlib(self):
        pytest.importorskip("matplotlib")

    def test_names_axes_curves_and_methods(self, folder):
        """Both axes with their units, both curves, both limits, each method drawn."""
        frontier = sweep(chain(), points=3)
        budgets = [plan.budget_bytes for plan in frontier.plans]
        methods = [method for method in METHODS if method.name == "keep everything"]
        rows = compare_all(chain(), budgets, methods=methods)
        draw_frontier(frontier, folder / "a.svg", dict(zip(budgets, rows, strict=True)))
        texts = re.findall(r"<text[^>]*>(.*?)</text>", (folder / "a.svg").read_text())

        assert {"peak memory, kB", "time added to the unplanned step, %"} <= set(texts)
        assert {"share of the unplanned peak", "chain: time against memory"} <= set(
            texts
        )
        assert {"Encamp's plans", "proven: no plan below"} <= set(texts)
        assert {"proven: nothing fits less", "keep everything"} <= set(texts)

    def test_is_drawn_beside_the_table(self, folder):
        """The command names the file."""
        done = run("sweep", "chain.json", "--points", "2", "--picture", "a.png")

        assert "wrote a.png" in done.stderr
        assert (folder / "a.png").read_bytes().startswith(b"\x89PNG")

    def test_refuses_another_suffix_before_the_search(self):
        """The message lists the kinds there are."""
        done = run("sweep", "chain.json", "--picture", "a.txt")

        assert (done.exit_code, done.stdout) == (2, "")
        assert ".png, .svg, .pdf" in done.stderr
        with pytest.raises(OptionError):
            draw_frontier(sweep(chain(), points=2), "a.txt")


class TestRules:
    def test_are_followed_and_told(self, folder):
        """Without a second run of f1 nothing under 508 bytes: b1, b3 and b2 need it."""
        done = run(
            *("plan", "chain.json", "--budget", "1000", "--recompute", "name:f1"),
            *("--keep", "test.f3", "-o", "plan.json"),
        )
        plan = read_plan(folder / "plan.json")

        assert done.exit_code == 0
        assert plan.certificate.rules == ("keep target:test.f3", "recompute name:f1")
        assert plan.steps.count(0) == 2
        assert "keep target:test.f3" in done.stdout

    def test_that_match_nothing_list_near_misses(self):
        """There is no layer4."""
        done = run("plan", "chain.json", "--budget", "508", "--keep", "module:layer4")

        assert done.exit_code == 2
        assert "near misses: layer" in done.stderr

    def test_narrow_the_smallest_budget(self):
        """With f1 kept, 508 bytes of a1, a2 and a3 cannot all be avoided."""
        done = run("min-budget", "chain.json", "--keep", "module:*", "--json")

        assert json.loads(done.stdout)["budget_bytes"] == UNPLANNED_PEAK


class TestRobust:
    def test_is_told_and_written(self, folder):
        """110 ns and a fifth are 132 ns."""
        done = run(
            *("plan", "chain.json", "--budget", "405", "--robust", "20%"),
            *("-o", "plan.json"),
        )
        plan = read_plan(folder / "plan.json")

        assert plan.certificate.robust.spread == 0.2
        assert plan.certificate.robust.duration_ns == 132
        assert "robust" in done.stdout
        assert "at most 132 ns" in done.stdout

    @pytest.mark.parametrize("text", ["0.2", "20 percent", "100%"])
    def test_is_a_percentage_under_100(self, text):
        """Anything else is refused."""
        done = run("plan", "chain.json", "--budget", "405", "--robust", text)

        assert done.exit_code == 2


def test_a_work_limit_gives_the_same_plan_twice(folder):
    """The files differ in the seconds at most."""
    plans = []
    for name in ("a.json", "b.json"):
        run("plan", "chain.json", "--budget", "405", "--work-limit", "50", "-o", name)
        plans.append(read_plan(folder / name))

    assert plans[0].steps == plans[1].steps == SMALLEST_STEPS
    assert plans[0].certificate == plans[1].certificate


class TestInterrupt:
    def test_sets_the_token_once_and_then_interrupts(self):
        """The first Ctrl-C asks for the best so far, the second one raises."""
        with interruptible() as cancel:
            signal.raise_signal(signal.SIGINT)

            assert cancel.is_set()
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)

    def test_is_handled_as_before_afterwards(self):
        """Nothing is left behind."""
        before = signal.getsignal(signal.SIGINT)
        with interruptible():
            during = signal.getsignal(signal.SIGINT)

        assert during is not before
        assert signal.getsignal(signal.SIGINT) is before

    def test_ends_a_plan_with_exit_0_and_a_note(self, folder, monkeypatch):
        """Ctrl-C while the first stage runs leaves the best plan found."""
        from encamp.planner import stages  # noqa: PLC0415 - to be patched

        bound = stages.prove_bound

        def pressed(*arguments):
            signal.raise_signal(signal.SIGINT)
            return bound(*arguments)

        monkeypatch.setattr(stages, "prove_bound", pressed)
        done = run("plan", "chain.json", "--budget", "450", "-o", "plan.json")

        assert done.exit_code == 0
        assert "interrupted: ending with the best so far" in done.stderr
        assert read_plan(folder / "plan.json").peak_bytes <= 450
