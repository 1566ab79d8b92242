"""A job's summary in Markdown: what each plan needs, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from encamp.units import format_bytes

_HEAD = ("graph", "budget", "peak", "added time", "proven", "gap", "runs", "state")
_SIGNS = ("---", "---:", "---:", "---:", "---:", "---:", "---:", "---")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """One plan. `overhead`, `before` and `bound` are shares of the unplanned step.

    `before` is the overhead it had, where there is one to compare with.
    """

    name: str
    budget_bytes: int
    peak_bytes: int
    overhead: float
    bound: float
    gap: float
    recomputations: int
    state: str
    before: float | None = None


def markdown(rows: Sequence[PlanRow], problems: Iterable[tuple[str, str]] = ()) -> str:
    """Return a summary of plans; `problems` are pairs of a title and a text."""
    lines = ["### Encamp: activation checkpoint plans", ""]
    lines += [_row(_HEAD), _row(_SIGNS), *(_row(_cells(row)) for row in rows), ""]
    found = [f"- **{_plain(title)}**: {_plain(text)}" for title, text in problems]
    if found:
        noun = "problem" if len(found) == 1 else "problems"
        lines += [f"{len(found)} {noun}:", "", *found, ""]
    return "\n".join(lines)


def _cells(row: PlanRow) -> tuple[str, ...]:
    return (
        _plain(row.name),
        format_bytes(row.budget_bytes),
        format_bytes(row.peak_bytes),
        _added(row),
        _percent(row.bound),
        _percent(row.gap),
        f"+{row.recomputations:,}",
        _plain(row.state),
    )


def _added(row: PlanRow) -> str:
    now = _percent(row.overhead)
    if row.before is None or _percent(row.before) == now:
        return now
    return f"{now} (was {_percent(row.before)})"


def _percent(share: float) -> str:
    return f"{share * 100:.2f} %"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _plain(text: str) -> str:
    """Return text that ends neither a cell nor a line, nor becomes HTML."""
    one_line = " ".join(text.split())
    for sign, told in (("\\", "\\\\"), ("|", "\\|"), ("<", "&lt;"), ("`", "\\`")):
        one_line = one_line.replace(sign, told)
    return one_line
