import pickle
import pickletools
from dataclasses import replace

import pytest

from encamp.api.timelines import snapshot, timeline_document, trace
from encamp.errors import InvalidPlanError
from encamp.plan import Status
from graphs import (
    CHAIN_PEAK,
    CHAIN_RECOMPUTED,
    CHAIN_RECOMPUTED_PEAK,
    chain,
    noisy,
    plan_of,
    unsolved_plan,
)

PLAIN = {
    *("PROTO", "FRAME", "MARK", "STOP", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE"),
    *("DICT", "LIST", "TUPLE", "SETITEM", "SETITEMS", "APPEND", "APPENDS", "TUPLE1"),
    *("TUPLE2", "TUPLE3", "SHORT_BINUNICODE", "BINUNICODE", "BININT", "BININT1"),
    *("BININT2", "LONG1", "BINFLOAT", "NONE", "NEWTRUE", "NEWFALSE", "MEMOIZE"),
    *("BINPUT", "BINGET", "LONG_BINGET"),
}
"""What the viewer's reader of pickles knows."""

CASES = [
    (chain(), tuple(range(6)), CHAIN_PEAK),
    (chain(), CHAIN_RECOMPUTED, CHAIN_RECOMPUTED_PEAK),
    (noisy(), (0, 1, 2), 37),
]


def drawn(graph, steps):
    """Return a snapshot as the viewer sees it."""
    return pickle.loads(snapshot(graph, plan_of(graph, steps, budget_bytes=100)))  # noqa: S301 - ours


@pytest.mark.parametrize(("graph", "steps", "peak"), CASES)
def test_the_peak_of_a_snapshot_is_the_plans(graph, steps, peak):
    """What residents hold, and what events add and take, is at most the peak."""
    document = drawn(graph, steps)
    (events,) = document["device_traces"]
    held = highest = graph.resident_bytes
    for event in events:
        change = {"alloc": 1, "free_completed": -1}.get(event["action"], 0)
        held += change * event["size"]
        highest = max(highest, held)
    assert highest == peak


@pytest.mark.parametrize(("graph", "steps", "_peak"), CASES)
def test_blocks_tile_their_segment(graph, steps, _peak):
    """In order, and whatever is freed lies in it."""
    document = drawn(graph, steps)
    (segment,) = document["segments"]
    at = segment["address"]
    for block in segment["blocks"]:
        assert block["address"] == at
        at += block["size"]
    assert at == segment["address"] + segment["total_size"]
    for event in document["device_traces"][0]:
        assert segment["address"] <= event["addr"] < at


def test_what_is_live_at_once_overlaps_nowhere():
    """Each allocation begins where nothing else is."""
    live = {}
    for event in drawn(chain(), CHAIN_RECOMPUTED)["device_traces"][0]:
        start, end = event["addr"], event["addr"] + event["size"]
        if event["action"] == "alloc":
            assert all(end <= a or start >= b for a, b in live.values())
            live[start] = (start, end)
        elif event["action"] == "free_completed":
            del live[start]


def test_a_snapshot_holds_plain_data_only():
    """No class, no call: nothing that the viewer's reader does not know."""
    content = snapshot(chain(), plan_of(chain(), CHAIN_RECOMPUTED, budget_bytes=50))
    assert {op.name for op, _, _ in pickletools.genops(content)} <= PLAIN


def test_a_trace_has_a_slice_for_each_step():
    """Op 0 runs again on a thread of its own, from 1000 ns on; 43 bytes at most."""
    plan = plan_of(chain(), CHAIN_RECOMPUTED, budget_bytes=50)
    events = trace(chain(), plan)["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    assert [event["name"] for event in slices] == [
        *("first", "second", "third", "third_back"),
        *("first", "second_back", "first_back"),
    ]
    assert (slices[4]["cat"], slices[4]["ts"], slices[4]["dur"]) == (
        "recomputed",
        1.0,
        0.1,
    )
    memory = [e["args"]["planned_bytes"] for e in events if e["name"] == "memory"]
    assert max(memory) == CHAIN_RECOMPUTED_PEAK
    assert {e["args"]["budget_bytes"] for e in events if e["name"] == "budget"} == {50}


def test_a_plan_without_steps_has_an_empty_timeline():
    """One that is infeasible; there is nothing to draw of it."""
    plan = unsolved_plan(chain(), Status.INFEASIBLE)
    assert timeline_document(chain(), plan)["steps"] == []
    assert [e for e in trace(chain(), plan)["traceEvents"] if e["ph"] == "X"] == []
    with pytest.raises(InvalidPlanError):
        snapshot(chain(), plan)


def test_the_budget_of_a_trace_is_less_its_reserve():
    """What the peak may be."""
    plan = plan_of(chain(), CHAIN_RECOMPUTED, budget_bytes=50)
    events = trace(chain(), replace(plan, reserve_bytes=7))["traceEvents"]
    assert {e["args"]["budget_bytes"] for e in events if e["name"] == "budget"} == {43}
