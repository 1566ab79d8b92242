import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encamp import errors
from encamp.api.operations import State
from encamp.api.problems import classes, problem_named, problem_of, slug_of, status_of
from encamp.api.service import Shelf
from encamp.api.watching import Watch


class TestShelf:
    def test_holds_what_was_read_last(self):
        """Of 10 bytes, the four read longest ago make room for the next four."""
        shelf = Shelf(most_bytes=10)
        for name in "abc":
            shelf.put("us", name, name.encode() * 4)
            shelf.get("us", "b")
        assert shelf.get("us", "a") is None
        assert shelf.get("us", "b") == b"bbbb"
        assert shelf.get("them", "b") is None

    @given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 12)), max_size=40))
    def test_never_holds_more_than_it_may(self, puts):
        """Whatever is put into it, in whatever order."""
        shelf = Shelf(most_bytes=20)
        for name, size in puts:
            shelf.put("us", str(name), b"x" * size)
            held = [shelf.get("us", str(n)) or b"" for n in range(6)]
            assert sum(map(len, held)) <= 20


class TestProblems:
    def test_each_class_has_a_type_of_its_own(self):
        """And a status that says whose fault it is."""
        kinds = list(classes())
        assert len({slug_of(kind) for kind in kinds}) == len(kinds)
        assert all(400 <= status_of(kind) < 600 for kind in kinds)
        assert status_of(errors.InvalidPlanError) == 422
        assert status_of(errors.StalePlanError) == 409

    def test_a_fault_has_its_path(self):
        """Of a document, or of the graph that it holds."""
        for error in (
            errors.WireError("no", at="$.ops[3]"),
            errors.GraphError("no", at="ops[3]"),
        ):
            assert problem_of(error).faults == (("$.ops[3]", "no"),)
        assert problem_of(errors.WireError("no")).faults == ()

    def test_an_unknown_name_is_a_bug(self):
        """A process of a solve says no others."""
        assert problem_named("Nothing", "x").status == 500
        assert problem_named("OptionError", "x").type == "/problems/option-error"


class Queue:
    """Operations that a test moves."""

    def __init__(self) -> None:
        self.found = {}
        self.looks = 0

    def marks(self, names):
        self.looks += 1
        return {name: self.found[name] for name in names if name in self.found}


class TestWatch:
    def run(self, talk):
        """Run a conversation beside a watch of a queue."""

        async def beside():
            queue = Queue()
            watch = Watch(queue, poll_s=0.01)
            watching = asyncio.create_task(watch.run())
            try:
                return await talk(queue, watch)
            finally:
                watching.cancel()

        return asyncio.run(beside())

    @pytest.mark.parametrize("mark", [(State.SUCCEEDED, 3), (State.CANCELLED, 2)])
    def test_waits_until_the_end(self, mark):
        """It comes while one waits."""

        async def talk(queue, watch):
            queue.found["a"] = (State.RUNNING, 2)
            waiting = asyncio.create_task(watch.until_ended("a", 60))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            queue.found["a"] = mark
            await waiting

        self.run(talk)

    def test_waits_for_news(self):
        """An event after the one that is known, or an end."""

        async def talk(queue, watch):
            queue.found["a"] = (State.RUNNING, 2)
            waiting = asyncio.create_task(watch.until_news("a", 2, 60))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            queue.found["a"] = (State.RUNNING, 3)
            await waiting

        self.run(talk)

    def test_waits_no_longer_than_it_should(self):
        """Nor for what is not there; and looks no more once nobody waits."""

        async def talk(queue, watch):
            queue.found["a"] = (State.RUNNING, 2)
            began = time.monotonic()
            await watch.until_ended("a", 0.05)
            assert time.monotonic() - began >= 0.05
            await watch.until_ended("gone", 60)
            await asyncio.sleep(0.05)
            looks = queue.looks
            await asyncio.sleep(0.05)
            assert queue.looks == looks

        self.run(talk)
