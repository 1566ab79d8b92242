"""A step's plan from a folder or a service, and what is done where there is none."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from cases import SquaredMean
from cli_chain import SMALLEST, SMALLEST_STEPS, chain, plan_of
from encamp.api.client.exchange import Patience
from encamp.api.settings import Settings
from encamp.api.store import Scope, Store
from encamp.errors import (
    InfeasibleError,
    MissingPlanError,
    OptionError,
    UnauthorizedError,
    UnreachableError,
)
from encamp.replay import replay
from encamp.runtime import binding
from encamp.runtime.backend import EncampBackend
from encamp.runtime.binding import bind
from encamp.runtime.compiling import compile_with
from encamp.runtime.options import StepOptions
from encamp.runtime.sources import FolderPlans, source_at
from encamp.wire import write_graph, write_plan
from serving import ThreadPool, serving

SUPPORT = Path(__file__).parents[1] / "support"
ONCE = tuple(range(7))


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch):
    """Forget what was told before, and do not dawdle."""
    monkeypatch.setattr(binding, "_TOLD", set())
    monkeypatch.setattr(Patience, "pause", lambda *_: 0.0)
    monkeypatch.delenv("ENCAMP_KEY", raising=False)


@pytest.fixture
def folder(tmp_path):
    """Return a folder with plans of the chain at 508 and 405 bytes, and more."""
    graph = chain()
    write_plan(plan_of(graph, ONCE, 508), tmp_path / "large.json")
    write_plan(plan_of(graph, SMALLEST_STEPS, SMALLEST), tmp_path / "small.json.zst")
    write_graph(graph, tmp_path / "graph.json")
    (tmp_path / "notes.json").write_text("{}")
    (tmp_path / "readme.md").write_text("plans")
    return tmp_path


def from_folder(folder, budget, **options):
    """Bind the chain to a plan of a folder."""
    return bind(chain(), StepOptions(plans=folder, budget=budget, **options))


class TestFolder:
    @pytest.mark.parametrize(
        ("budget", "steps"), [(508, ONCE), (507, SMALLEST_STEPS), (405, SMALLEST_STEPS)]
    )
    def test_the_shortest_that_fits_is_run(self, folder, budget, steps):
        """Nothing recomputed where 508 bytes allow it, else the plan of 405."""
        bound = from_folder(folder, budget, on_miss="error")

        assert bound.plan.steps == steps
        assert bound.limit_bytes == budget

    def test_a_reserve_is_kept_free(self, folder):
        """508 less 1 leave 507, for which there is the smaller plan."""
        assert from_folder(folder, 508, reserve=1).plan.steps == SMALLEST_STEPS

    def test_a_plan_of_other_bytes_is_replayed_here(self, folder):
        """The structure binds: with f1's output of 50 bytes 355 are enough."""
        graph = chain()
        values = list(graph.values)
        values[1] = replace(values[1], bytes=50)
        smaller = replace(graph, values=tuple(values))
        peak = replay(smaller, SMALLEST_STEPS).peak_bytes

        bound = bind(smaller, StepOptions(plans=folder, budget=peak, on_miss="error"))

        assert bound.plan.steps == SMALLEST_STEPS
        assert bound.timeline.peak_bytes == peak

    def test_rules_are_those_of_the_plan(self, folder):
        """A plan that was made by no rules may recompute what is to be kept."""
        with pytest.raises(MissingPlanError):
            from_folder(folder, 508, keep=["test.f1"], on_miss="error")

    def test_none_fits_and_the_nearest_is_named(self, folder):
        """At 404 bytes: 405 would be enough."""
        with pytest.raises(MissingPlanError, match="needs least needs 405 B"):
            from_folder(folder, 404, on_miss="error")

    def test_none_is_of_this_step(self, folder):
        """Another operator is another step."""
        first = replace(chain().ops[0], target="test.other")
        other = replace(chain(), ops=(first, *chain().ops[1:]))

        with pytest.raises(MissingPlanError, match="make one: encamp trace"):
            bind(other, StepOptions(plans=folder, budget=508, on_miss="error"))

    def test_no_such_folder(self, tmp_path):
        """A slip of the pen is no miss."""
        with pytest.raises(OptionError, match="is no folder"):
            from_folder(tmp_path / "plnas", 508)


class TestMiss:
    def test_planned_here_and_told_once(self, tmp_path, caplog):
        """The default; every later step is the same news."""
        bound = [from_folder(tmp_path, 405) for _ in range(2)]

        assert [b.timeline.duration_ns for b in bound] == [110, 110]
        (told,) = caplog.messages
        assert f"no plan from {tmp_path}" in told
        assert told.endswith("It is planned here instead")

    def test_unplanned_says_what_it_takes(self, tmp_path, caplog):
        """508 bytes for a budget of 405: run, but not silently."""
        bound = from_folder(tmp_path, 405, on_miss="unplanned")

        assert bound.plan.steps == ONCE
        assert bound.room_bytes == 0
        (told,) = caplog.messages
        assert "unplanned, at a peak of 508 B; the budget is 405 B" in told

    def test_what_cannot_be_is_no_miss(self, tmp_path):
        """404 bytes fit nothing, planned here or there."""
        with pytest.raises(InfeasibleError):
            from_folder(tmp_path, 404)


class TestServer:
    @pytest.fixture
    def server(self, tmp_path):
        """Return a service over an empty store."""
        store = Store.open(f"sqlite:///{tmp_path / 'store.db'}")
        with serving(store, pool=ThreadPool()) as running:
            yield running

    def test_a_plan_is_requested_and_then_known(self, server):
        """Of two starts the second solves nothing."""
        options = StepOptions(server=server.url, budget=405, on_miss="error")

        first, second = bind(chain(), options), bind(chain(), options)

        assert first.timeline.duration_ns == 110
        assert first.plan == second.plan
        assert len(server.pool.jobs) == 1

    def test_infeasible_is_what_it_is_in_process(self, server):
        """With the smallest budget that would do, whatever the policy."""
        with pytest.raises(InfeasibleError) as caught:
            bind(chain(), StepOptions(server=server.url, budget=404))

        assert caught.value.smallest_bytes == SMALLEST

    def test_the_service_is_away(self, tmp_path, caplog):
        """Planned here, refused, or unplanned: as asked."""
        with serving(Store.open(f"sqlite:///{tmp_path / 'gone.db'}")) as running:
            gone = running.url

        with pytest.raises(UnreachableError, match="tried 3 times"):
            bind(chain(), StepOptions(server=gone, budget=405, on_miss="error"))
        planned = bind(chain(), StepOptions(server=gone, budget=405))
        bind(chain(), StepOptions(server=gone, budget=405))

        assert planned.timeline.duration_ns == 110
        assert [text.partition(":")[0] for text in caplog.messages] == [
            "no plan from http"
        ]

    def test_a_key_from_a_file(self, tmp_path, caplog):
        """Without it the service refuses, which is a miss; with it there is a plan."""
        store = Store.open(f"sqlite:///{tmp_path / 'keys.db'}")
        _, key = store.keys.create("training", set(Scope))
        (tmp_path / "key").write_text(key)
        with serving(store, Settings(authenticate=True)) as running:
            options = StepOptions(server=running.url, budget=405, on_miss="error")
            with pytest.raises(UnauthorizedError):
                bind(chain(), options)

            bound = bind(chain(), replace(options, key_file=tmp_path / "key"))

        assert bound.timeline.duration_ns == 110
        assert key not in caplog.text

    @pytest.mark.parametrize("address", ["ftp://x", "plans.example.org"])
    def test_an_address_without_a_source(self, address):
        """The message says which schemes are known."""
        with pytest.raises(OptionError, match="an address of http or https"):
            bind(chain(), StepOptions(server=address, budget=405))

    def test_a_compiled_step_trains_on_it(self, server):
        """An address and a budget are all it takes; the gradients are the same."""
        layers = (m for _ in range(3) for m in (nn.Linear(16, 16), nn.Tanh()))
        model = SquaredMean(nn.Sequential(*layers))
        batch = torch.ones(64, 16)
        model(batch).backward()
        expected = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        options = {
            "server": server.url,
            "budget": "peak*0.8",
            "costs": "roofline:cpu",
            "on_miss": "error",
        }

        step = torch.compile(model, backend="encamp", options=options)
        step(batch).backward()

        assert all(
            torch.equal(p.grad, e)
            for p, e in zip(model.parameters(), expected, strict=True)
        )
        assert len(server.pool.jobs) == 1


def test_a_compiled_step_runs_a_plan_of_a_folder(tmp_path):
    """What an offline trace planned is found at training start by its structure."""
    layers = [m for _ in range(3) for m in (nn.Linear(16, 16), nn.Tanh())]
    model, batch = SquaredMean(nn.Sequential(*layers)), torch.ones(64, 16)
    made = EncampBackend(StepOptions(budget="peak*0.8", costs="roofline:cpu"))
    compile_with(model, made)(batch)
    write_plan(made.planned[0].bound.plan, tmp_path / "plan.json")
    torch.compiler.reset()
    options = StepOptions(plans=tmp_path, budget="peak*0.8", on_miss="error")
    backend = EncampBackend(replace(options, costs="roofline:cpu"))

    compile_with(model, backend)(batch).backward()

    assert backend.planned[0].bound.plan == made.planned[0].bound.plan


def test_sources_are_found_by_the_scheme():
    """Anybody may register one; http and https are the service's client."""
    assert type(source_at("https://x", None)).__name__ == "ServerPlans"
    assert FolderPlans(Path("plans")) == FolderPlans(Path("plans"))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"plans": "p", "server": "http://x", "budget": 1}, "plans and server both"),
        ({"plans": "p", "plan": "q"}, "plan and plans both"),
        ({"plans": "p"}, "plans goes with a budget"),
        ({"budget": 1, "on_miss": "error"}, "on_miss goes with"),
        ({"budget": 1, "plans": "p", "on_miss": "ignore"}, "'plan' or 'error' or"),
        ({"budget": 1, "key_file": "k"}, "key_file goes with server"),
        ({"budget": 1, "plans": "p", "compiler": "inductor"}, "which no plan is for"),
    ],
)
def test_options_that_contradict_each_other(options, complaint):
    """Refused before anything is compiled."""
    with pytest.raises(OptionError, match=complaint):
        StepOptions(**options)


def test_two_ranks_ask_once_and_run_one_plan(tmp_path):
    """Rank 0 finds or makes the plan; where rank 1 cannot run it, both stop."""
    plans, empty = tmp_path / "plans", tmp_path / "empty"
    plans.mkdir()
    empty.mkdir()
    write_plan(plan_of(chain(), SMALLEST_STEPS, SMALLEST), plans / "plan.json")
    asked = [
        {"plans": str(plans), "budget": 405},
        {"plans": str(empty), "budget": 405},
        {"plans": str(empty), "budget": 405, "on_miss": "error"},
        {"plans": str(empty), "budget": 404},
        {"plans": str(plans), "budget": 405, "larger": True},
    ]

    first, second = ranks_of(tmp_path, asked)

    assert first[0]["steps"] == second[0]["steps"] == list(SMALLEST_STEPS)
    assert first[1] == second[1]  # made once: the seconds of its search, too
    assert first[2] == second[2]
    assert first[2]["error"] == "MissingPlanError"
    assert first[3] == second[3]
    assert first[3]["error"] == "InfeasibleError"
    assert first[4] == second[4]
    assert "rank 0: the plan fits" in first[4]["message"]
    assert "rank 1: the plan peaks at" in first[4]["message"]


def ranks_of(folder, asked):
    """Run both ranks and return what each reports."""
    reports = [folder / f"rank{rank}.json" for rank in range(2)]
    program, meeting = SUPPORT / "asking_ranks.py", folder / "meeting"
    ranks = [
        subprocess.Popen(
            [sys.executable, program, str(rank), meeting, json.dumps(asked), report],
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, report in enumerate(reports)
    ]
    try:
        told = [rank.communicate(timeout=120)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], told
    return [json.loads(report.read_text()) for report in reports]
