"""How much of a device's peaks real kernels reach: a small JSON file.

```json
{"schema": "encamp.calibration/1", "device": "h100-sxm",
 "rate_scale": 0.6, "bandwidth_scale": 0.8, "launch_ns": 4200}
```
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from encamp.errors import WireError

SCHEMA = "encamp.calibration/1"


@dataclass(frozen=True, slots=True)
class Calibration:
    """The shares of the peak rates and of the bandwidth reached, and the launch."""

    device: str
    rate_scale: float
    bandwidth_scale: float
    launch_ns: int


def write_calibration(calibration: Calibration, path: Path | str) -> None:
    """Write the file that `read_calibration` reads."""
    document = {"schema": SCHEMA, **asdict(calibration)}
    Path(path).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def read_calibration(path: Path | str) -> Calibration:
    """Read a calibration file, strictly.

    Raises:
        WireError: the file cannot be read, is not JSON, or a field is missing,
            unknown or out of range; the message names the file and the field.

    """
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        msg = f"{path}: not a calibration file: {error}"
        raise WireError(msg) from error
    try:
        return _calibration(document)
    except ValueError as error:
        msg = f"{path}: {error}"
        raise WireError(msg) from None


def _calibration(document: Any) -> Calibration:  # noqa: ANN401 -- whatever JSON holds
    """Return the document's content; ValueError says what is wrong with it."""
    names = {"schema", *_FIELDS}
    if not isinstance(document, dict) or set(document) != names:
        found = sorted(document) if isinstance(document, dict) else document
        msg = f"expected an object with exactly {sorted(names)}, got {found!r:.200}"
        raise ValueError(msg)
    if document["schema"] != SCHEMA:
        msg = f"$.schema: expected {SCHEMA!r}, got {document['schema']!r}"
        raise ValueError(msg)
    content = {name: document[name] for name in _FIELDS}
    for name, (is_valid, expected) in _FIELDS.items():
        if not is_valid(content[name]):
            msg = f"$.{name}: expected {expected}, got {content[name]!r}"
            raise ValueError(msg)
    return Calibration(**content)


def _is_scale(value: Any) -> bool:  # noqa: ANN401 -- whatever JSON holds
    return type(value) in {int, float} and 0 < value < 1000


def _is_launch(value: Any) -> bool:  # noqa: ANN401 -- whatever JSON holds
    return type(value) is int and 0 <= value < 10**9


_FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "device": (lambda value: isinstance(value, str), "a device's name"),
    "rate_scale": (_is_scale, "a number above 0 and below 1000"),
    "bandwidth_scale": (_is_scale, "a number above 0 and below 1000"),
    "launch_ns": (_is_launch, "whole nanoseconds from 0 to below 1e9"),
}
