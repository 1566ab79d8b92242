import hashlib
import json
import time

import pytest
import zstandard
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from encamp.api.routes import about
from encamp.api.settings import Caps, Settings
from encamp.api.store import Store
from encamp.check import check
from encamp.wire import graph_to_json, plan_from_json
from graphs import CHAIN_PEAK, CHAIN_RECOMPUTED, chain, with_op
from requests_to_plan import ENDLESS_BUDGET, endless
from serving import serving

pytestmark = pytest.mark.usefixtures("compiled")

CHAIN = graph_to_json(chain()).encode()
DIGEST = f"sha256:{hashlib.sha256(CHAIN).hexdigest()}"
NOWHERE = "sha256:" + "0" * 64
WAIT = {"Prefer": "wait=30"}
ENDLESS = {
    "budget": ENDLESS_BUDGET,
    "options": {"target_gap": 0.0, "time_limit_s": 120},
}


@pytest.fixture
def server(tmp_path):
    """Give a server over an empty store."""
    with serving(Store.open(f"sqlite:///{tmp_path / 'store.db'}")) as running:
        yield running


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """Give one server for all tests that leave it as it was."""
    folder = tmp_path_factory.mktemp("quick")
    with serving(Store.open(f"sqlite:///{folder / 'store.db'}")) as running:
        yield running


@pytest.fixture
def client(server):
    """Give a client of the server, which holds the chain."""
    with server.client() as client:
        assert client.put(f"/v1/graphs/{DIGEST}", content=CHAIN).status_code == 201
        yield client


def plan_chain(client, budget=43, **more):
    """Ask for a plan of the chain and wait for it."""
    body = {"graph": DIGEST, "budget": budget, **more}
    return client.post("/v1/plans", json=body, headers=WAIT)


def ask_endless(client, **more):
    """Ask for a plan of the endless graph; return the operation."""
    body = {"graph": json.loads(graph_to_json(endless())), **ENDLESS, **more}
    response = client.post("/v1/plans", json=body)
    assert response.status_code == 202
    return response.json()


def wait_for_plan(client, operation):
    """Wait until an operation shows a plan."""
    while True:
        found = client.get(f"/v1/operations/{operation}").json()
        if found["progress"] and found["progress"]["duration_ns"]:
            return
        assert not found["done"], found
        time.sleep(0.02)


class TestGraphs:
    def test_are_stored_once_and_come_back(self, server):
        """201, then 200; a client asks by HEAD whether it need upload at all."""
        path = f"/v1/graphs/{DIGEST}"
        with server.client() as client:
            assert client.head(path).status_code == 404
            first = client.put(path, content=CHAIN)
            assert (first.status_code, first.json()["unplanned_peak_bytes"]) == (
                201,
                CHAIN_PEAK,
            )
            assert client.put(path, content=CHAIN).status_code == 200
            assert client.head(path).status_code == 200
            assert client.get(path).content == CHAIN

    @pytest.mark.parametrize("header", ["content-type", "content-encoding"])
    def test_may_be_compressed(self, server, header):
        """The digest is that of the JSON."""
        text = "application/zstd" if header == "content-type" else "zstd"
        packed = zstandard.compress(CHAIN)
        with server.client(**{header: text}) as client:
            response = client.put(f"/v1/graphs/{DIGEST}", content=packed)
        assert response.status_code == 201

    def test_of_another_digest_are_refused(self, quick):
        """Both digests are named."""
        with quick.client() as client:
            response = client.put(f"/v1/graphs/{NOWHERE}", content=CHAIN)
        assert response.status_code == 422
        assert response.headers["content-type"] == "application/problem+json"
        problem = response.json()
        assert problem["type"] == "/problems/wire-error"
        assert DIGEST in problem["detail"]
        assert NOWHERE in problem["detail"]

    def test_that_are_none_name_the_place(self, quick):
        """Op 3 of the chain reads a value that is not there."""
        broken = json.loads(CHAIN)
        broken["ops"][3]["inputs"] = [4, 99]
        content = json.dumps(broken).encode()
        digest = hashlib.sha256(content).hexdigest()
        with quick.client() as client:
            put = client.put(f"/v1/graphs/sha256:{digest}", content=content)
            body = {"graph": broken, "budget": 43}
            posted = client.post("/v1/plans", json=body)
        assert put.json()["errors"][0]["path"] == "$.ops[3].inputs[1]"
        assert posted.json()["errors"][0]["path"] == "$.graph.ops[3].inputs[1]"


class TestPlans:
    def test_are_made_once_and_known_after(self, client, server):
        """43 bytes hold the chain; the second request starts no solve."""
        first, second = plan_chain(client), plan_chain(client)
        assert (first.status_code, second.status_code) == (200, 200)
        assert first.headers["preference-applied"] == "wait=30"
        assert first.json() == second.json()
        assert len(server.pool.jobs) == 1
        assert first.json()["status"] == "optimal"
        assert first.json()["final"]
        plan = plan_from_json(client.get(f"/v1/plans/{first.json()['plan']}").content)
        assert plan.steps == CHAIN_RECOMPUTED
        assert check(chain(), plan) == ()

    def test_take_an_operation_where_nobody_waits(self, client):
        """202 says where it is and when to ask again."""
        response = client.post("/v1/plans", json={"graph": DIGEST, "budget": 43})
        assert response.status_code == 202
        assert response.headers["retry-after"] == "1"
        where = response.headers["location"]
        assert where == f"/v1/operations/{response.json()['id']}"
        ended = client.get(where, params={"wait": 30}).json()
        assert (ended["state"], ended["done"]) == ("succeeded", True)
        assert ended["result"]["status"] == "optimal"

    def test_never_change_so_a_client_keeps_them(self, client):
        """Its ETag is its digest, and 304 answers who has it."""
        digest = plan_chain(client).json()["plan"]
        path = f"/v1/plans/{digest}"
        first = client.get(path)
        assert f"sha256:{hashlib.sha256(first.content).hexdigest()}" == digest
        assert first.headers["etag"] == f'"{digest}"'
        assert "immutable" in first.headers["cache-control"]
        for tag in (f'"{digest}"', f'"x", W/"{digest}"', "*"):
            again = client.get(path, headers={"If-None-Match": tag})
            assert (again.status_code, again.content) == (304, b"")
        other = client.get(path, headers={"If-None-Match": '"x"'})
        assert other.status_code == 200

    def test_that_fit_nothing_are_an_answer(self, client):
        """42 bytes hold no schedule: the answer has the 43 that do."""
        response = plan_chain(client, 42)
        assert response.status_code == 200
        result = response.json()
        assert result["status"] == "infeasible"
        assert (result["smallest_bytes"], result["bound_bytes"]) == (43, 43)
        assert result["peak"]["op"] == "third_back"

    def test_take_budgets_as_people_write_them(self, client):
        """The unplanned peak is 53, so peak*0.82 is 43."""
        result = plan_chain(client, "peak*0.82").json()
        assert result["summary"]["budget_bytes"] == 43

    def test_refuse_what_the_planner_would(self, client):
        """By the class of the error, before or after a solve."""
        for body, kind in (
            ({"budget": "lots"}, "unit-error"),
            ({"budget": "50%"}, "unit-error"),
            ({"budget": 43, "options": {"keep": ["aten.none"]}}, "option-error"),
            ({"budget": 43, "options": {"seed": -1}}, "option-error"),
            ({"budget": 43, "options": {"time_limit_s": 1e6}}, "option-error"),
            (
                {"budget": 43, "options": {"time_limit_s": 1, "work_limit": 1}},
                "option-error",
            ),
        ):
            response = client.post(
                "/v1/plans", json={"graph": DIGEST, **body}, headers=WAIT
            )
            assert response.status_code == 422, body
            assert response.json()["type"] == f"/problems/{kind}", response.json()

    def test_with_more_time_go_on_from_the_incumbent(self, client, server):
        """A plan of half a second does not answer who gives a whole one."""
        graph = json.loads(graph_to_json(endless()))
        body = {"graph": graph, **ENDLESS}
        results = []
        for seconds in (0.5, 0.25, 1.0):
            body["options"] = {"target_gap": 0.0, "time_limit_s": seconds}
            results.append(client.post("/v1/plans", json=body, headers=WAIT).json())
        first, shorter, longer = results
        assert not first["final"]
        assert shorter == first
        assert [job.start is None for job in server.pool.jobs] == [True, False]
        assert longer["summary"]["duration_ns"] <= first["summary"]["duration_ns"]

    def test_of_a_sweep_have_digests(self, client):
        """Each point's plan can be had by its own."""
        body = {"graph": DIGEST, "budgets": [CHAIN_PEAK, 43]}
        swept = client.post("/v1/plans:sweep", json=body, headers=WAIT).json()
        for point, budget in zip(swept["points"], (CHAIN_PEAK, 43), strict=True):
            plan = client.get(f"/v1/plans/{point['plan']}").json()
            assert plan["budget_bytes"] == budget

    def test_of_the_smallest_budget(self, client):
        """It is 43 bytes, proven."""
        found = client.post(
            "/v1/plans:min-budget", json={"graph": DIGEST}, headers=WAIT
        ).json()
        assert (found["budget_bytes"], found["final"]) == (43, True)

    def test_are_checked_by_digest_and_inline(self, client):
        """A plan of the chain passes; on another graph it does not."""
        digest = plan_chain(client).json()["plan"]
        whole = client.get(f"/v1/plans/{digest}").json()
        for plan in (digest, whole):
            body = {"graph": DIGEST, "plan": plan}
            assert client.post("/v1/plans:check", json=body).json() == {
                "valid": True,
                "violations": [],
            }
        slower = json.loads(graph_to_json(with_op(chain(), 0, duration_ns=101)))
        body = {"graph": slower, "plan": digest, "budget": 42}
        said = client.post("/v1/plans:check", json=body).json()
        kinds = {violation["kind"] for violation in said["violations"]}
        assert {"stated-duration", "over-budget"} <= kinds

    def test_over_time(self, client):
        """Op 0 runs again at step 4; 43 bytes are held at step 3."""
        digest = plan_chain(client).json()["plan"]
        timeline = client.get(f"/v1/plans/{digest}/timeline").json()
        steps = timeline["steps"]
        assert (timeline["peak_bytes"], timeline["peak_step"]) == (43, 3)
        assert [step["op"] for step in steps] == list(CHAIN_RECOMPUTED)
        assert (steps[4]["run"], steps[4]["start_ns"]) == (2, 1000)
        assert timeline["duration_ns"] == 2200

    def test_over_time_for_viewers(self, client):
        """A trace and a snapshot; other formats are refused by name."""
        digest = plan_chain(client).json()["plan"]
        path = f"/v1/plans/{digest}/timeline"
        traced = client.get(path, params={"format": "perfetto"})
        assert traced.json()["displayTimeUnit"] == "ms"
        drawn = client.get(path, params={"format": "memory_viz"})
        assert drawn.headers["content-type"] == "application/octet-stream"
        assert drawn.content[:2] == b"\x80\x04"
        wrong = client.get(path, params={"format": "csv"})
        assert wrong.status_code == 422
        assert "memory_viz" in wrong.json()["detail"]

    def test_beside_another(self, client):
        """The plan of 43 bytes runs op 0 once more, for 100 ns and 10 bytes less."""
        a, b = (plan_chain(client, n).json()["plan"] for n in (CHAIN_PEAK, 43))
        found = client.get(f"/v1/plans/{a}/diff/{b}").json()
        assert (found["same_structure"], found["more"], found["less"]) == (True, 1, 0)
        figures = {f["name"]: (f["before"], f["after"]) for f in found["figures"]}
        assert (2100, 2200) in figures.values()
        assert (53, 43) in figures.values()
        assert found["groups"][0]["name"] == "net.0"

    def test_beside_one_of_another_step(self, client):
        """Figures only, since op 0 of one is not op 0 of the other."""
        a = plan_chain(client).json()["plan"]
        body = {"graph": json.loads(graph_to_json(endless())), "budget": "1GB"}
        b = client.post("/v1/plans", json=body, headers=WAIT).json()["plan"]
        found = client.get(f"/v1/plans/{a}/diff/{b}").json()
        assert (found["same_structure"], found["groups"]) == (False, None)

    def test_that_are_not_here(self, quick):
        """404, by digest, by graph, for each view of them."""
        with quick.client() as client:
            for path in (
                f"/v1/plans/{NOWHERE}",
                f"/v1/plans/{NOWHERE}/timeline",
                f"/v1/plans/{NOWHERE}/diff/{NOWHERE}",
                f"/v1/graphs/{NOWHERE}",
                "/v1/operations/op_" + "0" * 28,
                "/v1/operations/op_" + "0" * 28 + "/events",
            ):
                response = client.get(path)
                assert response.status_code == 404
                assert response.json()["type"] == "/problems/not-found-error"
            body = {"graph": NOWHERE, "budget": 43}
            assert client.post("/v1/plans", json=body).status_code == 404


class TestOperations:
    def test_are_shared_by_the_same_requests(self, client, server):
        """Three requests, one operation, one solve."""
        found = {ask_endless(client)["id"] for _ in range(3)}
        assert len(found) == 1
        client.post(f"/v1/operations/{found.pop()}/cancel")
        assert len(server.pool.jobs) <= 1

    def test_cancelled_keep_what_was_found(self, client):
        """The plan is there, and no proof is claimed for it."""
        operation = ask_endless(client)["id"]
        wait_for_plan(client, operation)
        path = f"/v1/operations/{operation}"
        said = client.post(f"{path}/cancel").json()
        assert said["state"] in {"cancelling", "cancelled"}
        ended = client.get(path, params={"wait": 30}).json()
        assert ended["state"] == "cancelled"
        assert not ended["result"]["final"]
        content = client.get(f"/v1/plans/{ended['result']['plan']}").content
        assert check(endless(), plan_from_json(content)) == ()
        assert client.post(f"{path}/cancel").json()["state"] == "cancelled"

    def test_are_deleted_once_they_have_ended(self, client):
        """409 before, 204 then, 404 after; the plan stays."""
        operation = ask_endless(client)["id"]
        path = f"/v1/operations/{operation}"
        refused = client.delete(path)
        assert refused.status_code == 409
        assert refused.json()["type"] == "/problems/conflict-error"
        client.post(f"{path}/cancel")
        client.get(path, params={"wait": 30})
        assert client.delete(path).status_code == 204
        assert client.delete(path).status_code == 404

    def test_come_in_pages(self, client):
        """Newest first; a token leads to the next, a wrong one nowhere."""
        for budget in (53, 52, 51):
            plan_chain(client, budget)
        first = client.get("/v1/operations", params={"page_size": 2}).json()
        rest = {"page_size": 2, "page_token": first["next_page_token"]}
        second = client.get("/v1/operations", params=rest).json()
        found = first["operations"] + second["operations"]
        budgets = [one["request"]["budget_bytes"] for one in found]
        assert budgets == [51, 52, 53]
        assert second["next_page_token"] is None
        wrong = client.get("/v1/operations", params={"page_token": "x"})
        assert wrong.status_code == 422
        only = client.get("/v1/operations", params={"state": "running"}).json()
        assert only["operations"] == []

    def test_tell_their_events_from_any_on(self, client):
        """All states from the first; after one, only those that came later."""
        operation = client.post("/v1/plans", json={"graph": DIGEST, "budget": 43})
        path = f"{operation.headers['location']}/events"
        events = events_of(client.get(path).text)
        states = [data["state"] for _, kind, data in events if kind == "state"]
        assert states == ["queued", "running", "succeeded"]
        numbers = [number for number, _, _ in events]
        assert numbers == list(range(1, len(events) + 1))
        later = client.get(path, headers={"Last-Event-ID": str(numbers[-2])})
        assert events_of(later.text) == events[-1:]
        assert client.get(path, headers={"Last-Event-ID": "9"}).text == ""
        assert client.get(path, headers={"Last-Event-ID": "x"}).status_code == 422

    def test_tell_progress_while_they_run(self, client):
        """Stage, incumbent, bound and gap come before the end."""
        operation = ask_endless(client)["id"]
        path = f"/v1/operations/{operation}"
        with client.stream("GET", f"{path}/events") as stream:
            kinds = []
            for line in stream.iter_lines():
                if line.startswith("data: ") and "gap" in line:
                    data = json.loads(line[6:])
                    if data["duration_ns"]:
                        assert 0 < data["gap"] < 1
                        assert data["lower_bound_ns"] < data["duration_ns"]
                        client.post(f"{path}/cancel")
                if line.startswith("event: "):
                    kinds.append(line[7:])
        assert kinds[:2] == ["state", "state"]
        assert kinds[-2:] == ["state", "state"]
        assert "progress" in kinds


def events_of(text):
    """Return the number, the kind and the data of each event of a stream."""
    found = []
    for block in text.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line)
        if "data" in fields:
            data = json.loads(fields["data"])
            found.append((int(fields["id"]), fields["event"], data))
    return found


class TestLimits:
    @pytest.fixture
    def small(self, tmp_path):
        """Give a server that takes little."""
        caps = Caps(
            wire_bytes=20_000,
            document_bytes=40_000,
            ops=6,
            edges=20,
            points=3,
            queued=1,
            per_key=2,
        )
        store = Store.open(f"sqlite:///{tmp_path / 'store.db'}")
        with (
            serving(store, Settings(caps=caps, shutdown_s=0.1)) as running,
            running.client() as client,
        ):
            yield client

    def test_a_body_is_counted_as_it_comes(self, small):
        """By its stated length, and without one."""
        large = b" " * 20_001
        path = f"/v1/graphs/{NOWHERE}"
        assert small.put(path, content=large).status_code == 413
        response = small.put(path, content=iter([large]))
        assert response.status_code == 413
        assert response.json()["type"] == "/problems/too-large-error"

    @pytest.mark.parametrize("sized", [True, False])
    def test_a_bomb_is_counted_as_it_comes_out(self, small, sized):
        """40 MB in 4 kB go no further than the limit, whether or not they say so."""
        packer = zstandard.ZstdCompressor(write_content_size=sized)
        bomb = packer.compress(b"0" * 40_000_000)
        assert len(bomb) < 20_000
        headers = {"content-encoding": "zstd"}
        path = f"/v1/graphs/{NOWHERE}"
        response = small.put(path, content=bomb, headers=headers)
        assert response.status_code == 413
        assert "decompressed" in response.json()["detail"]

    @pytest.mark.parametrize(
        ("content", "encoding"),
        [(b"rubbish", "zstd"), (zstandard.compress(CHAIN)[:-9], "zstd"), (CHAIN, "br")],
    )
    def test_a_body_that_is_not_what_it_says(self, small, content, encoding):
        """422, as for any document that cannot be read."""
        headers = {"content-encoding": encoding}
        path = f"/v1/graphs/{NOWHERE}"
        response = small.put(path, content=content, headers=headers)
        assert response.status_code == 422
        assert response.json()["type"] == "/problems/wire-error"

    @pytest.mark.parametrize(
        "body",
        [
            b'{"graph": NaN, "budget": 1}',
            b'{"graph": ' + b"[" * 9000 + b"]" * 9000 + b', "budget": 1}',
            b'{"graph": {}, "budget": ' + b"9" * 5000 + b"}",
            b'{"graph": {}, "budget": 9223372036854775808}',
            b'{"graph": {}, "graph": {}, "budget": 1}',
            b'{"graph": {"schema": 1, "schema": 1}, "budget": 1}',
            b'{"graph": "\\ud800", "budget": 1}',
            b'{"graph": {}, "budget": -1}',
            b'{"graph": {}, "budget": true}',
            b"[]",
            b"null",
            b"\xff",
            b"",
        ],
    )
    def test_nonsense_is_a_problem(self, small, body):
        """Never a 500, whatever it is."""
        headers = {"content-type": "application/json"}
        response = small.post("/v1/plans", content=body, headers=headers)
        assert response.status_code == 422
        assert response.headers["content-type"] == "application/problem+json"

    def test_a_graph_of_too_many_ops(self, small):
        """Six ops are the most here."""
        content = graph_to_json(endless()).encode()[:0] or CHAIN
        seven = json.loads(content)
        seven["ops"].append(seven["ops"][-1] | {"id": 6})
        response = small.post("/v1/plans", json={"graph": seven, "budget": 43})
        assert response.status_code == 422
        assert "limit of 6" in response.json()["detail"]

    def test_a_sweep_of_too_many_points(self, small):
        """Three points are the most here."""
        body = {"graph": json.loads(CHAIN), "points": 4}
        response = small.post("/v1/plans:sweep", json=body)
        assert response.status_code == 422

    def test_too_much_in_flight_has_to_wait(self, tmp_path):
        """Of one key 429, in all 503, both with when to try again."""
        store = Store.open(f"sqlite:///{tmp_path / 'store.db'}")
        body = {"graph": json.loads(graph_to_json(endless())), **ENDLESS}
        for caps, status in (
            (Caps(per_key=1), 429),
            (Caps(queued=0), 503),
        ):
            with (
                serving(store, Settings(caps=caps, shutdown_s=0.1)) as running,
                running.client() as client,
            ):
                client.post("/v1/plans", json=body)
                body["budget"] -= 1
                response = client.post("/v1/plans", json=body)
                assert response.status_code == status
                assert response.headers["retry-after"] == "5"
                assert response.json()["type"] == "/problems/busy-error"
            store = Store.open(f"sqlite:///{tmp_path / f'{status}.db'}")


class TestFailures:
    def test_a_store_that_does_not_answer_is_503(self, tmp_path):
        """With when to try again; the service itself is not ready."""
        store = Store.open(f"sqlite:///{tmp_path / 'store.db'}")

        def refuse(_connection):
            message = "database is locked"
            raise OperationalError(message, None, Exception(message))

        with serving(store) as running, running.client() as client:
            event.listen(store.database.engine, "begin", refuse)
            response = client.get("/v1/operations")
            ready = client.get("/readyz")
            event.remove(store.database.engine, "begin", refuse)
        assert (response.status_code, response.headers["retry-after"]) == (503, "5")
        assert response.json()["type"] == "/problems/busy-error"
        assert (ready.status_code, ready.json()["missing"]) == (503, ["store"])

    def test_a_bug_is_told_to_the_log_alone(self, tmp_path, monkeypatch):
        """The answer is a problem with the request's id, under which the log has it."""
        store = Store.open(f"sqlite:///{tmp_path / 'store.db'}")
        monkeypatch.setattr(about, "classes", lambda: 1 / 0)
        with serving(store) as running, running.client() as client:
            sent = {"X-Request-ID": "bug-1"}
            response = client.get("/problems/wire-error", headers=sent)
        assert response.status_code == 500
        assert response.json()["request_id"] == "bug-1"
        assert "division" not in response.text
        lines = [json.loads(line) for line in running.log.getvalue().splitlines()]
        told = [one for one in lines if one.get("request_id") == "bug-1"]
        assert any("ZeroDivisionError" in one.get("exception", "") for one in told)
        assert any(one.get("status") == 500 for one in told)


class TestAbout:
    def test_health_and_readiness(self, quick):
        """Both are fine."""
        with quick.client() as client:
            for path in ("/healthz", "/readyz"):
                assert client.get(path).json() == {"status": "ok", "missing": []}

    def test_devices_and_capabilities(self, quick):
        """The devices of `encamp devices`, and the limits of this service."""
        with quick.client() as client:
            slugs = {d["slug"] for d in client.get("/v1/devices").json()["devices"]}
            found = client.get("/v1/capabilities").json()
        assert "h100-sxm" in slugs
        assert found["schemas"] == ["encamp.graph/1", "encamp.plan/1"]
        assert found["limits"]["queued"] == 1000

    def test_metrics_count_requests_and_answers(self, client):
        """By route, not by path; and how questions were met."""
        plan_chain(client)
        plan_chain(client)
        text = client.get("/metrics").text
        assert 'encamp_answers_total{how="known",kind="plan"} 1.0' in text
        assert 'encamp_answers_total{how="solved",kind="plan"} 1.0' in text
        assert (
            'encamp_requests_total{method="PUT",route="/v1/graphs/sha256:{digest}"'
            ',status="201"} 1.0'
        ) in text
        assert 'encamp_operations{state="queued"} 0.0' in text
        assert "encamp_operations_ended_total" in text

    def test_a_type_of_problem_says_what_it_means(self, quick):
        """Each class of the tree has one."""
        with quick.client() as client:
            found = client.get("/problems/infeasible-error").json()
            assert found["title"] == "No schedule of the graph fits the budget"
            assert client.get("/problems/none").status_code == 404

    def test_what_http_has_a_word_for(self, quick):
        """An unknown path and a wrong method are problems, too."""
        with quick.client() as client:
            for method, path, status in (
                ("GET", "/nowhere", 404),
                ("PATCH", "/v1/plans", 405),
            ):
                response = client.request(method, path)
                assert response.status_code == status
                assert response.json()["type"] == "about:blank"

    def test_requests_have_ids_and_traces_in_the_log(self, quick):
        """An id that is given is kept; one that could be anything else is not."""
        trace = "0af7651916cd43dd8448eb211c80319c"
        with quick.client() as client:
            sent = {
                "X-Request-ID": "mine-1",
                "traceparent": f"00-{trace}-b7ad6b7169203331-01",
            }
            response = client.get("/version", headers=sent)
            assert response.headers["x-request-id"] == "mine-1"
            other = client.get("/version", headers={"X-Request-ID": "a b"})
            assert other.headers["x-request-id"] != "a b"
        lines = [json.loads(line) for line in quick.log.getvalue().splitlines()]
        (line,) = [one for one in lines if one.get("request_id") == "mine-1"]
        assert (line["trace_id"], line["status"]) == (trace, 200)

    def test_other_hosts_are_not_answered(self, quick):
        """So that a page of another site cannot reach it by a name of its own."""
        with quick.client() as client:
            response = client.get("/healthz", headers={"Host": "evil.example"})
            assert response.status_code == 421
            assert client.get("/healthz", headers={"Host": "localhost:1"}).is_success

    def test_no_other_origin_is_let_in(self, quick):
        """CORS is off."""
        with quick.client() as client:
            response = client.get("/healthz", headers={"Origin": "https://a.example"})
        assert "access-control-allow-origin" not in response.headers
