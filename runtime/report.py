"""What verifying a planned step found: parity, peaks and times."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from encamp.units import format_bytes, format_duration

from .bisection import Suspect

TOLERANCE = 0.01
"""How far a measured peak, workspaces included, may be from the predicted one."""


@dataclass(frozen=True, slots=True)
class PeakPair:
    """A peak in bytes as the replay predicts it and as a meter measured it."""

    predicted: int
    measured: int

    @property
    def difference(self) -> float:
        """Return (measured - predicted) as a share of the predicted peak."""
        return self.measured / self.predicted - 1


@dataclass(frozen=True, slots=True)
class StepFigures:
    """Peaks and duration of one step, planned or unplanned.

    `peak` counts everything the allocator hands out; `storages` leaves out what
    kernels allocate beside their outputs.
    """

    peak: PeakPair
    storages: PeakPair
    predicted_ns: int
    measured_ns: int


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of `encamp.verify`.

    `differences` names every tensor that is not bit for bit that of the unplanned
    step, with the step it first differed in. `ok` is whether there is no difference,
    the peak of storages is the predicted one to the byte, and the allocator's peak is
    within the budget and within `TOLERANCE` of the predicted one. Where something
    differs, `suspect` is the first operation that did not repeat itself, and
    `explanation` says what follows.
    """

    name: str
    budget_bytes: int
    steps: int
    compared: int
    differences: tuple[str, ...]
    planned: StepFigures
    unplanned: StepFigures
    recomputed_ops: int
    num_ops: int
    meter: str
    suspect: Suspect | None = None
    explanation: str = ""

    @property
    def findings(self) -> tuple[str, ...]:
        """Return what is wrong, one sentence each; empty where all is well."""
        return (*self.differences, *self._memory_findings())

    @property
    def ok(self) -> bool:
        """Return whether nothing is wrong."""
        return not self.findings

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Return (what, unplanned, planned, note) rows for a table."""
        return [
            self._peak_row("peak, allocator", "peak"),
            self._peak_row("peak, storages only", "storages"),
            (
                "step time",
                _time_pair(self.unplanned),
                _time_pair(self.planned),
                f"{self._slowdown():+.1%} measured",
            ),
            ("recomputed ops", "0", f"{self.recomputed_ops} of {self.num_ops}", ""),
            ("bit for bit", "-", self._parity(), f"{self.steps} steps"),
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        return {**asdict(self), "ok": self.ok, "findings": list(self.findings)}

    def _memory_findings(self) -> list[str]:
        found = []
        storages, peak = self.planned.storages, self.planned.peak
        if storages.measured != storages.predicted:
            found.append(
                f"storages peak at {storages.measured} bytes, predicted were"
                f" {storages.predicted}"
            )
        if abs(peak.difference) > TOLERANCE:
            found.append(
                f"the allocator peaks {peak.difference:+.2%} from the prediction:"
                f" {format_bytes(peak.measured)} against {format_bytes(peak.predicted)}"
            )
        if peak.measured > self.budget_bytes:
            found.append(
                f"the allocator peaks at {format_bytes(peak.measured)}, over the budget"
                f" of {format_bytes(self.budget_bytes)}"
            )
        return found

    def _peak_row(self, what: str, which: str) -> tuple[str, str, str, str]:
        before: PeakPair = getattr(self.unplanned, which)
        after: PeakPair = getattr(self.planned, which)
        exact = "to the byte" if after.measured == after.predicted else ""
        note = exact or f"{after.difference:+.3%} from predicted"
        return what, _peak_pair(before), _peak_pair(after), note

    def _slowdown(self) -> float:
        return self.planned.measured_ns / self.unplanned.measured_ns - 1

    def _parity(self) -> str:
        if not self.differences:
            return f"all {self.compared} tensors"
        return f"{len(self.differences)} of {self.compared} tensors differ"


def _peak_pair(pair: PeakPair) -> str:
    measured, predicted = format_bytes(pair.measured), format_bytes(pair.predicted)
    return f"{measured}; predicted {predicted}"


def _time_pair(figures: StepFigures) -> str:
    measured = format_duration(figures.measured_ns)
    return f"{measured}; predicted {format_duration(figures.predicted_ns)}"
