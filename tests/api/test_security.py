import json
import time

import pytest

from encamp.api import access
from encamp.api.settings import Settings
from encamp.api.store import Scope, Store
from encamp.wire import graph_to_json
from graphs import chain
from serving import serving

pytestmark = pytest.mark.usefixtures("compiled")

GRAPH = json.loads(graph_to_json(chain()))
BODY = {"graph": GRAPH, "budget": 43}
WAIT = {"Prefer": "wait=30"}
BOTH = set(Scope)


@pytest.fixture
def server(tmp_path):
    """Give a server that answers to keys only."""
    store = Store.open(f"sqlite:///{tmp_path / 'store.db'}")
    origins = ("https://plans.example",)
    settings = Settings(authenticate=True, allowed_origins=origins)
    with serving(store, settings) as running:
        yield running


def key_of(server, scopes=frozenset(BOTH), tenant="us"):
    """Make a key and return the text to send."""
    return server.store.keys.create("test", scopes, tenant)[1]


@pytest.mark.parametrize("key", [None, "nonsense", "ek_0000_0000"])
def test_without_a_key_there_is_no_answer(server, key):
    """401, which says how to send one; health and metrics are for the operator."""
    with server.client(key) as client:
        response = client.post("/v1/plans", json=BODY)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        assert response.json()["type"] == "/problems/unauthorized-error"
        assert client.get("/v1/operations").status_code == 401
        assert client.get("/healthz").status_code == 200


def test_a_key_does_what_its_scopes_say(server):
    """A reader asks for no plan; a writer alone reads none."""
    reader, writer = key_of(server, {Scope.READ}), key_of(server, {Scope.WRITE})
    with server.client(reader) as client:
        refused = client.post("/v1/plans", json=BODY)
        assert refused.status_code == 403
        assert "plan:write" in refused.json()["detail"]
        assert client.get("/v1/operations").status_code == 200
    with server.client(writer) as client:
        assert client.post("/v1/plans", json=BODY, headers=WAIT).is_success
        assert client.get("/v1/operations").status_code == 403


def test_tenants_see_nothing_of_each_other(server):
    """The same digest is there for one and not for the other."""
    with server.client(key_of(server)) as ours:
        digest = ours.post("/v1/plans", json=BODY, headers=WAIT).json()["plan"]
        graph = ours.get("/v1/operations").json()["operations"][0]["graph"]
        operation = ours.get("/v1/operations").json()["operations"][0]["id"]
    with server.client(key_of(server, tenant="them")) as theirs:
        for path in (
            f"/v1/plans/{digest}",
            f"/v1/graphs/{graph}",
            f"/v1/operations/{operation}",
            f"/v1/operations/{operation}/events",
        ):
            assert theirs.get(path).status_code == 404
        assert theirs.get("/v1/operations").json()["operations"] == []
        assert theirs.post(f"/v1/operations/{operation}/cancel").status_code == 404
        assert theirs.delete(f"/v1/operations/{operation}").status_code == 404


def test_a_revoked_key_is_forgotten(server, monkeypatch):
    """After the few seconds that a process remembers it for."""
    monkeypatch.setattr(access, "_REMEMBERED_S", 0.2)
    key, text = server.store.keys.create("test", BOTH, "us")
    with server.client(text) as client:
        assert client.get("/v1/operations").status_code == 200
        server.store.keys.revoke(key.id)
        time.sleep(0.3)
        assert client.get("/v1/operations").status_code == 401


def test_no_secret_is_in_the_log(server):
    """Neither a good key nor a bad one; the key's id is."""
    key, text = server.store.keys.create("test", BOTH, "us")
    with server.client(text) as client:
        client.post("/v1/plans", json=BODY, headers=WAIT)
    with server.client("ek_feed_hunter2hunter2") as client:
        client.get("/v1/operations", params={"page_token": "hunter3"})
    logged = server.log.getvalue()
    assert text.rpartition("_")[2] not in logged
    assert "hunter" not in logged
    assert key.id in logged


def test_an_allowed_origin_is_let_in(server):
    """It and no other, and no cookie is asked for."""
    with server.client() as client:
        for origin, allowed in (
            ("https://plans.example", "https://plans.example"),
            ("https://evil.example", None),
        ):
            response = client.get("/healthz", headers={"Origin": origin})
            assert response.headers.get("access-control-allow-origin") == allowed
            assert "access-control-allow-credentials" not in response.headers
