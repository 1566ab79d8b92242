import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from encamp.api.pool import Job, LocalPool, Stop
from encamp.check import check
from encamp.wire import graph_to_json, plan_from_json
from graphs import CHAIN_PEAK, CHAIN_RECOMPUTED, chain
from requests_to_plan import chain_job, endless, endless_job, options

pytestmark = pytest.mark.usefixtures("compiled")

POOL = LocalPool(memory_bytes=None)


def run(job, pool=POOL, stop=None):
    """Run a job; return its outcome and the progress that was told."""
    told = []
    return pool.run(job, told.append, stop or Stop()), told


class Running:
    """A job that runs on a thread, for a test to stop."""

    def __init__(self, job, pool=POOL):
        self.stop, self.told, self.outcome = Stop(), [], None
        self.thread = Thread(target=self._run, args=(job, pool))
        self.thread.start()

    def _run(self, job, pool):
        self.outcome = pool.run(job, self.told.append, self.stop)

    def wait_for_plan(self):
        """Wait until the solve has a plan."""
        while not any(event["duration_ns"] for event in self.told):
            assert self.thread.is_alive(), self.outcome
            time.sleep(0.01)

    def ended(self):
        """Return the outcome once there is one."""
        self.thread.join()
        return self.outcome


def test_a_plan_comes_back_with_its_progress():
    """43 bytes hold the chain when `a` is made again: 100 ns more, proven."""
    outcome, told = run(chain_job())

    (text,) = outcome.plans
    plan = plan_from_json(text)
    assert plan.steps == CHAIN_RECOMPUTED
    assert check(chain(), plan) == ()
    assert outcome.final
    assert outcome.result["status"] == "optimal"
    assert outcome.result["summary"]["duration_ns"] == 2200
    assert told[-1]["duration_ns"] == told[-1]["lower_bound_ns"] == 2200
    assert told[-1]["gap"] == 0.0


def test_what_fits_nothing_is_an_answer():
    """No schedule of the chain holds less than 43 bytes, which is proven."""
    outcome, _ = run(chain_job(42))

    assert outcome.error is None
    assert outcome.result["status"] == "infeasible"
    assert outcome.result["smallest_bytes"] == 43
    assert outcome.final


def test_the_smallest_budget():
    """It is 43 bytes, and the plan for it comes along."""
    job = Job("min-budget", graph_to_json(chain()).encode(), {"options": options()})
    outcome, _ = run(job)

    assert outcome.result["budget_bytes"] == 43
    half = {"what": "half the batch", "budget_bytes": 1 + 1 + 10 + 1 + 10}
    assert outcome.result["remedies"] == [half]
    assert plan_from_json(outcome.plans[0]).peak_bytes == 43


def test_a_sweep_has_a_plan_for_each_point():
    """From the unplanned peak down to the smallest budget."""
    request = {"budgets": [CHAIN_PEAK, 43], "points": 2, "options": options()}
    outcome, _ = run(Job("sweep", graph_to_json(chain()).encode(), request))

    budgets = [point["summary"]["budget_bytes"] for point in outcome.result["points"]]
    assert budgets == [CHAIN_PEAK, 43]
    assert [plan_from_json(text).budget_bytes for text in outcome.plans] == budgets


def test_errors_come_back_by_their_class():
    """A rule that matches nothing is the requester's to mend."""
    outcome, _ = run(chain_job(keep=["aten.none.*"]))

    kind, message = outcome.error
    assert kind == "OptionError"
    assert "matches no op" in message


def test_a_cancelled_solve_ends_with_its_best():
    """The plan that it had found is whole, and no claim of a final one."""
    running = Running(endless_job())
    running.wait_for_plan()
    running.stop.cancelled.set()
    outcome = running.ended()

    assert check(endless(), plan_from_json(outcome.plans[0])) == ()
    assert not outcome.final


def test_a_solve_that_does_not_hear_is_spoken_for():
    """With no time to end by itself, its incumbent is sent from beside it."""
    running = Running(endless_job(), replace(POOL, grace_s=0.0))
    running.wait_for_plan()
    running.stop.cancelled.set()
    outcome = running.ended()

    assert check(endless(), plan_from_json(outcome.plans[0])) == ()


def test_a_limit_of_work_is_final_unless_it_is_cut_short():
    """The same work ends the same way; a cancelled solve has not done it all."""
    limited = {"work_limit": 1, "time_limit_s": None}
    whole, _ = run(chain_job(**limited))
    assert whole.final
    running = Running(endless_job(work_limit=10**6, time_limit_s=None))
    running.wait_for_plan()
    running.stop.cancelled.set()
    assert not running.ended().final


def test_cancelled_before_any_plan_is_an_error():
    """Nothing is known yet when its process is killed."""
    running = Running(endless_job(450), replace(POOL, hard_stop_s=0.0))
    while not running.told:
        time.sleep(0.01)
    running.stop.cancelled.set()
    outcome = running.ended()

    assert outcome.error[0] == "NoPlanError"


def test_an_abandoned_solve_ends_at_once():
    """Its replica hands it back."""
    running = Running(endless_job())
    running.wait_for_plan()
    running.stop.abandoned.set()
    outcome = running.ended()

    assert outcome.error == ("ServiceError", "the server is shutting down")


def test_a_solve_over_its_memory_is_killed():
    """64 MiB do not hold an interpreter with the solver in it."""
    outcome, _ = run(endless_job(), replace(POOL, memory_bytes=2**26))

    assert outcome.error[0] in {"ServiceError", "InternalError"}
    assert "memory" in outcome.error[1] or "ended with status" in outcome.error[1]


def test_a_solve_far_over_its_time_is_killed():
    """A process may take so much longer than the limit that it was given."""
    outcome, _ = run(endless_job(time_limit_s=0.2), replace(POOL, overtime_s=-0.1))

    assert outcome.error[0] == "NoPlanError"
    assert "after its time limit" in outcome.error[1]


def test_a_solve_goes_on_from_a_schedule():
    """With no technique that finds one, it returns what it was given."""
    job = replace(chain_job(work_limit=0, time_limit_s=None), start=CHAIN_RECOMPUTED)
    outcome, _ = run(job)

    assert plan_from_json(outcome.plans[0]).steps == CHAIN_RECOMPUTED


def test_a_crash_says_how_it_ended(monkeypatch):
    """What the process wrote last is in the message."""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    outcome, _ = run(chain_job())

    assert outcome.error == (
        "InternalError",
        "the solve's process ended with status 1",
    )


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_solve_does_not_outlive_its_server(tmp_path):
    """The server is killed; nothing of it goes on."""
    job = endless_job()
    script = (
        "import os, json, sys\n"
        "from encamp.api.pool import Job, LocalPool, Stop\n"
        "job = json.load(open(sys.argv[1]))\n"
        "job = Job('plan', job['graph'].encode(), job['request'])\n"
        "LocalPool().run(job, lambda e: print(os.getpid(), flush=True), Stop())\n"
    )
    file = tmp_path / "job.json"
    file.write_text(
        json.dumps({"graph": job.graph.decode(), "request": dict(job.request)})
    )
    server = subprocess.Popen(
        [sys.executable, "-c", script, str(file)], stdout=subprocess.PIPE
    )
    server.stdout.readline()
    children = Path(f"/proc/{server.pid}/task").glob("*/children")
    (child,) = [int(n) for path in children for n in path.read_text().split()]
    server.kill()
    server.wait()
    server.stdout.close()
    for _ in range(200):
        if not _runs(child):
            return
        time.sleep(0.05)
    os.kill(child, 9)
    pytest.fail("the solve outlived its server")


def _runs(process):
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
