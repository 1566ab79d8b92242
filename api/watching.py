"""Waiting for operations to move, whoever moves them: one look at the store for all."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool

from .operations import State
from .store import Queue

Mark = tuple[State, int]
"""A state, and the number of the newest event."""


@dataclass(slots=True)
class Watch:
    """Tells waiting requests of one process when their operations have moved."""

    queue: Queue
    poll_s: float = 0.1
    _watched: Counter[str] = field(default_factory=Counter)
    _marks: dict[str, Mark] = field(default_factory=dict)
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)
    _poked: asyncio.Event = field(default_factory=asyncio.Event)
    _loop: asyncio.AbstractEventLoop | None = None

    async def run(self) -> None:
        """Look as long as the service runs; nothing is read while nobody waits."""
        self._loop = asyncio.get_running_loop()
        while True:
            await self._look()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._poked.wait(), self._pause())
            self._poked.clear()

    def poke(self) -> None:
        """Look at once; from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._poked.set)

    async def until_ended(self, name: str, seconds: float) -> None:
        """Wait until an operation has ended or is gone, for so many seconds at most."""
        await self._wait(name, seconds, None)

    async def until_news(self, name: str, number: int, seconds: float) -> None:
        """Wait until an operation has an event after `number`, or has ended."""
        await self._wait(name, seconds, number)

    async def _wait(self, name: str, seconds: float, number: int | None) -> None:
        self._watched[name] += 1
        self._poked.set()
        try:
            async with self._news:
                with suppress(TimeoutError):
                    await asyncio.wait_for(
                        self._news.wait_for(lambda: self._is_news(name, number)),
                        seconds,
                    )
        finally:
            self._watched[name] -= 1
            if not self._watched[name]:
                del self._watched[name]
                self._marks.pop(name, None)

    def _is_news(self, name: str, number: int | None) -> bool:
        mark = self._marks.get(name)
        if mark is None:
            return False
        state, newest = mark
        return state.ended or (number is not None and newest > number)

    async def _look(self) -> None:
        names = list(self._watched)
        if not names:
            return
        try:
            found = await run_in_threadpool(self.queue.marks, names)
        except SQLAlchemyError:  # the next look will do
            return
        gone = dict.fromkeys(set(names) - set(found), (State.CANCELLED, 0))
        async with self._news:
            moved = {**found, **gone}.items()
            self._marks |= {name: mark for name, mark in moved if name in self._watched}
            self._news.notify_all()

    def _pause(self) -> float | None:
        return self.poll_s if self._watched else None
