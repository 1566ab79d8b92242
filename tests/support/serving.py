"""A real server on a free port of loopback, in a thread of the test's process."""

import io
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Thread
from typing import Any

import httpx2
import uvicorn

from encamp.api.app import make_app
from encamp.api.pool import Job, Outcome, Pool, Stop
from encamp.api.pool.job import Tell
from encamp.api.pool.solving import answer
from encamp.api.settings import Settings
from encamp.api.store import Store
from encamp.errors import EncampError
from encamp.planner import Cancel, Incumbent
from encamp.wire import graph_from_json


@dataclass
class ThreadPool:
    """Solves on the calling thread: at once, and with nothing to start."""

    slots: int = 4
    jobs: list[Job] = field(default_factory=list)

    def run(self, job: Job, tell: Tell, stop: Stop) -> Outcome:
        """Run a job; it ends soon after it is stopped."""
        self.jobs.append(job)
        cancel, graph = Cancel(), graph_from_json(job.graph)
        ended = False

        def watch() -> None:
            while not ended:
                if stop.cancelled.is_set() or stop.abandoned.is_set():
                    cancel.set()
                time.sleep(0.005)

        watching = Thread(target=watch)
        watching.start()
        try:
            return answer(job, graph, tell, cancel, Incumbent())
        except EncampError as error:
            return Outcome(error=(type(error).__name__, str(error)))
        finally:
            ended = True
            watching.join()


@dataclass
class Serving:
    """A server that runs, and what a test may look at beside its responses."""

    url: str
    store: Store
    log: io.StringIO
    pool: Any

    def client(self, key: str | None = None, **headers: str) -> httpx2.Client:
        """Return a client that sends a key, if any."""
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        return httpx2.Client(base_url=self.url, headers=headers, timeout=60)


@contextmanager
def serving(
    store: Store, settings: Settings | None = None, pool: Pool | None = None
) -> Iterator[Serving]:
    """Give a server over a store; it is shut down as Ctrl-C would."""
    log, pool = io.StringIO(), pool or ThreadPool()
    app = make_app(store, settings or Settings(shutdown_s=0.1), pool=pool, log_to=log)
    config = uvicorn.Config(app, port=0, log_config=None, timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    thread = Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Serving(f"http://127.0.0.1:{port}", store, log, pool)
    finally:
        server.should_exit = True
        thread.join()
