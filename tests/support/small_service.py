"""A service on loopback that solves nothing: it answers as a test tells it to.

It speaks the planning service's wire over real sockets, so that the client's own
reading, waiting and sending again are what is tested.
"""

import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import zstandard

from encamp.wire import plan_fields, plan_to_json


class SmallService:
    """What it knows, what it was asked, and what it is to do wrong.

    `plan` is its answer to every question; `failures` are (status, headers) or None, a
    dropped connection, for the next requests; `events` are what a stream tells, a
    connection at a time; `running` operations end once their stream was read.
    """

    def __init__(self):
        """Know nothing."""
        self.graphs = {}
        self.plan = None
        self.result = None
        self.failures = []
        self.problem = None
        self.running = False
        self.ended = threading.Event()
        self.events = []
        self.asked = []
        self.bodies = []
        self.headers = []
        self.key = None
        self.cancelled = False

    def plan_text(self):
        """Return its plan's document."""
        return plan_to_json(self.plan).encode()

    def answer(self):
        """Return the result document of its plan."""
        if self.result is not None:
            return self.result
        digest = f"sha256:{hashlib.sha256(self.plan_text()).hexdigest()}"
        return {
            "kind": "plan",
            "graph": "sha256:" + "0" * 64,
            "status": str(self.plan.status),
            "final": True,
            "plan": digest,
            "summary": plan_fields(self.plan),
        }

    def operation(self):
        """Return the operation that its answer takes."""
        done = self.ended.is_set() or not self.running
        failed = done and self.problem is not None
        return {
            "id": "op_" + "1" * 28,
            "kind": "plan",
            "state": "failed" if failed else "succeeded" if done else "running",
            "done": done,
            "graph": "sha256:" + "0" * 64,
            "request": {},
            "progress": None,
            "result": self.answer() if done and not failed else None,
            "error": self.problem if failed else None,
            "created_ms": 0,
            "started_ms": 0,
            "ended_ms": 1 if done else None,
        }


@contextmanager
def serving(service):
    """Serve on a free port of loopback and give the address."""

    class Handler(_Handler):
        knows = service

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    """Answers one connection after another."""

    protocol_version = "HTTP/1.1"
    knows: SmallService

    def log_message(self, *_):
        """Say nothing."""

    def do_HEAD(self):
        """Say whether a graph is here."""
        self._serve("HEAD")

    def do_GET(self):
        """Return a plan, an operation or its events."""
        self._serve("GET")

    def do_PUT(self):
        """Take a graph."""
        self._serve("PUT")

    def do_POST(self):
        """Take a question."""
        self._serve("POST")

    def do_DELETE(self):
        """Forget an operation."""
        self._serve("DELETE")

    def _serve(self, method):
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length)
        self.knows.asked.append(f"{method} {self.path}")
        self.knows.bodies.append(body)
        self.knows.headers.append(dict(self.headers.items()))
        if self.knows.failures:
            self._fail(self.knows.failures.pop(0))
            return
        wanted = self.knows.key and f"Bearer {self.knows.key}"
        if wanted and self.headers.get("authorization") != wanted:
            self._problem(401, "unauthorized-error", "this service takes an API key")
            return
        getattr(self, f"_{method.lower()}")(body)

    def _fail(self, failure):
        if failure is None:
            self.close_connection = True
            return
        status, headers = failure
        self._reply(status, b"", headers)

    def _head(self, _):
        known = self.path.rpartition("/")[2] in self.knows.graphs
        self._reply(200 if known else 404, b"")

    def _put(self, body):
        digest = self.path.rpartition("/")[2]
        content = zstandard.ZstdDecompressor().decompressobj().decompress(body)
        found = f"sha256:{hashlib.sha256(content).hexdigest()}"
        if found != digest:
            self._problem(422, "wire-error", f"the body's digest is {found}")
            return
        self.knows.graphs[digest] = content
        self._json(201, {})

    def _post(self, body):
        if self.path.endswith("/cancel"):
            self.knows.cancelled = True
            self.knows.ended.set()
            self._json(200, self.knows.operation())
        elif self.path == "/v1/plans:check":
            violation = {"kind": "over-budget", "message": "too much", "step": 3}
            self._json(200, {"valid": False, "violations": [violation]})
        elif json.loads(body)["graph"] not in self.knows.graphs:
            self._problem(404, "not-found-error", "no such graph is here")
        elif self.knows.problem is not None and not self.knows.running:
            problem = self.knows.problem
            self._json(problem["status"], problem, "application/problem+json")
        elif self.knows.running:
            self._json(202, self.knows.operation())
        else:
            self._json(200, self.knows.answer())

    def _get(self, _):
        if self.path.endswith("/events"):
            self._stream()
        elif self.path.startswith("/v1/operations/"):
            self._json(200, self.knows.operation())
        elif self.path.startswith("/v1/plans/"):
            self._reply(200, self.knows.plan_text())
        else:
            self._json(200, {"encamp": "0.1.0"})

    def _delete(self, _):
        self._reply(204, b"")

    def _stream(self):
        events = self.knows.events.pop(0) if self.knows.events else []
        if not self.knows.events:
            self.knows.ended.set()
        text = "".join(
            f"event: {kind}\ndata: {json.dumps(data)}\nid: {number}\n\n"
            for number, kind, data in events
        )
        self._reply(200, text.encode(), media="text/event-stream")

    def _problem(self, status, slug, detail):
        problem = {"type": f"/problems/{slug}", "status": status, "detail": detail}
        self._json(status, problem, "application/problem+json")

    def _json(self, status, document, media="application/json"):
        self._reply(status, json.dumps(document).encode(), media=media)

    def _reply(self, status, content, headers=(), media="application/json"):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("content-type", media)
        if status != 204:
            self.send_header("content-length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
