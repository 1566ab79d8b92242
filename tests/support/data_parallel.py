"""One rank of a data-parallel training: run as a program, by the test of case S04.

It trains the case unplanned and on the plan of a file, both under
DistributedDataParallel over gloo, and writes what it found as JSON.
"""

import json
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from cases import SquaredMean
from encamp.errors import CaptureError
from encamp.runtime.backend import EncampBackend
from encamp.runtime.compiling import compile_with
from encamp.runtime.options import StepOptions
from encamp.runtime.verification import unplanned_step
from encamp.tracer.calls import OpCost
from training_cases import block_used_thrice

STEPS = 3


class JitteredCosts:
    """Costs that differ by up to a fifth from rank to rank, as profiles do."""

    def __init__(self, rank: int) -> None:
        """Start the rank's own chance."""
        self.meta = {"costs": f"jittered on rank {rank}"}
        self._chance = torch.Generator().manual_seed(rank)

    def costs(self, calls, progress=None):
        """Return 1000 ns for each call, give or take 200."""
        del progress
        jitter = torch.randint(-200, 201, (len(calls),), generator=self._chance)
        return [OpCost(1000 + extra) for extra in jitter.tolist()]


def trained(step, model, x):
    """Train some steps and return the gradients and parameters of the last."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        step(x).backward()
        optimizer.step()
    parameters = list(model.parameters())
    return [p.grad for p in parameters] + [p.detach() for p in parameters]


def reference(rank):
    """Train the case unplanned, its step captured as the planned one is."""
    model, (x,) = block_used_thrice(rank)
    parallel = DistributedDataParallel(model)
    parallel.module = unplanned_step(model)
    return trained(parallel, model, x)


def planned(rank, plan, *, outside):
    """Train the case on a plan: outside of data parallelism, or inside of it."""
    model, (x,) = block_used_thrice(rank)
    backend = EncampBackend(StepOptions(plan=plan, costs=JitteredCosts(rank)))
    if outside:
        step = compile_with(DistributedDataParallel(model), backend)
    else:
        step = DistributedDataParallel(compile_with(model, backend))
    left = trained(step, model, x)
    (compiled,) = backend.planned
    durations = [op.duration_ns for op in compiled.lowered.graph.ops]
    return left, list(compiled.bound.timeline.steps), durations


def refusal_of_buckets():
    """Return what is said of a model that DistributedDataParallel would split."""
    layers = torch.nn.Linear(16, 1024), torch.nn.Linear(1024, 512)
    wide = SquaredMean(torch.nn.Sequential(*layers, torch.nn.Linear(512, 512)))
    options = StepOptions(budget="1GiB", costs="roofline:cpu")
    parallel = DistributedDataParallel(wide, bucket_cap_mb=1)
    try:
        compile_with(parallel, EncampBackend(options))(torch.ones(2, 16))
    except CaptureError as error:
        return str(error)
    return "not refused"


def run(rank, plan):
    """Return what this rank found."""
    expected = reference(rank)
    inside, steps, durations = planned(rank, plan, outside=False)
    outside, same_steps, _ = planned(rank, plan, outside=True)
    pairs = (inside, expected), (outside, expected)
    return {
        "steps": [steps, same_steps],
        "durations": durations,
        "alike": [all(map(torch.equal, *pair)) for pair in pairs],
        "refusal": refusal_of_buckets(),
        "gradient": expected[0].flatten()[:4].tolist(),
    }


def main():
    """Join the other rank, train, and write the findings."""
    torch.set_num_threads(1)
    rank, meeting, plan, report = int(sys.argv[1]), *sys.argv[2:]
    dist.init_process_group(
        "gloo",
        init_method=Path(meeting).as_uri(),
        rank=rank,
        world_size=2,
        timeout=timedelta(seconds=120),
    )
    Path(report).write_text(json.dumps(run(rank, plan)), encoding="utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
