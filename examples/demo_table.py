"""The demo's one table, and what it means in sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.partitioner import StockStep
from rich.console import Console
from rich.table import Table

from encamp.graph import CostGraph
from encamp.plan import Order, Plan
from encamp.replay import replay
from encamp.units import format_bytes, format_duration

from .trainer import Trainer


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to run the step: what was predicted, and how it trained."""

    name: str
    peak_bytes: int
    duration_ns: int
    again_ns: int
    resident_bytes: int
    trainer: Trainer

    @classmethod
    def of(
        cls, name: str, graph: CostGraph, plan: Plan | None, trainer: Trainer
    ) -> Contender:
        """Return the contender that runs `graph` as planned, or unplanned."""
        found = replay(graph, plan.steps if plan is not None else None)
        again = found.duration_ns - graph.duration_ns
        return cls(
            name=name,
            peak_bytes=found.peak_bytes,
            duration_ns=found.duration_ns,
            again_ns=again,
            resident_bytes=graph.resident_bytes,
            trainer=trainer,
        )

    @classmethod
    def of_stock(
        cls, graph: CostGraph, stock: StockStep, trainer: Trainer
    ) -> Contender:
        """Return the contender that PyTorch's partitioner makes."""
        return cls(
            name=f"PyTorch, {stock.setting:g}",
            peak_bytes=stock.timeline.peak_bytes,
            duration_ns=stock.timeline.duration_ns,
            again_ns=stock.again_ns,
            resident_bytes=graph.resident_bytes,
            trainer=trainer,
        )

    @property
    def median_ns(self) -> int:
        """Measured duration of forward and backward, the median of the steps."""
        return self.trainer.median_ns

    @property
    def measured_bytes(self) -> int:
        """Measured peak of forward and backward, residents included."""
        return self.resident_bytes + self.trainer.peak_bytes


def print_result(
    plan: Plan, stock: Sequence[StockStep], contenders: Sequence[Contender]
) -> None:
    """Print the table and what it shows; the first of `stock` is the one that ran."""
    console = Console(width=88, highlight=False)
    console.print(_table(contenders))
    unplanned, planned, other = contenders
    for line in (
        _beside(unplanned),
        _proof(plan),
        _parity(unplanned.trainer, planned.trainer),
        _stock_parity(stock[0], unplanned.trainer, other.trainer),
        _fastest(stock, plan),
    ):
        console.print(f"- {line}")


def _table(contenders: Sequence[Contender]) -> Table:
    first = contenders[0]
    steps = len(first.trainer.losses)
    table = Table(title=f"GPT-2, 6 layers, width 384: one step, and {steps} of them")
    table.add_column("")
    for contender in contenders:
        table.add_column(contender.name, justify="right")
    rows: dict[str, Callable[[Contender], str]] = {
        "peak, predicted": lambda c: _decimal(c.peak_bytes),
        "peak, measured": lambda c: _measured(c.measured_bytes, c.peak_bytes),
        "  of the unplanned": lambda c: _share(c.measured_bytes, first.measured_bytes),
        "step, predicted": lambda c: _time(c.duration_ns, first.duration_ns),
        "step, measured": lambda c: _time(c.median_ns, first.median_ns),
        "recomputed share": lambda c: _share(c.again_ns, first.duration_ns),
        f"loss, step {steps}": lambda c: f"{c.trainer.losses[-1]:.7f}",
    }
    for what, cell in rows.items():
        table.add_row(what, *map(cell, contenders))
    return table


def _decimal(number: int) -> str:
    return format_bytes(number).partition(" (")[0]


def _measured(measured: int, predicted: int) -> str:
    return f"{_decimal(measured)} ({measured - predicted:+,} B)"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %"


def _time(duration_ns: int, unplanned_ns: int) -> str:
    longer = duration_ns / unplanned_ns - 1
    return f"{format_duration(duration_ns)} ({100 * longer:+.1f} %)"


def _beside(unplanned: Contender) -> str:
    state = format_bytes(unplanned.trainer.optimizer_bytes)
    return (
        "peaks are of forward and backward, parameters and batch included; the"
        f" optimizer's state, {state}, lies beside all three"
    )


def _proof(plan: Plan) -> str:
    bound = format_duration(plan.certificate.lower_bound_ns)
    given = plan.certificate.order is Order.GIVEN
    order = " with first runs in the graph's order" if given else ""
    return (
        f"no schedule{order} within {format_bytes(plan.budget_bytes)} takes less than"
        f" {bound} (proven): the plan is within {100 * plan.gap:.2f} % of it"
    )


def _parity(unplanned: Trainer, planned: Trainer) -> str:
    same = unplanned.losses == planned.losses and unplanned.weights == planned.weights
    verdict = "equal bit for bit" if same else "DIFFERENT"
    steps = len(unplanned.losses)
    return (
        f"unplanned and planned: the losses of all {steps} steps and the weights after"
        f" them are {verdict}"
    )


def _stock_parity(stock: StockStep, unplanned: Trainer, other: Trainer) -> str:
    """Say whether PyTorch's step is the unplanned one, and if not, what it did."""
    again = f"runs {stock.drawn_again} random ops again"
    if unplanned.first_gradients == other.first_gradients:
        return (
            f"PyTorch's budget {again}; the gradients of step 1 are equal bit for bit"
        )
    loss = "the same" if unplanned.losses[0] == other.losses[0] else "another"
    drew = unplanned.first_random_state != other.first_random_state
    why = " and draws anew for them" if drew else ""
    return (
        f"PyTorch's budget {again}{why}: step 1 has {loss} loss, but other gradients,"
        " of masks that the forward did not use (pytorch/pytorch#190758)"
    )


def _fastest(stock: Sequence[StockStep], plan: Plan) -> str:
    """Say how PyTorch would do best within the budget."""
    fitting = [s for s in stock if s.timeline.peak_bytes <= plan.budget_bytes]
    if not fitting:
        return "no setting of PyTorch's budget fits the plan's"
    best = min(fitting, key=lambda s: s.again_ns)
    peak = _share(best.timeline.peak_bytes, plan.unplanned.peak_bytes)
    again = _share(best.again_ns, plan.unplanned.duration_ns)
    return (
        f"within the plan's budget PyTorch recomputes least at {best.setting:g}:"
        f" {again} of the step, at {peak} of the peak (predicted)"
    )
