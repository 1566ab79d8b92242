"""`encamp plan --server` and the client against the service itself, over loopback."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli_chain import SMALLEST, SMALLEST_STEPS, chain, plan_of
from encamp import errors
from encamp.api.cli import app
from encamp.api.client import AsyncClient, Client, Search
from encamp.api.pool.solving import options_of, plan_outcome, progress_document
from encamp.api.settings import Settings
from encamp.api.store import Scope, Store
from encamp.check import check
from encamp.planner import Cancel, Event
from encamp.wire import graph_from_json, read_plan, write_graph
from serving import serving

WORK = ("--work-limit", "50")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Return an empty store for all tests here."""
    return Store.open(f"sqlite:///{tmp_path_factory.mktemp('store') / 'store.db'}")


@pytest.fixture(scope="module")
def server(store):
    """Return the address of a service over it."""
    with serving(store) as running:
        yield running.url


@dataclass
class PatientPool:
    """Has a plan of the chain at once, and waits to be told to stop."""

    slots: int = 4

    def run(self, job, tell, stop):
        """Run a job for as long as somebody wants."""
        graph = graph_from_json(job.graph)
        plan = plan_of(graph, SMALLEST_STEPS, SMALLEST)
        tell(
            progress_document(
                Event("cut", 0.1, plan.duration_ns, 80, graph.duration_ns, SMALLEST)
            )
        )
        stop.cancelled.wait(60)
        cancel = Cancel()
        cancel.set()
        return plan_outcome(plan, options_of(job), cancel)


@pytest.fixture
def patient(tmp_path):
    """Return the address of a service that solves until it is told to stop."""
    store = Store.open(f"sqlite:///{tmp_path / 'patient.db'}")
    with serving(store, pool=PatientPool()) as running:
        yield running.url


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Go to a folder with the chain."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ENCAMP_KEY", raising=False)
    write_graph(chain(), "chain.json")
    return tmp_path


def run(*arguments):
    """Run `encamp plan` in this process."""
    return CliRunner().invoke(app, ["plan", *arguments])


def without_seconds(document):
    """Return a plan's document but for how long it took."""
    return document | {"solver": {**document["solver"], "seconds": 0}}


class TestCommandLine:
    def test_the_same_plan_as_in_process(self, server):
        """What is printed and written differs in nothing but the seconds."""
        asked = ("chain.json", "--budget", "405", *WORK, "--json", "--steps")

        here, there = run(*asked), run(*asked, "--server", server, "-o", "plan.json")

        assert (there.exit_code, there.stderr.count("wrote plan.json")) == (0, 1)
        assert without_seconds(json.loads(there.stdout)) == without_seconds(
            json.loads(here.stdout)
        )
        assert check(chain(), read_plan("plan.json")) == ()

    def test_the_order_is_kept_there_too(self, server):
        """Every option of the search reaches the service."""
        asked = ("chain.json", "--budget", "405", *WORK, "--fixed-order", "--json")

        here, there = run(*asked), run(*asked, "--server", server)

        assert there.exit_code == 0
        assert without_seconds(json.loads(there.stdout)) == without_seconds(
            json.loads(here.stdout)
        )

    def test_infeasible_is_the_same_too(self, server):
        """Exit 3, the same document, the same words."""
        asked = ("chain.json", "--budget", "404", *WORK, "--json")

        here, there = run(*asked), run(*asked, "--server", server)

        assert there.exit_code == here.exit_code == 3
        assert json.loads(there.stdout) == json.loads(here.stdout)
        assert there.stderr.splitlines()[-1] == here.stderr.splitlines()[-1]

    def test_a_lock_file_is_made_with_it(self, server, folder):
        """And holds, whoever solved."""
        made = run(
            *("--lock", "encamp.lock", "chain.json", "--budget", "405"),
            *(*WORK, "--server", server),
        )

        assert made.exit_code == 0
        assert run("--lock", "encamp.lock", "--check").exit_code == 0
        assert (folder / "plans" / "chain.json").is_file()

    def test_an_option_that_cannot_be_is_exit_2(self, server):
        """Said by the service, with the exit code that it has here."""
        asked = ("chain.json", "--budget", "405", "--seed", "-1")
        done = run(*asked, "--server", server)

        assert (done.exit_code, done.stdout) == (2, "")
        assert "seed" in done.stderr

    def test_nobody_there_is_exit_5(self, store, monkeypatch):
        """A port that nothing listens on."""
        monkeypatch.setattr("encamp.api.client.exchange.Patience.pause", lambda *_: 0)
        with serving(store) as running:
            gone = running.url

        done = run("chain.json", "--budget", "405", "--server", gone)

        assert (done.exit_code, done.stdout) == (5, "")
        assert "no answer to HEAD /v1/graphs/" in done.stderr

    def test_a_key_without_a_server(self):
        """Usage."""
        done = run("chain.json", "--budget", "405", "--key-file", "key")

        assert done.exit_code == 2
        assert "--key-file goes with --server" in done.stderr


class TestKeys:
    @pytest.fixture
    def guarded(self, store):
        """Return the address of a service that asks for keys."""
        with serving(store, Settings(authenticate=True)) as running:
            yield running.url

    def test_refused_without_is_exit_5(self, guarded):
        """Nothing is solved here instead."""
        done = run("chain.json", "--budget", "405", "--server", guarded)

        assert (done.exit_code, done.stdout) == (5, "")
        assert "API key" in done.stderr

    def test_from_a_file_and_from_the_environment(self, guarded, store, monkeypatch):
        """A key that may read and write; it is shown nowhere."""
        _, key = store.keys.create("ci", set(Scope))
        Path("key").write_text(f"{key}\n")
        asked = ("chain.json", "--budget", "405", *WORK, "--server", guarded)

        by_file = run(*asked, "--key-file", "key")
        monkeypatch.setenv("ENCAMP_KEY", key)
        by_environment = run(*asked)

        assert by_file.exit_code == by_environment.exit_code == 0
        assert key not in by_file.output + by_environment.output

    def test_a_key_that_may_only_read(self, guarded, store):
        """Exit 5: what it lacks is named."""
        _, key = store.keys.create("reader", {Scope.READ})
        Path("key").write_text(key)

        done = run(
            *("chain.json", "--budget", "406", "--server", guarded),
            *("--key-file", "key"),
        )

        assert done.exit_code == 5
        assert "plan:write" in done.stderr


class TestClient:
    def test_progress_and_the_plan(self, server):
        """The service tells of a solve what it is in and what is proved."""
        told = []
        with Client(server) as client:
            plan = client.plan(
                chain(),
                SMALLEST,
                search=Search(seed=7, work_limit=50),
                listener=told.append,
            )

        assert plan.duration_ns == 110
        assert told
        assert all(event.lower_bound_ns <= 110 for event in told)

    def test_async_sweep_and_smallest_budget(self, server):
        """All at once, as asyncio lets them."""

        async def ask():
            async with AsyncClient(server) as client:
                search = Search(work_limit=50)
                return await asyncio.gather(
                    client.sweep(chain(), [405, 508], search=search),
                    client.min_budget(chain(), search=search),
                )

        swept, smallest = asyncio.run(ask())

        assert [plan.duration_ns for plan in swept.plans] == [80, 110]
        assert smallest.budget_bytes == SMALLEST

    def test_what_the_service_checks(self, server):
        """Its own check, of a plan that is over a budget."""
        with Client(server) as client:
            plan = client.plan(chain(), 405, search=Search(work_limit=50))
            (violation,) = client.check(chain(), plan, 404)

        assert violation.kind == "over-budget"

    def test_cancelling_keeps_the_incumbent(self, patient):
        """A search without an end, told to stop once there is a plan."""
        begun = []
        with Client(patient) as client:
            plan = client.plan(
                chain(),
                405,
                listener=lambda _: client.cancel(begun.pop().id) if begun else None,
                begun=begun.append,
            )

        assert (plan.duration_ns, begun) == (110, [])

    def test_operations_are_listed(self, server, monkeypatch):
        """Newest first, over pages of one."""
        monkeypatch.setattr("encamp.api.client.asking._PAGE", 1)
        with Client(server) as client:
            for seed in (21, 22):
                client.plan(chain(), 405, search=Search(seed=seed, work_limit=50))

            found = client.operations("succeeded")

        assert len(found) >= 2
        assert all(one.done and one.kind == "plan" for one in found[:2])
        assert [one.result["summary"]["solver"]["seed"] for one in found[:2]] == [
            22,
            21,
        ]

    def test_an_unknown_plan(self, server):
        """A digest that nobody stored."""
        with Client(server) as client, pytest.raises(errors.NotFoundError):
            client.get_plan("sha256:" + "0" * 64)


def test_ctrl_c_ends_with_the_best_so_far(patient):
    """The command on a terminal, interrupted once it has a plan."""
    command = Path(sys.executable).with_name("encamp")
    main, terminal = os.openpty()
    shown = []
    with subprocess.Popen(
        [
            command,
            "plan",
            "chain.json",
            "--budget",
            "405",
            "--server",
            patient,
            "--json",
        ],
        stdout=subprocess.PIPE,
        stderr=terminal,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "120"},
    ) as process:
        reader = threading.Thread(target=_read, args=(main, shown))
        reader.start()
        _wait_for(lambda: b"gap" in b"".join(shown))
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=60)
    os.close(terminal)
    reader.join()
    os.close(main)

    said = b"".join(shown).decode()
    assert process.returncode == 0
    assert json.loads(printed)["duration_ns"] == 110
    assert "best 110 ns, bound 80 ns, gap 37.50 %" in said
    assert "interrupted" in said
    assert "\N{BOX DRAWINGS HEAVY HORIZONTAL}" in said


def _read(descriptor, shown):
    try:
        while piece := os.read(descriptor, 4096):
            shown.append(piece)
    except OSError:
        pass


def _wait_for(condition, seconds=60):
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.02)
