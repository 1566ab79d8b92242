"""`encamp plan --lock`: made once, kept while it holds, and verified fact by fact."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli_chain import SMALLEST, SMALLEST_STEPS, chain, plan_of
from encamp.api.cli import app
from encamp.api.lock import read_lock
from encamp.check import check
from encamp.errors import WireError
from encamp.wire import read_plan, write_graph, write_plan

PLANNED = ("--budget", "405", "--work-limit", "50")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Go to a folder with the chain and a copy of it under another name."""
    monkeypatch.chdir(tmp_path)
    write_graph(chain(), "chain.json")
    write_graph(replace(chain(), name="a second"), "second.json")
    return tmp_path


def run(*arguments):
    """Run `encamp plan --lock encamp.lock` in this process."""
    return CliRunner().invoke(app, ["plan", "--lock", "encamp.lock", *arguments])


@pytest.fixture
def locked(folder):
    """Lock both graphs at 405 bytes, at which each takes 110 ns."""
    done = run("chain.json", "second.json", *PLANNED)
    assert done.exit_code == 0, done.stderr
    return folder


def lock_of(folder):
    """Return the lock file as plain data."""
    return json.loads((folder / "encamp.lock").read_text())


def edit(folder, change):
    """Change the lock file as a person with an editor might."""
    lock = lock_of(folder)
    change(lock)
    (folder / "encamp.lock").write_text(json.dumps(lock))


class TestMaking:
    def test_an_entry_says_how_the_plan_was_made_and_what_it_is(self, locked):
        """405 bytes, 110 ns over 80: what the chain's own drawing has."""
        entry = lock_of(locked)["plans"]["chain"]

        assert entry["graph"]["path"] == "chain.json"
        assert entry["options"]["budget"] == "405"
        assert entry["options"]["work_limit"] == 50
        assert entry["options"]["time_limit_s"] is None
        assert entry["plan"]["path"] == "plans/chain.json"
        assert entry["plan"]["peak_bytes"] == SMALLEST
        assert entry["plan"]["duration_ns"] == 110
        assert entry["plan"]["overhead"] == 0.375
        assert entry["unplanned"] == {"peak_bytes": 508, "duration_ns": 80}
        assert check(chain(), read_plan("plans/chain.json")) == ()

    def test_a_name_that_is_no_file_name_gets_one(self, locked):
        """Spaces and slashes stay in the lock file; a digest keeps such names apart."""
        path = lock_of(locked)["plans"]["a second"]["plan"]["path"]

        assert path.startswith("plans/a-second-")
        assert (locked / path).is_file()

    def test_the_same_work_gives_the_same_files(self, locked):
        """Two searches that are limited by work write the same bytes."""
        before = {
            path: path.read_bytes() for path in locked.rglob("*") if path.is_file()
        }
        for path in (*locked.glob("plans/*"), locked / "encamp.lock"):
            path.unlink()

        run("chain.json", "second.json", *PLANNED)

        assert {path: path.read_bytes() for path in before} == before

    def test_a_plan_that_holds_is_kept(self, locked):
        """Locking again changes nothing, and says so."""
        done = run("chain.json", *PLANNED, "--json")

        (row,) = json.loads(done.stdout)["plans"]
        assert (row["name"], row["state"], row["before"]) == ("chain", "kept", 0.375)
        assert set(lock_of(locked)["plans"]) == {"chain", "a second"}

    def test_without_graphs_those_that_do_not_hold_are_planned_again(self, locked):
        """Each with the options it was locked with."""
        (locked / "plans" / "chain.json").unlink()

        done = run("--json")

        states = {row["name"]: row["state"] for row in json.loads(done.stdout)["plans"]}
        assert states == {"chain": "planned", "a second": "kept"}
        assert run("--check").exit_code == 0

    def test_another_budget_is_another_plan(self, locked):
        """At 508 bytes nothing is recomputed."""
        run("chain.json", "--budget", "508", "--work-limit", "50")

        plans = lock_of(locked)["plans"]
        assert plans["chain"]["plan"]["overhead"] == 0.0
        assert plans["a second"]["plan"]["overhead"] == 0.375

    def test_an_infeasible_graph_leaves_everything_as_it_was(self, locked):
        """Nothing is written unless every graph has its plan."""
        before = (locked / "encamp.lock").read_bytes()

        done = run("chain.json", "second.json", "--budget", "404", "--work-limit", "50")

        assert done.exit_code == 3
        assert "405" in done.stderr
        assert (locked / "encamp.lock").read_bytes() == before
        assert run("--check").exit_code == 0

    def test_two_graphs_of_one_name_are_refused(self, folder):
        """A lock file keeps one plan a name."""
        write_graph(chain(), folder / "copy.json")

        done = run("chain.json", "copy.json", *PLANNED)

        assert done.exit_code == 2
        assert "chain.json and copy.json both hold a graph named 'chain'" in done.stderr

    def test_from_another_folder_the_paths_are_the_lock_files(
        self, locked, monkeypatch
    ):
        """Paths are seen from the lock file, wherever the command runs."""
        below = locked / "below"
        below.mkdir()
        monkeypatch.chdir(below)

        arguments = ["plan", "--lock", "../encamp.lock", "--check", "../chain.json"]
        done = CliRunner().invoke(app, arguments)

        assert done.exit_code == 0, done.stderr


@pytest.mark.usefixtures("locked")
class TestChecking:
    def test_what_holds(self):
        """Every plan is there, as it was locked."""
        done = run("--check", "--json")

        found = json.loads(done.stdout)
        assert (done.exit_code, found["ok"], found["findings"]) == (0, True, [])
        assert [row["state"] for row in found["plans"]] == ["ok", "ok"]

    def test_checking_loads_no_solver(self):
        """A job that only verifies starts at once."""
        code = (
            "import sys; from encamp.api.cli import app;"
            "app(['plan', '--lock', 'encamp.lock', '--check'], standalone_mode=False);"
            "assert not {'ortools', 'numba', 'torch'} & set(sys.modules)"
        )

        done = subprocess.run([sys.executable, "-c", code], check=False)

        assert done.returncode == 0

    @pytest.mark.parametrize(
        ("damage", "kind", "at"),
        [
            (lambda f: (f / "chain.json").unlink(), "missing", "graph.path"),
            (lambda f: (f / "plans/chain.json").unlink(), "missing", "plan.path"),
            (lambda f: truncate(f / "plans/chain.json"), "corrupt", "plan.path"),
            (lambda f: relabel(f / "plans/chain.json"), "corrupt", "plan.digest"),
            (lambda f: larger(f / "chain.json"), "stale", "graph.exact"),
            (lambda f: retargeted(f / "chain.json"), "stale", "graph.structure"),
        ],
        ids=["graph", "plan", "half a plan", "another plan", "bytes", "structure"],
    )
    def test_what_does_not_hold_is_exit_4(self, locked, damage, kind, at):
        """The finding names the graph, the fault and the place in the lock file."""
        damage(locked)

        done = run("--check", "--json")

        (finding,) = json.loads(done.stdout)["findings"]
        assert done.exit_code == 4
        assert (finding["kind"], finding["graph"]) == (kind, "chain")
        assert finding["at"] == f"$.plans.chain.{at}"
        assert (
            f"encamp.lock: $.plans.chain.{at}: chain: {kind}: " in run("--check").stderr
        )

    @pytest.mark.parametrize(
        ("place", "value"),
        [
            ("graph.exact", "sha256:" + "0" * 64),
            ("plan.status", "optimal"),
            ("plan.budget_bytes", 406),
            ("plan.peak_bytes", 404),
            ("plan.lower_bound_ns", 81),
            ("plan.recomputations", 2),
            ("unplanned.peak_bytes", 509),
            ("made_by.encamp", "9.9"),
        ],
    )
    def test_a_figure_that_was_edited_is_corrupt(self, locked, place, value):
        """Whatever the lock file repeats of the plan is compared with the plan."""
        section, name = place.split(".")
        was = lock_of(locked)["plans"]["chain"][section][name]
        value = "feasible" if was == value else value

        edit(locked, lambda lock: lock["plans"]["chain"][section].update({name: value}))
        done = run("--check", "--json")

        found = {f["at"]: f["kind"] for f in json.loads(done.stdout)["findings"]}
        assert done.exit_code == 4
        assert found[f"$.plans.chain.{place}"] == "corrupt"

    @pytest.mark.parametrize(
        ("option", "value"),
        [("budget", "406"), ("reserve", "1"), ("seed", 1), ("keep", ["test.f1"])],
    )
    def test_an_option_that_was_edited_is_stale(self, locked, option, value):
        """The plan was made with another."""
        change = {option: value}
        edit(locked, lambda lock: lock["plans"]["chain"]["options"].update(change))

        (finding,) = json.loads(run("--check", "--json").stdout)["findings"]

        assert (finding["kind"], finding["at"]) == (
            "stale",
            f"$.plans.chain.options.{option}",
        )

    def test_over_the_budget(self):
        """A workspace that the graph did not have before is in no fingerprint."""
        graph = chain()
        wide = replace(graph.ops[5], workspace_bytes=1)
        write_graph(
            replace(graph, ops=(*graph.ops[:5], wide, graph.ops[6])), "chain.json"
        )

        (finding,) = json.loads(run("--check", "--json").stdout)["findings"]

        assert finding["kind"] == "over budget"
        assert "the peak is 406 bytes" in finding["message"]

    def test_growth_of_what_the_plan_adds(self):
        """With f1 at 15 ns, 85 unplanned, two more runs of it and one of f2 add 40.

        40 of 85 are 47.06 %, 9.56 points over the 37.5 % that were locked.
        """
        slower = replace(chain().ops[0], duration_ns=15)
        write_graph(replace(chain(), ops=(slower, *chain().ops[1:])), "chain.json")

        done = run("--check", "--json")

        (finding,) = json.loads(done.stdout)["findings"]
        assert (done.exit_code, finding["kind"]) == (4, "overhead grown")
        assert (
            "adds 47.06 % to the step, 37.50 % before: 9.56 points"
            in finding["message"]
        )
        assert run("--check", "--max-growth", "9.5%").exit_code == 4
        assert run("--check", "--max-growth", "9.6%").exit_code == 0

    def test_growth_over_another_lock_file(self, locked):
        """Between two branches the locked plans themselves are compared."""
        (locked / "encamp.lock").rename(locked / "tight.lock")
        run("chain.json", "--budget", "508", "--work-limit", "50")
        (locked / "encamp.lock").rename(locked / "main.lock")
        (locked / "tight.lock").rename(locked / "encamp.lock")
        run("chain.json", *PLANNED)

        done = run("chain.json", "--check", "--base", "main.lock", "--json")

        (finding,) = json.loads(done.stdout)["findings"]
        assert finding["kind"] == "overhead grown"
        allowed = run("--check", "--base", "main.lock", "--max-growth", "37.5%")
        assert allowed.exit_code == 0

    def test_a_graph_that_was_never_locked(self):
        """Naming it in the command asks for it."""
        write_graph(replace(chain(), name="third"), "third.json")

        (finding,) = json.loads(run("third.json", "--check", "--json").stdout)[
            "findings"
        ]

        assert (finding["kind"], finding["at"]) == ("not locked", "$.plans")

    def test_another_budget_than_the_locked_one(self):
        """What the command asks for is not what the plan was made for."""
        done = run("chain.json", "--check", "--budget", "500", "--work-limit", "50")

        assert done.exit_code == 4
        assert "locked for '405', not '500'" in done.stderr


class TestReading:
    @pytest.mark.parametrize(
        ("change", "complaint"),
        [
            (
                lambda d: d.update(schema="encamp.lock/2"),
                "$.schema: expected encamp.lock/1",
            ),
            (lambda d: d.update(plnas={}), "$: unknown field 'plnas'"),
            (lambda d: d["plans"]["chain"].pop("plan"), "$.plans.chain: missing field"),
            (
                lambda d: d["plans"]["chain"]["plan"].update(peak_bytes="405"),
                "$.plans.chain.plan.peak_bytes: expected an integer",
            ),
            (
                lambda d: d["plans"]["a second"]["plan"].update(overhead=0.1),
                '$.plans["a second"].plan.overhead: expected about 0.375',
            ),
            (
                lambda d: d["plans"]["chain"]["plan"].update(digest="sha256:1"),
                "$.plans.chain.plan.digest: expected 'sha256:'",
            ),
            (
                lambda d: d["plans"]["chain"]["options"].update(time_limit_s=3),
                "$.plans.chain.options: one of time_limit_s and work_limit",
            ),
        ],
    )
    def test_a_wrong_document_is_refused_by_path(self, locked, change, complaint):
        """Exit 2 and one line, with or without --check."""
        edit(locked, change)

        for arguments in (["--check"], ["chain.json", *PLANNED]):
            done = run(*arguments)
            assert (done.exit_code, done.stdout) == (2, "")
            assert complaint.replace("'", '"') in done.stderr.replace("'", '"')

    def test_half_a_file_is_refused(self, locked):
        """A merge that went wrong, or a full disk."""
        truncate(locked / "encamp.lock")

        done = run("--check")

        assert done.exit_code == 2
        assert "encamp.lock: $: not JSON" in done.stderr

    def test_a_missing_lock_file(self):
        """There is nothing to verify; and nothing to plan without graphs."""
        assert "no such file" in run("--check").stderr
        assert run("--check").exit_code == run().exit_code == 2

    def test_an_object_that_names_a_graph_twice(self, locked):
        """A merge may leave both sides of a conflict in."""
        text = (locked / "encamp.lock").read_text()
        (locked / "encamp.lock").write_text(text.replace('"a second"', '"chain"'))

        with pytest.raises(WireError, match=r"\$\.plans: .*chain.* occurs twice"):
            read_lock(locked / "encamp.lock")


class TestSummary:
    def test_a_table_in_a_file(self, locked):
        """What is locked, with what it adds."""
        run("--check", "--summary", "summary.md")

        text = (locked / "summary.md").read_text()
        assert "| chain | 405 B | 405 B | 37.50 % |" in text
        assert "problem" not in text

    def test_problems_are_listed(self, locked, monkeypatch):
        """The job's page keeps what is on it."""
        page = locked / "page.md"
        page.write_text("before\n")
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
        (locked / "plans/chain.json").unlink()

        run("--check", "--step-summary")

        text = page.read_text()
        assert text.startswith("before\n### Encamp")
        assert "1 problem:" in text
        assert "- **chain: missing**: no such plan: plans/chain.json" in text

    @pytest.mark.usefixtures("locked")
    def test_a_page_that_is_not_there(self, monkeypatch):
        """Outside of a job there is no page: said before anything is solved."""
        monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)

        done = run("--check", "--step-summary")

        assert done.exit_code == 2
        assert "$GITHUB_STEP_SUMMARY" in done.stderr

    def test_one_plan_has_a_summary_too(self):
        """Without a lock file as well."""
        done = CliRunner().invoke(
            app, ["plan", "chain.json", "--budget", "508", "--summary", "one.md"]
        )

        assert done.exit_code == 0
        assert "| chain | 508 B | 508 B | 0.00 % |" in Path("one.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["plan", "chain.json", "--budget", "405", "--check"],
            "--check goes with --lock",
        ),
        (["plan", "chain.json", "second.json", "--budget", "405"], "2 were given"),
        (["plan", "--budget", "405"], "none was given"),
        (["plan", "--lock", "l", "chain.json"], "Missing option '--budget'"),
        (
            ["plan", "--lock", "l", "--budget", "405"],
            "options of a search go with graphs",
        ),
        (
            ["plan", "--lock", "l", "--seed", "1"],
            "Missing option '--budget', with which",
        ),
        (["plan", "--lock", "l", "chain.json", "--base", "x"], "go with --check"),
        (
            ["plan", "--lock", "l", "chain.json", "--budget", "405", "-o", "p"],
            "--plans",
        ),
    ],
)
def test_options_that_contradict_each_other(arguments, complaint):
    """Exit 2, and the message names them."""
    done = CliRunner().invoke(app, arguments)

    assert (done.exit_code, done.stdout) == (2, "")
    assert complaint in " ".join(done.stderr.split())


def truncate(path):
    """Cut a file in its middle."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def relabel(path):
    """Replace a plan by another valid one of the same graph."""
    write_plan(plan_of(chain(), SMALLEST_STEPS, SMALLEST), path)


def larger(path):
    """Make an activation one byte larger."""
    values = list(chain().values)
    values[1] = replace(values[1], bytes=101)
    write_graph(replace(chain(), values=tuple(values)), path)


def retargeted(path):
    """Put another operator in the first op's place."""
    first = replace(chain().ops[0], target="test.g1")
    write_graph(replace(chain(), ops=(first, *chain().ops[1:])), path)
