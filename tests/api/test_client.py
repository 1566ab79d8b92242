"""The client against a small service of real sockets that answers as it is told."""

import asyncio
import hashlib
import json
import logging
from dataclasses import replace

import pytest

from cli_chain import SMALLEST, SMALLEST_STEPS, chain, plan_of
from encamp import errors
from encamp.api.client import AsyncClient, Client, Search, read_key
from encamp.api.client.exchange import Lost, Patience, Reply
from encamp.check import Rule
from encamp.wire import graph_to_json
from small_service import SmallService, serving

GRAPH = chain()
DIGEST = f"sha256:{hashlib.sha256(graph_to_json(GRAPH).encode()).hexdigest()}"
OPERATION = "op_" + "1" * 28
PROGRESS = {
    "stage": "cut",
    "seconds": 0.5,
    "duration_ns": 120,
    "lower_bound_ns": 100,
    "unplanned_ns": 80,
    "gap": 0.25,
    "budget_bytes": 405,
    "at_ms": 1,
}


class _Awaited:
    """An async client behind the blocking client's methods: one set of tests for both.

    Each call runs a loop of its own, so connections are closed after each.
    """

    def __init__(self, *args, **kwargs):
        self._made = args, kwargs

    def __getattr__(self, name):
        def call(*args, **kwargs):
            async def talk():
                made, named = self._made
                async with AsyncClient(*made, **named) as client:
                    return await getattr(client, name)(*args, **kwargs)

            return asyncio.run(talk())

        return call

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.fixture(params=[Client, _Awaited], ids=["blocking", "async"])
def make(request):
    """Return either client's class."""
    return request.param


@pytest.fixture
def service():
    """Return a service that knows the chain's plan at 405 bytes."""
    known = SmallService()
    known.plan = plan_of(GRAPH, SMALLEST_STEPS, SMALLEST)
    return known


@pytest.fixture
def client(service, make, monkeypatch):
    """Return a client of it that does not dawdle."""
    monkeypatch.delenv("ENCAMP_KEY", raising=False)
    monkeypatch.setattr(Patience, "pause", lambda *_: 0.0)
    with serving(service) as address, make(address, timeout_s=5) as made:
        yield made


class TestPlanning:
    def test_a_graph_is_uploaded_once(self, service, client):
        """HEAD says that it is missing, PUT sends it; the second time HEAD finds it."""
        first, second = client.plan(GRAPH, 405), client.plan(GRAPH, 405)

        assert first == second == service.plan
        assert service.asked.count(f"HEAD /v1/graphs/{DIGEST}") == 2
        assert service.asked.count(f"PUT /v1/graphs/{DIGEST}") == 1
        assert service.graphs[DIGEST] == graph_to_json(GRAPH).encode()

    def test_what_is_asked(self, service, client):
        """The digest, not the graph; the budget as written; only what was chosen."""
        search = Search(
            seed=3, time_limit_s=0.0, keep=("module:h.*",), fixed_order=True
        )

        service.plan = plan_of(GRAPH, range(7), 508)

        client.plan(GRAPH, "peak*1.0", reserve="0B", search=search)

        (posted,) = [
            (json.loads(body), {k.lower(): v for k, v in headers.items()})
            for asked, body, headers in zip(
                service.asked, service.bodies, service.headers, strict=True
            )
            if asked == "POST /v1/plans"
        ]
        assert posted[0] == {
            "graph": DIGEST,
            "budget": "peak*1.0",
            "reserve": "0B",
            "options": {
                "seed": 3,
                "time_limit_s": 0.0,
                "keep": ["module:h.*"],
                "fixed_order": True,
            },
        }
        assert posted[1]["prefer"] == "wait=20"

    def test_an_operation_is_waited_for(self, service, client):
        """202 leads to the operation, which is asked for until it has ended."""
        service.running = True
        begun = []

        def note(operation):
            begun.append((operation.id, operation.done))
            service.ended.set()

        assert client.plan(GRAPH, 405, begun=note) == service.plan
        assert begun == [(OPERATION, False)]
        assert f"GET /v1/operations/{OPERATION}?wait=20" in service.asked

    def test_progress_is_streamed_and_resumed(self, service, client):
        """A stream that breaks off goes on after its last event."""
        service.running = True
        second = PROGRESS | {"stage": "cp-sat", "duration_ns": 110}
        service.events = [
            [(1, "state", {"state": "running"}), (2, "progress", PROGRESS)],
            [(3, "progress", second), (4, "state", {"state": "succeeded"})],
        ]
        told = []

        assert client.plan(GRAPH, 405, listener=told.append) == service.plan
        assert [(event.stage, event.duration_ns) for event in told] == [
            ("cut", 120),
            ("cp-sat", 110),
        ]
        assert told[0].gap == 0.25
        streams = [
            headers.get("last-event-id")
            for asked, headers in zip(service.asked, service.headers, strict=True)
            if asked.endswith("/events")
        ]
        assert streams == [None, "2"]

    def test_waiting_may_end(self, service, client):
        """The caller's patience is not the operation's."""
        service.running = True

        with pytest.raises(errors.NoPlanError, match=rf"{OPERATION} goes on"):
            client.plan(GRAPH, 405, within_s=0)

    def test_infeasible_comes_with_its_figures(self, service, client):
        """The same exception as in process, with the op at the peak."""
        service.result = {
            "status": "infeasible",
            "message": "no schedule of 'chain' fits 404 B",
            "budget_bytes": 404,
            "reserve_bytes": 0,
            "smallest_bytes": 405,
            "bound_bytes": 405,
            "peak": {
                "op": "b3",
                "module": "layer3",
                "source": None,
                "values": ["g2: 101 B"],
                "bytes": 405,
            },
        }

        with pytest.raises(errors.InfeasibleError) as caught:
            client.plan(GRAPH, 404)

        assert (caught.value.smallest_bytes, caught.value.site.op) == (405, "b3")

    def test_a_plan_that_breaks_a_rule_is_not_used(self, service, client):
        """A step that reads what no step made: the graph in hand says so."""
        service.plan = replace(service.plan, steps=(1, 0, 2, 3, 4, 0, 1, 5, 0, 6))

        with pytest.raises(errors.ServiceError, match="breaks a rule"):
            client.plan(GRAPH, 405)

    def test_a_plan_for_another_budget_is_not_used(self, client):
        """A sound plan of 405 bytes is no answer to who asked for 404."""
        with pytest.raises(errors.ServiceError, match="405 bytes, not 404"):
            client.plan(GRAPH, 404)
        with pytest.raises(errors.ServiceError, match="reserve of 0 bytes, not 1"):
            client.plan(GRAPH, 405, reserve=1)

    def test_a_budget_that_does_not_parse_is_not_sent(self, service, client):
        """It is refused as it is in process."""
        with pytest.raises(errors.UnitError, match="16GX"):
            client.plan(GRAPH, "16GX")

        assert service.asked == []

    def test_a_plan_of_another_digest_is_not_used(self, service, client):
        """What was changed on its way, or mixed up, is refused."""
        service.result = service.answer() | {"plan": "sha256:" + "2" * 64}

        with pytest.raises(errors.ServiceError, match="was asked for"):
            client.plan(GRAPH, 405)

    def test_a_sweep(self, service, client):
        """Each of its points is a plan."""
        digest = service.answer()["plan"]
        service.result = {
            "status": "solved",
            "points": [{"plan": digest}],
            "bound_bytes": 405,
            "missed_bytes": [404],
            "knee": 0,
        }

        found = client.sweep(GRAPH, [404, 405])

        assert found.plans == (service.plan,)
        assert (found.bound_bytes, found.missed_bytes, found.knee) == (405, (404,), 0)


class TestRefusals:
    @pytest.mark.parametrize(
        ("slug", "status", "kind"),
        [
            ("option-error", 422, errors.OptionError),
            ("unit-error", 422, errors.UnitError),
            ("stale-plan-error", 409, errors.StalePlanError),
            ("no-plan-error", 422, errors.NoPlanError),
            ("forbidden-error", 403, errors.ForbiddenError),
            ("too-large-error", 413, errors.TooLargeError),
            ("internal-error", 500, errors.ServiceError),
            ("not-invented-yet", 422, errors.ServiceError),
        ],
    )
    @pytest.mark.parametrize("running", [False, True], ids=["at once", "later"])
    def test_problems_are_our_exceptions(
        self, service, client, slug, status, kind, running
    ):
        """Of a request, and of an operation that failed."""
        service.running = running
        service.problem = {
            "type": f"/problems/{slug}",
            "status": status,
            "detail": "because",
        }
        if running:
            service.ended.set()

        with pytest.raises(kind, match="because") as caught:
            client.plan(GRAPH, 405)

        assert type(caught.value) is kind

    def test_the_place_of_a_fault_is_kept(self, service, client):
        """A document's fault comes with its path."""
        service.problem = {
            "type": "/problems/wire-error",
            "status": 422,
            "detail": "graph: $.ops[0]: missing field",
            "errors": [{"path": "$.graph.ops[0]", "detail": "missing field"}],
        }

        with pytest.raises(errors.WireError) as caught:
            client.plan(GRAPH, 405)

        assert caught.value.at == "$.graph.ops[0]"

    def test_what_is_no_service_says_so(self, service, client):
        """Some other server's page."""
        service.failures = [(200, {}), (200, {})]

        with pytest.raises(errors.ServiceError, match="the document is empty"):
            client.plan(GRAPH, 405)

    def test_a_redirect_is_not_followed(self, service, client):
        """A key goes to the service it was given for and nowhere else."""
        service.failures = [(307, {"location": "http://127.0.0.1:9/elsewhere"})]

        with pytest.raises(errors.ServiceError, match="307"):
            client.plan(GRAPH, 405)


class TestSendingAgain:
    @pytest.mark.parametrize("failure", [(503, {}), (429, {}), (502, {}), None])
    def test_what_passes_is_tried_again(self, service, client, failure):
        """A busy service, a proxy without one, a connection that broke."""
        service.failures = [failure] * 4

        assert client.plan(GRAPH, 405) == service.plan

    def test_busy_for_too_long(self, service, client):
        """The fifth refusal is the answer."""
        service.failures = [(429, {"retry-after": "7"})] * 5

        with pytest.raises(errors.BusyError) as caught:
            client.plan(GRAPH, 405)

        assert (caught.value.own, caught.value.retry_after_s) == (True, 7)

    def test_nobody_there(self, make):
        """A closed port of this machine, tried twice."""
        with serving(SmallService()) as address:
            pass

        with (
            make(address, attempts=2, timeout_s=1) as client,
            pytest.raises(errors.UnreachableError, match="tried 2 times"),
        ):
            client.version()

    def test_pauses_grow_and_differ(self):
        """From half to whole of 0.5, 1, 2, 4 seconds, at most a minute."""
        patience, reply = Patience(), Reply(503, {}, b"")

        for attempt in range(4):
            longest = 0.5 * 2**attempt
            pauses = {patience.pause(attempt, reply) for _ in range(20)}
            assert len(pauses) > 1
            assert all(longest / 2 <= pause <= longest for pause in pauses)
        assert patience.pause(30, Lost("gone")) <= 60.0

    @pytest.mark.parametrize(
        ("header", "seconds"),
        [("3", 3.0), ("0", 0.0), ("86400", 60.0), ("Tue, 01 Jan 2019 00:00:00 GMT", 0)],
    )
    def test_the_service_says_when(self, header, seconds):
        """As seconds or as a date, a minute at most."""
        assert Patience().pause(0, Reply(503, {"retry-after": header}, b"")) == seconds


class TestRest:
    def test_check(self, service, client):
        """The service's own check of a plan."""
        (violation,) = client.check(GRAPH, service.plan)

        assert (violation.kind, violation.step) == (Rule.OVER_BUDGET, 3)

    def test_operations(self, service, client):
        """Look, cancel, delete."""
        service.running = True

        assert client.operation(OPERATION).state == "running"
        assert client.cancel(OPERATION).done
        assert client.delete(OPERATION) is None
        assert client.version() == {"encamp": "0.1.0"}


class TestKeys:
    def test_the_key_is_sent(self, service, client, monkeypatch):
        """From the environment; without it the service refuses."""
        service.key = "ek_secret"
        with pytest.raises(errors.UnauthorizedError):
            client.plan(GRAPH, 405)

        monkeypatch.setenv("ENCAMP_KEY", "ek_secret")
        if isinstance(client, Client):
            with Client(client.server) as keyed:
                assert keyed.plan(GRAPH, 405) == service.plan
        else:
            assert client.plan(GRAPH, 405) == service.plan

    def test_it_is_never_shown(self, service, make, caplog):
        """Not in logs at any level, not in errors, not in what the client prints."""
        caplog.set_level(logging.DEBUG)
        service.key = "ek_another"
        with serving(service) as address, make(address, key="ek_secret") as client:
            with pytest.raises(errors.UnauthorizedError) as caught:
                client.version()
            shown = [repr(Client(address, key="ek_secret")), str(caught.value)]

        assert service.headers[-1]["authorization"] == "Bearer ek_secret"
        assert not [text for text in (*shown, caplog.text) if "ek_secret" in text]

    def test_a_key_file(self, tmp_path, monkeypatch):
        """It goes before the environment; a line end does not matter."""
        monkeypatch.setenv("ENCAMP_KEY", "ek_of_the_environment")
        (tmp_path / "key").write_text("ek_of_the_file\n")

        assert read_key(tmp_path / "key") == "ek_of_the_file"
        assert read_key() == "ek_of_the_environment"

    @pytest.mark.parametrize("content", ["", " \n", "two words", "zwölf"])
    def test_a_file_without_a_key(self, tmp_path, content):
        """What it holds is not shown: it may be a secret all the same."""
        (tmp_path / "key").write_text(content)

        with pytest.raises(errors.OptionError, match="holds no API key") as caught:
            read_key(tmp_path / "key")

        assert not content.strip() or content.strip() not in str(caught.value)

    def test_no_such_file(self, tmp_path):
        """The message names it."""
        with pytest.raises(errors.OptionError, match="cannot be read: No such file"):
            read_key(tmp_path / "key")

    @pytest.mark.parametrize(
        "server",
        ["plans.example.org", "ftp://x", "http://", "http://u:p@x", "http://x?k=1"],
    )
    def test_an_address_that_is_none(self, server):
        """Neither a key nor anything else goes into it."""
        with pytest.raises(errors.OptionError) as caught:
            Client(server)

        assert "u:p" not in str(caught.value)
