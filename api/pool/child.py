"""The process a job runs in: a job on stdin, progress and the outcome on stdout.

Each is a line of JSON. The first line of stdin is the job, and has the number of
bytes of the graph that follow it; a later line "cancel" asks for the end. Stdin that
ends means that the server is gone: then this process goes too.

Asked to end, the planner returns within the piece of work it is in. Where that takes
longer than the server grants, the incumbent is sent from another thread instead.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from threading import Lock, Thread, Timer
from typing import Any, BinaryIO

from encamp.errors import EncampError
from encamp.planner import Cancel, Incumbent
from encamp.wire import graph_from_json

from .job import Job, Outcome
from .solving import answer, options_of, plan_outcome

_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of Linux's prctl."""


class _Line:
    """What is sent; nothing after the outcome."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._lock = Lock()

    def tell(self, progress: Mapping[str, Any]) -> None:
        """Send progress."""
        with self._lock:
            self._send({"progress": progress})

    def end(self, outcome: Outcome) -> None:
        """Send the outcome and end the process, whatever still runs in it."""
        with self._lock:
            self._send({"outcome": asdict(outcome)})
            os._exit(0)

    def _send(self, document: object) -> None:
        self._out.write(json.dumps(document).encode() + b"\n")
        self._out.flush()


@dataclass(frozen=True, slots=True)
class _Child:
    """The job of this process, and who may end it."""

    job: Job
    line: _Line
    grace_s: float
    cancel: Cancel = field(default_factory=Cancel)
    incumbent: Incumbent = field(default_factory=Incumbent)

    def solve(self) -> Outcome:
        """Return the outcome of the job."""
        job, tell = self.job, self.line.tell
        try:
            graph = graph_from_json(job.graph)
            return answer(job, graph, tell, self.cancel, self.incumbent)
        except EncampError as error:
            return Outcome(error=(type(error).__name__, str(error)))
        except MemoryError:
            return Outcome(error=("ServiceError", "the solve ran out of memory"))

    def listen(self, stdin: BinaryIO) -> None:
        """Wait for a cancellation, and for the end of the server."""
        while word := stdin.readline():
            if word == b"cancel\n" and not self.cancel.is_set():
                self.cancel.set()
                timer = Timer(self.grace_s, self._send_incumbent)
                timer.daemon = True
                timer.start()
        os._exit(1)

    def _send_incumbent(self) -> None:
        with suppress(EncampError):
            plan = self.incumbent.plan()
            if plan is not None:
                self.line.end(plan_outcome(plan, options_of(self.job), self.cancel))


def main() -> None:
    """Read a job, solve it, send its outcome."""
    _tie_to_parent()
    stdin, line = sys.stdin.buffer, _Line(sys.stdout.buffer)
    head = json.loads(stdin.readline())
    _limit_memory(head["memory_bytes"])
    graph = stdin.read(head["graph_bytes"])
    start = None if head["start"] is None else tuple(head["start"])
    job = Job(head["kind"], graph, head["request"], start)
    child = _Child(job, line, head["grace_s"])
    Thread(target=child.listen, args=(stdin,), daemon=True).start()
    line.end(child.solve())


def _tie_to_parent() -> None:
    """Have the kernel end this process when the one that started it ends."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def _limit_memory(limit: int | None) -> None:
    """Fail allocations far over the limit, which the server enforces to the page."""
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (2 * limit, 2 * limit))


if __name__ == "__main__":
    main()
