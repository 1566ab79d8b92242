import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import update

from encamp.api.operations import MAX_ATTEMPTS, Happening, State
from encamp.api.store import Answer, Retention, Room, Scope, Store, Submission
from encamp.api.store.tables import metadata, plans
from encamp.errors import (
    BusyError,
    ConflictError,
    NotFoundError,
    OptionError,
    StoreError,
)
from encamp.wire import graph_to_json, plan_to_json
from graphs import CHAIN_RECOMPUTED, chain, plan_of

ROOM = Room(queued=100, per_requester=100)
DAY_MS = 86_400_000


def asked(slot: str = "a", *, tenant: str = "us", requester: str = "k") -> Submission:
    """Return a submission that holds a slot."""
    graph, key = "sha256:" + "0" * 64, "sha256:" + "1" * 64
    return Submission(tenant, "plan", graph, key, slot, requester, {"budget_bytes": 7})


def put_chain(store: Store, tenant: str = "us") -> str:
    """Store the chain and return its digest."""
    graph = chain()
    return store.documents.put_graph(tenant, graph_to_json(graph).encode(), graph)


def put_plan(store: Store, graph: str, tenant: str = "us") -> str:
    """Store a plan of the chain and return its digest."""
    plan = plan_of(chain(), CHAIN_RECOMPUTED, budget_bytes=50)
    with store.database.writing() as connection:
        return store.documents.put_plan(connection, tenant, graph, plan)


def end(store, operation, owner, happening, **documents):
    """End an operation as its owner does."""
    with store.database.writing() as connection:
        return store.queue.end(connection, operation.id, owner, happening, **documents)


def test_migrations_make_the_tables_of_the_code(store):
    """Alembic finds no difference."""
    with store.database.reading() as connection:
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, metadata) == []


def test_opening_again_finds_everything(store, url):
    """Migrating what is up to date changes nothing."""
    digest = put_chain(store)
    again = Store.open(url)
    assert again.documents.graph("us", digest) is not None
    again.close()


def test_a_graph_is_named_by_its_own_bytes(store):
    """The digest is what sha256sum says of the file."""
    content = graph_to_json(chain()).encode()
    digest = put_chain(store)
    assert digest == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert store.documents.graph("us", digest) == content
    entry = store.documents.graph_entry("us", digest)
    assert (entry.name, entry.num_ops) == ("chain", 6)
    assert entry.json_bytes == len(content)


def test_tenants_see_nothing_of_each_other(store):
    """Not by digest, by id, in a page or in flight."""
    graph = put_chain(store)
    plan = put_plan(store, graph)
    operation, _ = store.queue.submit(asked(), ROOM)
    assert store.documents.graph("them", graph) is None
    assert store.documents.plan("them", plan) is None
    assert store.queue.get("them", operation.id) is None
    assert store.queue.cancel("them", operation.id) is None
    assert not store.queue.remove("them", operation.id)
    assert store.queue.page("them", 10, None, None) == []
    theirs, new = store.queue.submit(asked(tenant="them"), ROOM)
    assert new
    assert theirs.id != operation.id


def test_a_plan_comes_back_as_it_was_written(store):
    """Byte for byte."""
    plan = plan_of(chain(), CHAIN_RECOMPUTED, budget_bytes=50)
    digest = put_plan(store, put_chain(store))
    assert store.documents.plan("us", digest) == plan_to_json(plan).encode()


def test_the_newest_answer_is_kept(store):
    """A later answer takes the place of the first."""
    key, graph = "sha256:" + "2" * 64, put_chain(store)
    first = Answer(key, "plan", graph, "{}", None, final=False, spent_ms=10)
    second = replace(first, result='{"a": 1}', final=True)
    for answer in (first, second):
        with store.database.writing() as connection:
            store.documents.put_answer(connection, "us", answer)
        assert store.documents.answer("us", key) == answer


def test_a_timed_answer_serves_no_longer_search():
    """It serves a search of its own time at most."""
    timed = Answer("k", "plan", "g", "{}", None, final=False, spent_ms=1000)
    assert timed.serves(1000)
    assert not timed.serves(1001)
    assert not timed.serves(None)
    assert replace(timed, final=True).serves(None)


def test_the_same_in_flight_is_one_operation(store):
    """By its slot."""
    first, new = store.queue.submit(asked(), ROOM)
    second, again = store.queue.submit(asked(), ROOM)
    assert (new, again) == (True, False)
    assert second.id == first.id
    other, _ = store.queue.submit(asked("b"), ROOM)
    assert other.id != first.id


def test_the_same_submitted_at_once_is_one_operation(store):
    """40 submissions of 5 make 5."""
    slots = [str(n % 5) for n in range(40)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda s: store.queue.submit(asked(s), ROOM), slots))
    assert len({operation.id for operation, _ in found}) == 5
    assert sum(new for _, new in found) == 5


def test_once_ended_the_same_is_a_new_operation(store):
    """An operation that ended frees its slot."""
    first, _ = store.queue.submit(asked(), ROOM)
    store.queue.cancel("us", first.id)
    second, new = store.queue.submit(asked(), ROOM)
    assert new
    assert second.id != first.id


def test_each_is_claimed_once(store):
    """Whoever else claims at the same moment."""
    for slot in range(10):
        store.queue.submit(asked(str(slot)), ROOM)
    with ThreadPoolExecutor(4) as pool:
        owners = [f"r{n}" for n in range(4)]
        claimed = pool.map(lambda o: store.queue.claim(o, 4, 1000), owners)
        names = [operation.id for taken in claimed for operation in taken]
    names += [operation.id for operation in store.queue.claim("last", 10, 1000)]
    assert len(names) == len(set(names)) == 10


def test_the_oldest_is_claimed_first(store, hands):
    """The queue is first in, first out."""
    names = []
    for slot in "abc":
        names.append(store.queue.submit(asked(slot), ROOM)[0].id)
        hands.now += 1
    taken = store.queue.claim("r", 2, 1000)
    assert [operation.id for operation in taken] == names[:2]
    assert {operation.state for operation in taken} == {State.RUNNING}


def test_an_answer_ends_its_operation(store):
    """Its lease ends, and three events tell its life."""
    store.queue.submit(asked(), ROOM)
    (operation,) = store.queue.claim("r", 1, 1000)
    ended = end(store, operation, "r", Happening.SUCCEED, result={"status": "optimal"})
    assert ended.state is State.SUCCEEDED
    assert ended.result == {"status": "optimal"}
    assert (ended.owner, ended.lease_ms) == (None, None)
    kinds = [(e.number, e.kind, e.data) for e in store.queue.events(operation.id)]
    assert kinds == [
        (1, "state", {"state": "queued"}),
        (2, "state", {"state": "running"}),
        (3, "state", {"state": "succeeded"}),
    ]


def test_what_a_cancelled_solve_found_is_kept(store):
    """The owner hears of it by its heartbeat."""
    store.queue.submit(asked(), ROOM)
    (operation,) = store.queue.claim("r", 1, 1000)
    assert store.queue.cancel("us", operation.id).state is State.CANCELLING
    assert store.queue.cancel("us", operation.id).state is State.CANCELLING
    assert store.queue.beat("r", 1000, [operation.id]) == {
        operation.id: State.CANCELLING
    }
    ended = end(store, operation, "r", Happening.SUCCEED, result={"plan": "x"})
    assert ended.state is State.CANCELLED
    assert ended.result == {"plan": "x"}
    assert store.queue.cancel("us", operation.id).state is State.CANCELLED


def test_a_lease_that_ran_out_is_taken_over(store, hands):
    """And the former owner changes nothing any more."""
    store.queue.submit(asked(), ROOM)
    (operation,) = store.queue.claim("dead", 1, 1000)
    hands.now += 999
    assert store.queue.beat("dead", 1000, [operation.id]) == {
        operation.id: State.RUNNING
    }
    hands.now += 1000
    assert store.queue.take_back() == []
    hands.now += 1
    assert [taken.state for taken in store.queue.take_back()] == [State.QUEUED]
    (again,) = store.queue.claim("alive", 1, 1000)
    assert (again.id, again.attempts) == (operation.id, 2)
    # The one that was taken for dead wakes up: nothing it says counts.
    assert not store.queue.note(operation.id, "dead", [("progress", {})])
    assert end(store, operation, "dead", Happening.SUCCEED) is None
    assert store.queue.beat("dead", 1000, [operation.id]) == {}
    assert store.queue.get("us", operation.id).state is State.RUNNING


def test_a_worker_lost_too_often_fails_its_operation(store, hands):
    """The error says what became of it."""
    store.queue.submit(asked(), ROOM)
    for _ in range(MAX_ATTEMPTS):
        store.queue.claim("r", 1, 1000)
        hands.now += 1001
        (last,) = store.queue.take_back()
    assert last.state is State.FAILED
    assert "the worker was lost" in last.error["detail"]


def test_handing_back_costs_no_attempt(store):
    """A restart of a replica is no crash of a solve."""
    store.queue.submit(asked(), ROOM)
    for _ in range(MAX_ATTEMPTS + 1):
        store.queue.claim("r", 1, 1000)
        (back,) = store.queue.take_back("r")
        assert (back.state, back.attempts) == (State.QUEUED, 0)


def test_a_cancelled_operation_of_a_dead_replica_ends(store, hands):
    """Nobody has to run it again."""
    store.queue.submit(asked(), ROOM)
    (operation,) = store.queue.claim("r", 1, 1000)
    store.queue.cancel("us", operation.id)
    hands.now += 1001
    assert [taken.state for taken in store.queue.take_back()] == [State.CANCELLED]


def test_progress_is_noted_in_order(store):
    """Events are numbered, and the last one is shown."""
    store.queue.submit(asked(), ROOM)
    (operation,) = store.queue.claim("r", 1, 1000)
    notes = [("progress", {"gap": 0.5}), ("progress", {"gap": 0.1})]
    assert store.queue.note(operation.id, "r", notes)
    after = store.queue.events(operation.id, after_number=3)
    assert [(event.number, event.data) for event in after] == [(4, {"gap": 0.1})]
    assert store.queue.get("us", operation.id).progress == {"gap": 0.1}
    assert store.queue.marks([operation.id, "none"]) == {
        operation.id: (State.RUNNING, 4)
    }


def test_a_full_queue_takes_no_more_but_what_it_has(store):
    """Joining one in flight takes no room."""
    store.queue.submit(asked("a"), Room(queued=1, per_requester=9))
    with pytest.raises(BusyError, match="1 operations wait already") as raised:
        store.queue.submit(asked("b"), Room(queued=1, per_requester=9))
    assert (raised.value.own, raised.value.retry_after_s) == (False, 5)
    _, new = store.queue.submit(asked("a"), Room(queued=1, per_requester=9))
    assert not new


def test_one_key_leaves_room_for_another(store):
    """The limit of one is no limit of the other."""
    room = Room(queued=9, per_requester=1)
    store.queue.submit(asked("a"), room)
    with pytest.raises(BusyError, match="of this key") as raised:
        store.queue.submit(asked("b"), room)
    assert raised.value.own
    store.queue.submit(asked("b", requester="other"), room)


def test_pages_go_from_new_to_old(store, hands):
    """Without one twice, and by state where asked."""
    names = []
    for slot in "abcde":
        names.append(store.queue.submit(asked(slot), ROOM)[0].id)
        hands.now += 1
    first = store.queue.page("us", 2, None, None)
    second = store.queue.page("us", 9, first[-1].id, None)
    assert [o.id for o in (*first, *second)] == names[::-1]
    store.queue.cancel("us", names[0])
    assert [o.id for o in store.queue.page("us", 9, None, State.CANCELLED)] == [
        names[0]
    ]


def test_what_has_not_ended_is_not_removed(store):
    """Removing takes its events along."""
    operation, _ = store.queue.submit(asked(), ROOM)
    with pytest.raises(ConflictError, match="is queued; cancel it first"):
        store.queue.remove("us", operation.id)
    store.queue.cancel("us", operation.id)
    assert store.queue.remove("us", operation.id)
    assert store.queue.get("us", operation.id) is None
    assert store.queue.events(operation.id) == []


def test_depths_count_what_is_in_flight(store):
    """By state."""
    store.queue.submit(asked("a"), ROOM)
    store.queue.submit(asked("b"), ROOM)
    store.queue.claim("r", 1, 1000)
    assert store.queue.depths() == {
        State.QUEUED: 1,
        State.RUNNING: 1,
        State.CANCELLING: 0,
    }


def test_a_key_is_known_by_its_text_until_revoked(store):
    """And the store does not hold its secret."""
    key, text = store.keys.create("ci", {Scope.READ}, "us")
    assert store.keys.find(text) == key
    assert store.keys.find(text[:-1]) is None
    assert store.keys.find("nonsense") is None
    assert store.keys.find(f"ek_{key.id}_\udcff") is None
    assert text.partition("_")[2].partition("_")[2] not in str(store.keys.all())
    assert store.keys.revoke(key.id).revoked_ms is not None
    assert store.keys.find(text) is None
    with pytest.raises(NotFoundError, match="no key has the id 'none'"):
        store.keys.revoke("none")


def test_a_key_needs_a_scope_and_a_tenant(store):
    """The message names the scopes, and the tenant."""
    with pytest.raises(OptionError, match="needs a scope"):
        store.keys.create("x", set())
    with pytest.raises(OptionError, match="not a tenant: 'A b'"):
        store.keys.create("x", {Scope.READ}, "A b")


def test_old_documents_go_and_a_dry_run_leaves_them(store, hands):
    """A dry run counts what would go."""
    plan = put_plan(store, put_chain(store))
    operation, _ = store.queue.submit(asked(), ROOM)
    store.queue.cancel("us", operation.id)
    keep = Retention(operations_days=7, documents_days=90)
    assert store.upkeep.collect(keep).operations == 0
    hands.now += 91 * DAY_MS
    would = store.upkeep.collect(keep, dry_run=True)
    assert (would.operations, would.plans, would.graphs) == (1, 1, 1)
    assert store.queue.get("us", operation.id) is not None
    assert store.upkeep.collect(keep) == would
    assert would.blob_bytes > 0
    assert store.queue.get("us", operation.id) is None
    assert store.documents.plan("us", plan) is None


def test_what_is_used_stays_with_what_it_needs(store, hands):
    """A plan that is read keeps its graph."""
    graph = put_chain(store)
    plan = put_plan(store, graph)
    hands.now += 91 * DAY_MS
    assert store.documents.plan("us", plan) is not None
    removed = store.upkeep.collect(Retention())
    assert (removed.plans, removed.graphs) == (0, 0)
    assert store.documents.graph("us", graph) is not None


def test_a_whole_store_has_no_faults(store):
    """Documents, plans and leases are as they should be."""
    put_plan(store, put_chain(store))
    store.queue.submit(asked(), ROOM)
    store.queue.claim("r", 1, 1000)
    assert list(store.upkeep.faults()) == []


def test_damage_is_found(store):
    """When it is read, and by the check."""
    plan = put_plan(store, put_chain(store))
    with store.database.writing() as connection:
        connection.execute(update(plans).values(blob=b"rubbish"))
    with pytest.raises(StoreError, match="damaged"):
        store.documents.plan("us", plan)
    (fault,) = store.upkeep.faults()
    assert plan in fault


def test_a_plan_without_its_graph_is_a_fault(store):
    """It could not be checked."""
    plan = put_plan(store, "sha256:" + "9" * 64)
    (fault,) = store.upkeep.faults()
    assert fault.startswith(f"plan {plan}")
    assert "is not there" in fault


def test_other_databases_are_refused(tmp_path):
    """With what to write instead."""
    for url, message in (
        ("mysql://x/y", "'mysql'"),
        ("nonsense", "does not parse"),
    ):
        with pytest.raises(OptionError, match=message):
            Store.open(url)
    missing = tmp_path / "no" / "folder" / "x.db"
    with pytest.raises(StoreError, match="cannot be opened"):
        Store.open(f"sqlite:///{missing}")


def test_a_password_is_not_in_the_message():
    """Nor anywhere else."""
    url = "postgresql://me:hunter2@127.0.0.1:1/none?connect_timeout=1"
    with pytest.raises(StoreError) as raised:
        Store.open(url)
    assert "hunter2" not in str(raised.value)
