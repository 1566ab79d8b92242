"""Train a small GPT-2: unplanned, planned at half its peak, by PyTorch's own budget.

`make demo` runs it. The three take turns, a step each, so that whatever else the
machine does slows all of them alike. Writes graph, plan and picture to `demo/`.
"""

from __future__ import annotations

import argparse
import functools
import sys
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from benchmarks.partitioner import SETTINGS, StockStep, stock_step
from torch import nn
from torch._functorch import config as functorch_config

import encamp
from encamp.api.cli.progress import progress
from encamp.api.pictures import draw_memory
from encamp.graph import CostGraph
from encamp.plan import Plan
from encamp.runtime.verification import unplanned_step
from encamp.tracer.capture import capture
from encamp.tracer.costs import cost_source
from encamp.tracer.meter import best_meter
from encamp.wire import write_graph, write_plan

from .demo_table import Contender, print_result
from .language_model import batches, model, step
from .trainer import Trainer

BUDGET = "peak*0.5"
FOLDER = Path("demo")


def main() -> None:
    """Trace, plan, train, compare."""
    arguments = _arguments()
    warnings.simplefilter("ignore")  # other people's; ours are errors
    graph = _trace()
    plan = encamp.plan(graph, BUDGET)
    _write(graph, plan, arguments.folder)
    stock = _stock_steps(nearest_to=plan.peak_bytes)
    unplanned, planned, other = _train(plan, stock[0], arguments.steps)
    contenders = (
        Contender.of("unplanned", graph, None, unplanned),
        Contender.of(f"encamp, {BUDGET}", graph, plan, planned),
        Contender.of_stock(graph, stock[0], other),
    )
    print_result(plan, stock, contenders)
    print(f"\nwrote {', '.join(str(p) for p in sorted(arguments.folder.iterdir()))}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30, help="training steps")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where to write")
    return parser.parse_args()


def _tell(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def _trace() -> CostGraph:
    _tell("tracing the training step, and measuring what its operators cost")
    made, args, kwargs = step()
    with progress("measuring operators") as report:
        return encamp.trace(made, args, kwargs, name="GPT-2 demo", progress=report)


def _write(graph: CostGraph, plan: Plan, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_graph(graph, folder / "graph.json.zst")
    write_plan(plan, folder / "plan.json")
    draw_memory(graph, plan, folder / "memory.png")


def _stock_steps(*, nearest_to: int) -> list[StockStep]:
    """Return PyTorch's step at each setting, that of the nearest peak first."""
    _tell("looking for PyTorch's activation_memory_budget with the nearest peak")
    joint, costs = capture(*step()), cost_source("measured")
    steps = []
    with progress("trying settings") as report:
        for done, setting in enumerate(SETTINGS, 1):
            steps.append(stock_step(joint, setting, costs))
            report(done, len(SETTINGS))
    return sorted(steps, key=lambda s: abs(s.timeline.peak_bytes - nearest_to))


def _train(plan: Plan, stock: StockStep, steps: int) -> list[Trainer]:
    """Train three copies of the model, from the same weights, on the same batches."""
    _tell(f"training: {steps} steps each, taking turns")
    start, meter = model(), best_meter("cpu")
    trainers = [
        Trainer(start, unplanned_step),
        Trainer(start, functools.partial(_applied, plan)),
        Trainer(start, _stock, functools.partial(_budget, stock.setting)),
    ]
    given = batches(steps)
    with progress("training steps") as report:
        for done, batch in enumerate(given, 1):
            for trainer in trainers:
                trainer.advance(batch, meter if done == steps else None)
            report(done, steps)
    return trainers


def _applied(plan: Plan, made: nn.Module) -> Callable[..., Any]:
    return encamp.apply(made, plan=plan)


def _stock(made: nn.Module) -> Callable[..., Any]:
    return torch.compile(made, backend="aot_eager", dynamic=False)


def _budget(setting: float) -> AbstractContextManager[object]:
    settings: AbstractContextManager[object] = functorch_config.patch(
        activation_memory_budget=setting
    )
    return settings


if __name__ == "__main__":
    main()
