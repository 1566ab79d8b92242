import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import StringIO

import pytest

from encamp.api.logs import new_logger
from encamp.api.operations import State
from encamp.api.pool import Outcome
from encamp.api.replica import Replica
from encamp.api.settings import Settings
from encamp.api.store import Room, Store, Submission
from encamp.graph import Kind, Value
from encamp.wire import graph_to_json
from graphs import chain
from requests_to_plan import ENDLESS_BUDGET, endless, options
from serving import ThreadPool, serving

pytestmark = pytest.mark.usefixtures("compiled")

ROOM = Room(queued=100, per_requester=100)
SOON = Settings(lease_s=1.0, shutdown_s=0.1)


class Stuck:
    """A pool whose jobs never end, as of a replica that hangs."""

    slots = 4

    def run(self, _job, _tell, stop):
        stop.abandoned.wait()
        return Outcome(error=("ServiceError", "abandoned"))


class Broken:
    """A pool that fails."""

    slots = 1

    def run(self, _job, _tell, _stop):
        return Outcome(error=("InternalError", "the solve's process ended"))


class Buggy:
    """A pool with a bug."""

    slots = 1

    def run(self, _job, _tell, _stop):
        raise TypeError("hunter2")


@pytest.fixture
def store(url):
    """Give a store that counts real time."""
    found = Store.open(url)
    yield found
    found.close()


def submit(store, budget=43, graph=None, **changes):
    """Ask for a plan, of the chain if no other, and return the operation."""
    graph = graph or chain()
    digest = store.documents.put_graph("us", graph_to_json(graph).encode(), graph)
    request = {
        "budget_bytes": budget,
        "reserve_bytes": 0,
        "options": options(**changes),
    }
    asked = Submission("us", "plan", digest, f"k{budget}", f"{budget}", "me", request)
    return store.queue.submit(asked, ROOM)[0]


def replica(store, pool, lease_s=1.0):
    """Return a replica that has started."""
    made = Replica(store, pool, new_logger(StringIO()), lease_s=lease_s, poll_s=0.02)
    made.start()
    return made


def wait_for(store, operation, *states):
    """Wait until an operation is in a state, and return it."""
    while True:
        found = store.queue.get("us", operation.id)
        if found.state in states:
            return found
        assert not found.state.ended, found
        time.sleep(0.02)


def test_a_replica_that_stops_hands_back(store):
    """What runs waits again, at no cost, and another replica ends it."""
    operation = submit(store)
    first = replica(store, Stuck())
    wait_for(store, operation, State.RUNNING)
    first.stop(0.1)
    back = store.queue.get("us", operation.id)
    assert (back.state, back.attempts) == (State.QUEUED, 0)
    second = replica(store, ThreadPool())
    ended = wait_for(store, operation, State.SUCCEEDED)
    second.stop(1)
    assert ended.result["status"] == "optimal"
    assert store.documents.plan("us", ended.result["plan"]) is not None


def test_a_dead_replica_is_taken_over(store):
    """Its lease runs out while it holds still; then it is no owner any more."""
    operation = submit(store)
    store.queue.claim("dead", 1, 100)
    alive = replica(store, ThreadPool())
    ended = wait_for(store, operation, State.SUCCEEDED)
    alive.stop(1)
    assert ended.attempts == 2


def test_a_replica_keeps_its_leases(store):
    """Longer than a lease lasts, beside another one."""
    operation = submit(store)
    first, second = replica(store, Stuck(), 0.4), replica(store, Stuck(), 0.4)
    time.sleep(1.2)
    found = store.queue.get("us", operation.id)
    assert (found.state, found.attempts) == (State.RUNNING, 1)
    first.stop(0)
    second.stop(0)


def test_another_replica_cancels(store):
    """The one that runs it hears of it from the store."""
    operation = submit(store, ENDLESS_BUDGET, endless(), target_gap=0.0)
    running = replica(store, ThreadPool())
    wait_for(store, operation, State.RUNNING)
    store.queue.cancel("us", operation.id)
    ended = wait_for(store, operation, State.CANCELLED)
    running.stop(1)
    assert ended.owner is None


def test_a_failure_is_a_problem(store):
    """The operation has it, by the class of the error."""
    operation = submit(store)
    running = replica(store, Broken())
    ended = wait_for(store, operation, State.FAILED)
    running.stop(1)
    assert ended.error["type"] == "/problems/internal-error"
    assert ended.error["detail"] == "the solve's process ended"


def test_a_bug_of_a_worker_ends_its_operation(store):
    """It does not wait for ever; what went wrong is in the log alone."""
    operation = submit(store)
    running = replica(store, Buggy())
    ended = wait_for(store, operation, State.FAILED)
    running.stop(1)
    assert ended.error["type"] == "/problems/internal-error"
    assert "hunter2" not in ended.error["detail"]


def test_a_graph_that_is_gone_is_a_problem(store):
    """An operation does not wait for ever for what it needs."""
    request = {"budget_bytes": 1, "reserve_bytes": 0, "options": options()}
    asked = Submission("us", "plan", "sha256:" + "0" * 64, "k", "s", "me", request)
    operation, _ = store.queue.submit(asked, ROOM)
    running = replica(store, ThreadPool())
    ended = wait_for(store, operation, State.FAILED)
    running.stop(1)
    assert ended.error["type"] == "/problems/not-found-error"


def test_many_requests_of_few_graphs_are_few_solves(url):
    """60 of 6 through two servers: 6 solves, 60 answers, nothing wrong in the store."""
    pools = ThreadPool(slots=2), ThreadPool(slots=2)
    graphs = [sized(n) for n in range(6)]
    with (
        serving(Store.open(url), SOON, pools[0]) as one,
        serving(Store.open(url), SOON, pools[1]) as two,
    ):

        def ask(n):
            server = (one, two)[n % 2]
            graph = graphs[n // 2 % 6]
            with server.client() as client:
                body = {"graph": graph, "budget": "peak*0.9"}
                headers = {"Prefer": "wait=60"}
                return client.post("/v1/plans", json=body, headers=headers)

        with ThreadPoolExecutor(12) as threads:
            responses = list(threads.map(ask, range(60)))
        assert [response.status_code for response in responses] == [200] * 60
        found = {response.json()["plan"] for response in responses}
        assert len(found) == len({one["name"] for one in graphs}) == 6
        assert len(pools[0].jobs) + len(pools[1].jobs) == 6
        assert list(one.store.upkeep.faults()) == []


def sized(number):
    """Return the chain as a document, told apart by the size of its input."""
    graph = chain()
    first = Value(0, 1 + number, Kind.INPUT, resident=True, name="x")
    named = replace(graph, name=f"chain {number}", values=(first, *graph.values[1:]))
    return json.loads(graph_to_json(named))
