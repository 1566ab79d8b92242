"""One replica's workers: they take operations from the store and run them in a pool.

A thread looks after all of them: it claims what waits, keeps the leases alive, passes
cancellations on and takes over what dead replicas held. Each operation has a thread of
its own, which waits for the pool. What the store refuses for a moment is tried again.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event as Flag
from threading import Lock, Thread
from typing import Any

from sqlalchemy.exc import SQLAlchemyError
from structlog.typing import FilteringBoundLogger

from encamp.errors import EncampError

from .operations import Happening, State
from .pool import Outcome, Pool, Stop
from .problems import problem_named
from .questions import Question, job_of, keep
from .store import Operation, Store

_NOTES_EVERY_S = 0.25
_TRIES = 5
Ended = Callable[[Operation, float], None]
"""Called with each operation that ended here and the seconds it ran."""


def _nothing(_operation: Operation, _seconds: float) -> None:
    """Note nothing."""


@dataclass(slots=True)
class Replica:
    """The workers of one process. `changed` is called when an operation moved."""

    store: Store
    pool: Pool
    log: FilteringBoundLogger
    lease_s: float = 15.0
    poll_s: float = 0.1
    changed: Callable[[], None] = lambda: None
    ended: Ended = _nothing
    name: str = field(
        default_factory=lambda: (
            f"{socket.gethostname()[:32]}-{os.getpid()}-{secrets.token_hex(4)}"
        )
    )
    _running: dict[str, _Running] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    _wake: Flag = field(default_factory=Flag)
    _draining: Flag = field(default_factory=Flag)
    _stopped: Flag = field(default_factory=Flag)
    _thread: Thread | None = None

    def start(self) -> None:
        """Begin to take operations."""
        self._thread = Thread(target=self._look_after, name="replica", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Return whether operations are being taken."""
        running = self._thread is not None and self._thread.is_alive()
        return running and not self._draining.is_set()

    @property
    def num_running(self) -> int:
        """Return how many operations run here."""
        return len(self._running)

    def wake(self) -> None:
        """Look now rather than at the next turn."""
        self._wake.set()

    def stop(self, grace_s: float) -> None:
        """Take nothing more; let what runs end in so many seconds, hand the rest back.

        Each operation of this replica has then ended, or waits for another one.
        """
        self._draining.set()
        end = time.monotonic() + grace_s
        while self._running and time.monotonic() < end:
            time.sleep(0.02)
        with self._lock:
            left = list(self._running.values())
        for running in left:
            running.stop.abandoned.set()
        for running in left:
            running.thread.join()
        self._stopped.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        back = self.store.queue.take_back(self.name)
        self.log.info("replica stopped", handed_back=[one.id for one in back])

    def _look_after(self) -> None:
        beat_at = 0.0
        while not self._stopped.is_set():
            try:
                if time.monotonic() >= beat_at:
                    beat_at = time.monotonic() + self.lease_s / 4
                    self._beat()
                self._pass_on_cancellations()
                if not self._draining.is_set():
                    self._claim()
            except SQLAlchemyError as error:
                self.log.warning("the store does not answer", error=_line(error))
            except Exception:
                self.log.exception("the replica failed at a turn")
            self._wake.wait(self.poll_s)
            self._wake.clear()

    def _beat(self) -> None:
        with self._lock:
            names = list(self._running)
        held = self.store.queue.beat(self.name, int(self.lease_s * 1000), names)
        with self._lock:
            lost = [
                one
                for name, one in self._running.items()
                if name in names and name not in held
            ]
        for running in lost:
            # It has just ended, or another replica took it over; both end it here.
            running.stop.abandoned.set()
        for operation in self.store.queue.take_back():
            self.log.warning("took over", operation=operation.id, state=operation.state)
            self.changed()

    def _pass_on_cancellations(self) -> None:
        with self._lock:
            running = dict(self._running)
        if not running:
            return
        for name, (state, _) in self.store.queue.marks(running).items():
            if state is State.CANCELLING:
                running[name].stop.cancelled.set()

    def _claim(self) -> None:
        free = self.pool.slots - len(self._running)
        if free < 1:
            return
        lease_ms = int(self.lease_s * 1000)
        for operation in self.store.queue.claim(self.name, free, lease_ms):
            running = _Running(self, operation)
            with self._lock:
                self._running[operation.id] = running
            running.thread.start()

    def forget(self, name: str) -> None:
        """Note that an operation does not run here any more."""
        with self._lock:
            self._running.pop(name, None)
        self.changed()
        self.wake()


@dataclass(slots=True)
class _Running:
    """An operation on its own thread."""

    replica: Replica
    operation: Operation
    stop: Stop = field(default_factory=Stop)
    started: float = field(default_factory=time.monotonic)
    thread: Thread = field(init=False)
    _noted_at: float = 0.0

    def __post_init__(self) -> None:
        """Make the thread; it has yet to be started."""
        name = f"operation {self.operation.id}"
        self.thread = Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        log = self.replica.log.bind(operation=self.operation.id)
        try:
            outcome = self._outcome()
            if not self.stop.abandoned.is_set():
                self._end(outcome)
        except SQLAlchemyError as error:
            # The lease runs out, and the operation is taken over.
            log.error("the store did not take an outcome", error=_line(error))  # noqa: TRY400
        except Exception as error:
            log.exception("a worker failed")
            with suppress(SQLAlchemyError):
                told = f"the worker failed by a {type(error).__name__}; see the log"
                self._end(Outcome(error=("InternalError", told)))
        finally:
            self.replica.forget(self.operation.id)

    def _question(self) -> Question:
        one = self.operation
        return Question(one.tenant, one.kind, one.graph, one.request)

    def _outcome(self) -> Outcome:
        replica = self.replica
        try:
            job = job_of(replica.store.documents, self._question())
        except EncampError as error:
            return Outcome(error=(type(error).__name__, str(error)))
        return replica.pool.run(job, self._tell, self.stop)

    def _tell(self, progress: Mapping[str, Any]) -> None:
        """Note progress, not more often than anybody would look."""
        now = time.monotonic()
        if now - self._noted_at < _NOTES_EVERY_S:
            return
        self._noted_at = now
        queue, name = self.replica.store.queue, self.operation.id
        try:
            owned = queue.note(name, self.replica.name, [("progress", progress)])
        except SQLAlchemyError:  # the next one will do
            return
        if not owned:
            self.stop.abandoned.set()

    def _end(self, outcome: Outcome) -> None:
        for attempt in range(_TRIES):
            try:
                ended = self._store(outcome)
            except SQLAlchemyError:
                if attempt == _TRIES - 1:
                    raise
                time.sleep(0.2 * 2**attempt)
            else:
                break
        if ended is not None:
            seconds = time.monotonic() - self.started
            self.replica.log.info(
                "operation ended",
                operation=ended.id,
                kind=ended.kind,
                state=ended.state,
                seconds=round(seconds, 3),
                error=None if ended.error is None else ended.error["detail"],
            )
            self.replica.ended(ended, seconds)

    def _store(self, outcome: Outcome) -> Operation | None:
        """End the operation and keep what it found, both or neither."""
        store, name, owner = (
            self.replica.store,
            self.operation.id,
            self.replica.name,
        )
        with store.database.writing() as connection:
            if outcome.error is not None:
                error = problem_named(*outcome.error).document()
                return store.queue.end(
                    connection, name, owner, Happening.FAIL, error=error
                )
            result = keep(
                store, connection, self._question(), outcome, self._spent_ms()
            )
            ended = store.queue.end(
                connection, name, owner, Happening.SUCCEED, result=result
            )
            if ended is None:
                connection.rollback()
            return ended

    def _spent_ms(self) -> int:
        """Return the time an answer stands for: its limit, unless cut short."""
        limit = self._question().limit_ms
        if self.stop.cancelled.is_set() or limit is None:
            return int((time.monotonic() - self.started) * 1000)
        return limit


def _line(error: Exception) -> str:
    return str(error).partition("\n")[0]
