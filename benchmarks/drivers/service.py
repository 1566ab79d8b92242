"""How the planning service bears load: one server process, requests on loopback."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import zstandard

from benchmarks.cases.chain import layered
from benchmarks.load import Server, at_share, message, request, send, serving
from benchmarks.registry import Case, Table, driver
from benchmarks.text import size
from encamp.graph import CostGraph
from encamp.wire import graph_to_json

_CONNECTIONS = 50
_READS = 5000
_SUBMISSIONS, _DISTINCT = 200, 20
_BOMB = 200_000_000
_LAYERS_TO_CANCEL = 2000
Row = tuple[str, ...]


@driver("service")
def service(cases: Sequence[Case]) -> Table:
    """Measure what the service's users would notice."""
    return Table(
        title="The planning service",
        what=(
            "One server process with its store in SQLite, requests from a process of"
            f" the same machine. Reads over {_CONNECTIONS} connections; submissions"
            f" are {_SUBMISSIONS} at once, of {_DISTINCT} graphs."
        ),
        columns=("what", "measured"),
        rows=tuple(row for case in cases for row in _rows(case)),
    )


def _rows(case: Case) -> Iterator[Row]:
    with TemporaryDirectory() as folder, serving(Path(folder)) as server:
        yield from _reads(server)
        yield from _submissions(server)
        yield _upload(server, case)
        yield _bomb(server)
        yield _cancel(server)


def _reads(server: Server) -> Iterator[Row]:
    plan = _planned(server, layered(12), "peak*0.7")["plan"]
    path = f"/v1/plans/{plan}"
    for name, content in (
        ("plans read by digest", message("GET", path)),
        ("the same, not modified", message("GET", path, if_none_match=f'"{plan}"')),
    ):
        send(server, [content] * 200, _CONNECTIONS)
        began = time.perf_counter()
        replies = send(server, [content] * _READS, _CONNECTIONS)
        rate = _READS / (time.perf_counter() - began)
        slow = at_share(replies, 0.99) * 1000
        status = {reply.status for reply in replies}
        assert len(status) == 1, status  # noqa: S101 - else nothing was measured
        yield name, f"{rate:.0f} a second, 99 % within {slow:.0f} ms"


def _submissions(server: Server) -> Iterator[Row]:
    bodies = [
        _question(replace(layered(12), name=f"chain {n % _DISTINCT}"), "peak*0.6")
        for n in range(_SUBMISSIONS)
    ]
    before = _solves(server)
    sent = [message("POST", "/v1/plans", b, prefer="wait=60") for b in bodies]
    began = time.perf_counter()
    replies = send(server, sent, _SUBMISSIONS)
    seconds = time.perf_counter() - began
    answered = [reply for reply in replies if reply.status == 200]
    plans = {reply.document["plan"] for reply in answered}
    solves = _solves(server) - before
    found = f"{solves} solves, {len(answered)} answers, {len(plans)} plans"
    yield f"{_SUBMISSIONS} submissions", f"{found}, in {seconds:.1f} s"


def _upload(server: Server, case: Case) -> Row:
    content = graph_to_json(case.graph()).encode()
    digest = hashlib.sha256(content).hexdigest()
    reply = request(server, "PUT", f"/v1/graphs/sha256:{digest}", content)
    assert reply.status == 201, reply.content  # noqa: S101 - as above
    return (
        f"{case.name} ({size(len(content))}) uploaded, validated and stored",
        f"{reply.seconds:.2f} s",
    )


def _bomb(server: Server) -> Row:
    packer = zstandard.ZstdCompressor(write_content_size=False)
    bomb = packer.compress(b" " * _BOMB)
    before = server.resident_bytes
    path = f"/v1/graphs/sha256:{'0' * 64}"
    reply = request(server, "PUT", path, bomb, {"content-encoding": "zstd"})
    grown = max(server.resident_bytes - before, 0)
    return (
        f"{size(_BOMB)} in {size(len(bomb))}, compressed",
        f"{reply.status}, {size(grown)} more held after it",
    )


def _cancel(server: Server) -> Row:
    """Cancel a solve that has begun, and look for how long its process lives on."""
    options = {"target_gap": 0.0, "time_limit_s": 600}
    body = _question(layered(_LAYERS_TO_CANCEL), "peak*0.1", options=options)
    operation = request(server, "POST", "/v1/plans", body).document["id"]
    path = f"/v1/operations/{operation}"
    while not request(server, "GET", path).document["progress"]:
        time.sleep(0.02)
    (process,) = server.children
    began = time.perf_counter()
    request(server, "POST", f"{path}/cancel")
    while _runs(process):
        time.sleep(0.005)
    seconds = time.perf_counter() - began
    state = request(server, "GET", f"{path}?wait=10").document["state"]
    return f"a solve of {2 * _LAYERS_TO_CANCEL} ops cancelled", (
        f"{state}, its processor free after {seconds:.2f} s"
    )


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def _planned(server: Server, graph: CostGraph, budget: str) -> dict[str, object]:
    body = _question(graph, budget)
    while True:
        reply = request(server, "POST", "/v1/plans", body, {"prefer": "wait=60"})
        if reply.status != 202:
            return reply.document


def _question(graph: CostGraph, budget: str, **more: object) -> bytes:
    document = {"graph": json.loads(graph_to_json(graph)), "budget": budget, **more}
    return json.dumps(document).encode()


def _solves(server: Server) -> int:
    """Return how many operations there are."""
    document = request(server, "GET", "/v1/operations?page_size=200").document
    found = document["operations"]
    return len(found) if isinstance(found, list) else 0
