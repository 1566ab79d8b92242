"""Requests made from the service's own description, to be answered as it says."""

import json
from pathlib import Path

import pytest
import schemathesis
import zstandard
from hypothesis import HealthCheck, settings

from encamp.api.store import Store
from encamp.wire import graph_to_json
from graphs import chain
from serving import serving

pytestmark = pytest.mark.usefixtures("compiled")

DESCRIPTION = Path(__file__).parents[2] / "docs" / "openapi.json"
SCHEMA = schemathesis.openapi.from_dict(
    json.loads(DESCRIPTION.read_text(encoding="utf-8"))
)


@schemathesis.serializer("application/zstd")
def compressed(_context, value):
    """Send what was made as text, compressed."""
    return zstandard.compress(str(value).encode())


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Give a server that holds a graph."""
    folder = tmp_path_factory.mktemp("fuzz")
    with serving(Store.open(f"sqlite:///{folder / 'store.db'}")) as running:
        with running.client() as client:
            body = {"graph": json.loads(graph_to_json(chain())), "budget": 43}
            client.post("/v1/plans", json=body, headers={"Prefer": "wait=30"})
        yield running


def answered(case, server):
    """Send a request; what comes back is no bug and is what was described."""
    response = case.call(base_url=server.url)
    assert response.status_code < 500, response.text
    if response.status_code >= 400 and case.method != "HEAD":
        problem = response.json()
        assert problem["status"] == response.status_code
        assert response.headers["content-type"] == ["application/problem+json"]
    described = case.operation.definition.raw["responses"]
    assert str(response.status_code) in described or response.status_code in {404, 405}


def bounded(examples):
    """Return settings for so many requests to each endpoint."""
    slow = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    return settings(max_examples=examples, deadline=None, suppress_health_check=slow)


@SCHEMA.parametrize()
@bounded(10)
def test_whatever_is_asked_is_answered(case, server):
    """Ten requests to each endpoint: never a 500."""
    answered(case, server)


@pytest.mark.slow
@SCHEMA.parametrize()
@bounded(1000)
def test_a_thousand_requests_to_each_endpoint(case, server):
    """The same at length."""
    answered(case, server)
