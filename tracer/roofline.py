"""What operator calls cost on a device from a table, by the roofline model.

A call takes its launch and then the longer of computing at the device's peak rate and
moving its bytes at the device's bandwidth (Williams, Waterman, Patterson: "Roofline",
CACM 52(4), 2009). Without a calibration both are reached in full, so durations are
lower bounds; their proportions are what a plan needs.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import torch

from encamp.devices import Device, find_device
from encamp.errors import CostError

from .calibration import Calibration
from .call_text import describe
from .calls import OpCall, OpCost, Progress
from .work import Work, work_of


class RooflineCosts:
    """A cost source that computes costs for a device that need not be here.

    Workspaces are 0: how much a kernel allocates beside its outputs is decided on the
    device. Leave a reserve for them (`--reserve`), or measure there.
    """

    def __init__(self, name: str, calibration: Calibration | None = None) -> None:
        """Estimate for the device called `name`, corrected by the calibration.

        Raises:
            CostError: no device has that name, or the calibration is another's.

        """
        self._device = find_device(name)
        if calibration and find_device(calibration.device) is not self._device:
            msg = (
                f"the calibration is of {calibration.device!r}, not of"
                f" {self._device.slug!r}"
            )
            raise CostError(msg)
        self._calibration = calibration

    @property
    def meta(self) -> Mapping[str, str | int]:
        """What the graph records: the device's row, and its calibration if any."""
        memory = self._device.memory_bytes
        found: dict[str, str | int] = {
            "costs": f"roofline:{self._device.slug}",
            "device": self._device.name,
        }
        if memory is not None:
            found["device_memory_bytes"] = memory
        if (own := self._calibration) is not None:
            found["calibration"] = (
                f"rate x {own.rate_scale:g}, bandwidth x {own.bandwidth_scale:g},"
                f" launch {own.launch_ns} ns"
            )
        return found

    def costs(
        self, calls: Sequence[OpCall], progress: Progress | None = None
    ) -> list[OpCost]:
        """Return the cost of each call; `progress` counts distinct ones.

        Raises:
            CostError: an operator does not run on fake tensors.

        """
        descriptions = [describe(call) for call in calls]
        distinct = dict(zip(descriptions, calls, strict=True))
        known: dict[str, OpCost] = {}
        for description, call in distinct.items():
            known[description] = OpCost(self._duration(work_of(call)))
            if progress is not None:
                progress(len(known), len(distinct))
        return [known[description] for description in descriptions]

    def _duration(self, work: Work) -> int:
        own = self._calibration
        rate_scale = own.rate_scale if own else 1.0
        bandwidth_scale = own.bandwidth_scale if own else 1.0
        launch_ns = own.launch_ns if own else self._device.launch_ns
        compute, move = _bare_ns(work, self._device)
        return launch_ns + round(max(compute / rate_scale, move / bandwidth_scale))


def fit_calibration(
    name: str, calls: Sequence[OpCall], measured: Sequence[OpCost]
) -> Calibration:
    """Return the calibration with which the roofline meets measured costs best.

    The launch is the shortest duration. Each scale is the median, over the calls
    that the model says are bound by it and that take at least twice the launch, of
    the share of the peak that the call reached; 1 where there are no such calls.

    Raises:
        CostError: there is no such device, or there are no calls.

    """
    device = find_device(name)
    if not calls:
        msg = "a calibration needs at least one measured call"
        raise CostError(msg)
    launch_ns = min(cost.duration_ns for cost in measured)
    reached: dict[bool, list[float]] = {True: [], False: []}
    for call, cost in zip(calls, measured, strict=True):
        compute, move = _bare_ns(work_of(call), device)
        rest = cost.duration_ns - launch_ns
        if rest >= launch_ns and max(compute, move) > 0:
            reached[compute > move].append(max(compute, move) / max(1, rest))
    rate_scale, bandwidth_scale = (
        statistics.median(reached[bound]) if reached[bound] else 1.0
        for bound in (True, False)
    )
    return Calibration(device.slug, rate_scale, bandwidth_scale, launch_ns)


def _bare_ns(work: Work, device: Device) -> tuple[float, float]:
    """Return the ns of computing and of moving, each at the device's peak."""
    kind = work.kind
    if kind == "float32" and torch.get_float32_matmul_precision() != "highest":
        kind = "tf32"
    compute = work.operations / device.rate(kind) * 1e9
    return compute, work.bytes / device.bytes_per_second * 1e9
