"""Choose a cost source by how it is written on the command line."""

from __future__ import annotations

from pathlib import Path

import torch

from encamp.errors import CostError

from .calls import CostSource

_ROOFLINE = "roofline:"


def cost_source(
    spec: str,
    *,
    device: torch.device | str = "cpu",
    cache_dir: Path | str | None = None,
    calibration: Path | str | None = None,
) -> CostSource:
    """Return the cost source that `spec` names: "measured" or "roofline:NAME".

    `device` and `cache_dir` are for measuring: where, and where to keep the costs.
    `calibration` is a file that corrects a device of the table.

    Raises:
        CostError: `spec` is neither, names no known device, or cannot be measured
            here; or a calibration is given for measured costs.
        WireError: the calibration file cannot be used.

    """
    # Imported here: a program that only plans pays for neither.
    if spec == "measured":
        from .profile import MeasuredCosts  # noqa: PLC0415

        if calibration is not None:
            msg = "a calibration corrects costs='roofline:NAME', not measured ones"
            raise CostError(msg)
        return MeasuredCosts(device, cache_dir)
    if spec.startswith(_ROOFLINE):
        from .calibration import read_calibration  # noqa: PLC0415
        from .roofline import RooflineCosts  # noqa: PLC0415

        correction = read_calibration(calibration) if calibration is not None else None
        return RooflineCosts(spec.removeprefix(_ROOFLINE), correction)
    msg = (
        f"costs are 'measured' or 'roofline:NAME' (as in 'roofline:h100-sxm';"
        f" `encamp devices` lists the names), not {spec!r}"
    )
    raise CostError(msg)
