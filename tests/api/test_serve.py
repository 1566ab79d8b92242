import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import httpx2
import pytest
from typer.testing import CliRunner

from encamp.api.cli import app
from encamp.api.cli.serve import require_safe
from encamp.api.operations import State
from encamp.api.store import Store
from encamp.errors import OptionError
from encamp.wire import graph_to_json
from graphs import chain
from requests_to_plan import ENDLESS_BUDGET, endless

pytestmark = pytest.mark.usefixtures("compiled")

ANYWHERE = "0.0.0.0"  # noqa: S104 - to be refused
CHAIN = json.loads(graph_to_json(chain()))


def run(*arguments):
    """Run a command of the command line."""
    return CliRunner().invoke(app, arguments, prog_name="encamp")


@contextmanager
def started(folder, *arguments):
    """Give a server process and its address; it is killed if it still runs."""
    start = "from encamp.api.cli import main; main()"
    command = [sys.executable, "-c", start, "serve", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--data", str(folder), *arguments],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        lines = [process.stderr.readline() for _ in range(3)]
        found = re.search(r"http://\S+", lines[0])
        assert found, lines
        yield process, found[0], lines
    finally:
        process.kill()
        process.stderr.close()
        process.wait()


def test_it_says_where_it_is_and_where_its_data_is(tmp_path):
    """And how to make a key, which then opens it."""
    with started(tmp_path / "data", "--auth") as (process, url, lines):
        assert str(tmp_path / "data") in lines[1]
        made = run("keys", "create", "--data", str(tmp_path / "data"))
        assert "encamp keys create --scope plan:read,plan:write" in lines[2]
        headers = {"Authorization": f"Bearer {made.stdout.strip()}"}
        with httpx2.Client(base_url=url, timeout=60) as client:
            assert client.get("/v1/devices").status_code == 401
            body = {"graph": CHAIN, "budget": 43}
            prefer = {"Prefer": "wait=60", **headers}
            plan = client.post("/v1/plans", json=body, headers=prefer)
            assert plan.json()["status"] == "optimal"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) in {0, -signal.SIGTERM}


def test_what_runs_when_it_stops_waits_for_the_next_start(tmp_path):
    """SIGTERM hands it back, and no process of a solve is left."""
    with started(tmp_path, "--grace", "0.1") as (process, url, _):
        with httpx2.Client(base_url=url, timeout=60) as client:
            operation = ask(client)
            wait_for(client, operation, "running")
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    store = Store.open(f"sqlite:///{tmp_path / 'store.db'}")
    found = store.queue.get("default", operation)
    store.close()
    assert (found.state, found.attempts) == (State.QUEUED, 0)


@pytest.mark.parametrize(
    ("rounds", "solves"), [(1, 3), pytest.param(20, 10, marks=pytest.mark.slow)]
)
def test_killed_while_it_solves_it_loses_nothing(tmp_path, rounds, solves):
    """Every operation ends after a restart, and the store has no faults."""
    workers = ("--workers", str(solves))
    asked = []
    for turn in range(rounds):
        with started(tmp_path, *workers) as (process, url, _):
            with httpx2.Client(base_url=url, timeout=60) as client:
                new = [ask(client, turn * solves + n, 0.5) for n in range(solves)]
                for operation in new:
                    wait_for(client, operation, "running", *_ENDED)
            asked += new
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        store = Store.open(f"sqlite:///{tmp_path / 'store.db'}")
        age(store)
        store.close()
    with (
        started(tmp_path, *workers) as (_, url, _lines),
        httpx2.Client(base_url=url, timeout=60) as client,
    ):
        states = {wait_for(client, one, *_ENDED) for one in asked}
    store = Store.open(f"sqlite:///{tmp_path / 'store.db'}")
    faults = list(store.upkeep.faults())
    store.close()
    assert states <= {"succeeded", "failed"}
    assert faults == []


_ENDED = ("succeeded", "failed", "cancelled")


def age(store):
    """Let the leases of the dead run out now rather than in a few seconds."""
    from sqlalchemy import update  # noqa: PLC0415

    from encamp.api.store.tables import operations  # noqa: PLC0415

    with store.database.writing() as connection:
        held = operations.c.owner.is_not(None)
        connection.execute(update(operations).where(held).values(lease_ms=1))


def ask(client, number=0, seconds=120.0):
    """Ask for a plan that takes so long, and return the operation's id."""
    body = {
        "graph": json.loads(graph_to_json(endless())),
        "budget": ENDLESS_BUDGET + number,
        "options": {"target_gap": 0.0, "time_limit_s": seconds},
    }
    response = client.post("/v1/plans", json=body)
    assert response.status_code == 202, response.text
    return response.json()["id"]


def wait_for(client, operation, *states):
    """Wait until an operation is in one of some states, and return it."""
    while True:
        found = client.get(f"/v1/operations/{operation}").json()
        if found["state"] in states:
            return found["state"]
        time.sleep(0.05)


@pytest.mark.parametrize("host", [ANYWHERE, "::", "10.0.0.1", "plans.example"])
def test_it_is_not_open_to_others_without_keys(host):
    """The message says what to do; with keys it is."""
    with pytest.raises(OptionError, match="add --auth"):
        require_safe(host, auth=False)
    require_safe(host, auth=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.0.0.2"])
def test_this_machine_needs_no_key(host):
    """By any of its own names."""
    require_safe(host, auth=False)


def test_everywhere_is_no_name():
    """Requests come with another one, which has to be said."""
    done = run("serve", "--host", ANYWHERE, "--auth")
    assert done.exit_code == 2
    assert "--allowed-host" in done.stderr


def test_keys_are_made_listed_and_revoked(tmp_path):
    """The text is shown once; a wrong scope or id is exit 2."""
    data = ["--data", str(tmp_path)]
    made = run("keys", "create", "--scope", "plan:read", "--name", "ci", *data)
    text = made.stdout.strip()
    assert re.fullmatch(r"ek_[0-9a-f]{16}_[\w-]{43}", text)
    (listed,) = json.loads(run("keys", "list", "--json", *data).stdout)
    assert (listed["name"], listed["scopes"]) == ("ci", ["plan:read"])
    shown = run("keys", "list", *data).stdout
    assert listed["id"] in shown
    assert text.rpartition("_")[2] not in shown
    assert run("keys", "revoke", listed["id"], *data).exit_code == 0
    (listed,) = json.loads(run("keys", "list", "--json", *data).stdout)
    assert listed["revoked_ms"] is not None
    assert run("keys", "revoke", "none", *data).exit_code != 0
    wrong = run("keys", "create", "--scope", "all", *data)
    assert wrong.exit_code == 2
    assert "no scope is called 'all'" in wrong.stderr


def test_garbage_is_collected_or_only_counted(tmp_path):
    """A graph that nobody needs goes once it is old enough."""
    store = Store.open(f"sqlite:///{tmp_path / 'store.db'}")
    graph = chain()
    store.documents.put_graph("us", graph_to_json(graph).encode(), graph)
    store.close()
    data = ["--data", str(tmp_path), "--documents-days", "0"]
    time.sleep(0.01)
    dry = run("gc", "--dry-run", *data).stdout
    assert dry.startswith("would remove 0 operations, 0 answers, 0 plans, 1 graph:")
    done = json.loads(run("gc", "--json", *data).stdout)
    assert (done["dry_run"], done["graphs"]) == (False, 1)
    assert run("gc", "--check", *data).stdout == "the store is whole\n"


def test_a_damaged_store_is_told(tmp_path):
    """With what is wrong in it, and an exit status that is not 0."""
    store = Store.open(f"sqlite:///{tmp_path / 'store.db'}")
    graph = chain()
    store.documents.put_graph("us", graph_to_json(graph).encode(), graph)
    with store.database.writing() as connection:
        connection.exec_driver_sql("UPDATE graphs SET blob = x'00'")
    store.close()
    done = run("gc", "--check", "--data", str(tmp_path))
    assert done.exit_code != 0
    assert "damaged in the store" in done.stdout
    assert "1 fault in the store" in done.stderr
