"""A process of this machine for each job, which can be killed and limited."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from select import select
from tempfile import TemporaryFile
from typing import IO, Any

from encamp.units import format_bytes

from .job import Job, Outcome, Stop, Tell

_GIB = 2**30
_LOOK_S = 0.05
_PIECE = 2**20
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TAIL = 2000


@dataclass(frozen=True, slots=True)
class LocalPool:
    """Runs each job in a process of its own on this machine.

    A process over `memory_bytes` is killed. One that was cancelled has `grace_s` to
    end by itself, and `hard_stop_s` until it is killed; one that is over its own time
    limit, or over `longest_s` where it has none, has `overtime_s`.
    """

    slots: int = field(default_factory=lambda: os.cpu_count() or 1)
    memory_bytes: int | None = 4 * _GIB
    grace_s: float = 0.8
    hard_stop_s: float = 1.8
    overtime_s: float = 60.0
    longest_s: float = 3600.0

    def run(self, job: Job, tell: Tell, stop: Stop) -> Outcome:
        """Run a job to its end; a cancelled one ends within two seconds."""
        with TemporaryFile() as stderr:
            child = subprocess.Popen(
                [sys.executable, "-m", "encamp.api.pool.child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=_environment(),
                start_new_session=True,  # Ctrl-C is the server's
            )
            try:
                return _Run(self, job, child, stderr, tell, stop).outcome()
            finally:
                child.kill()
                child.wait()
                for pipe in (child.stdin, child.stdout):
                    with suppress(OSError):
                        pipe.close()  # type: ignore[union-attr]  # both are pipes


@dataclass(slots=True)
class _Run:
    """One job in its process."""

    pool: LocalPool
    job: Job
    child: subprocess.Popen[bytes]
    stderr: IO[bytes]
    tell: Tell
    stop: Stop
    cancelled_at: float | None = None
    started: float = field(default_factory=time.monotonic)

    def outcome(self) -> Outcome:
        """Send the job, pass progress on, and end the process where it must end."""
        with suppress(BrokenPipeError):
            self._send(self._head() + self.job.graph)
        for message in self._messages():
            if "progress" in message:
                self.tell(message["progress"])
            else:
                return _outcome(message["outcome"])
        return self._died()

    def _messages(self) -> Iterator[dict[str, Any]]:
        """Read lines as they come, and look after the process in between."""
        out = self.child.stdout
        assert out is not None  # noqa: S101 - it is a pipe
        rest = b""
        while True:
            ready, _, _ = select([out], [], [], _LOOK_S)
            if ready:
                piece = os.read(out.fileno(), _PIECE)
                if not piece:
                    return
                *lines, rest = (rest + piece).split(b"\n")
                yield from (json.loads(line) for line in lines)
            if (refusal := self._refusal()) is not None:
                yield {"outcome": _document(refusal)}
                return

    def _head(self) -> bytes:
        head = {
            "kind": self.job.kind,
            "request": self.job.request,
            "start": self.job.start,
            "graph_bytes": len(self.job.graph),
            "memory_bytes": self.pool.memory_bytes,
            "grace_s": self.pool.grace_s,
        }
        return json.dumps(head).encode() + b"\n"

    def _send(self, content: bytes) -> None:
        stdin = self.child.stdin
        assert stdin is not None  # noqa: S101 - it is a pipe
        stdin.write(content)
        stdin.flush()

    def _refusal(self) -> Outcome | None:
        """Return why the process has to be killed now; ask it to end where asked."""
        now = time.monotonic()
        if self.stop.abandoned.is_set():
            return Outcome(error=("ServiceError", "the server is shutting down"))
        if self.stop.cancelled.is_set():
            if self.cancelled_at is None:
                self.cancelled_at = now
                with suppress(BrokenPipeError):
                    self._send(b"cancel\n")
            elif now - self.cancelled_at > self.pool.hard_stop_s:
                msg = "it was cancelled before it had found a plan"
                return Outcome(error=("NoPlanError", msg))
        limit = self.job.request["options"]["time_limit_s"]
        limit = self.pool.longest_s if limit is None else limit
        if now - self.started > limit + self.pool.overtime_s:
            msg = f"the solve went on {self.pool.overtime_s:.0f} s after its time limit"
            return Outcome(error=("NoPlanError", msg))
        return self._over_memory()

    def _over_memory(self) -> Outcome | None:
        limit, used = self.pool.memory_bytes, _resident_bytes(self.child.pid)
        if limit is None or used <= limit:
            return None
        msg = (
            f"the solve took {format_bytes(used)} of memory, more than the"
            f" {format_bytes(limit)} that a solve may have here"
        )
        return Outcome(error=("ServiceError", msg))

    def _died(self) -> Outcome:
        self.child.wait()
        self.stderr.seek(0)
        said = self.stderr.read().decode(errors="replace").strip()[-_TAIL:]
        last = said.rpartition("\n")[2]
        msg = f"the solve's process ended with status {self.child.returncode}"
        return Outcome(error=("InternalError", f"{msg}: {last}" if last else msg))


def _outcome(document: dict[str, Any]) -> Outcome:
    error = document["error"]
    return Outcome(
        result=document["result"],
        plans=tuple(document["plans"]),
        final=document["final"],
        error=None if error is None else (error[0], error[1]),
    )


def _document(outcome: Outcome) -> dict[str, Any]:
    return {
        "result": outcome.result,
        "plans": outcome.plans,
        "final": outcome.final,
        "error": outcome.error,
    }


def _environment() -> dict[str, str]:
    """Return the environment of a child: one thread, none spinning, no secrets."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("ENCAMP_SERVE")}
    return kept | {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}


def _resident_bytes(process: int) -> int:
    try:
        fields = Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()
    except OSError:  # it has ended, or this is no Linux
        return 0
    return int(fields[1]) * _PAGE
