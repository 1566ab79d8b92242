"""Bytes and durations: parse what people write, print what both camps read.

Bytes and nanoseconds are integers everywhere in Encamp; decimal and binary units
are different words (`16GB` is 16,000,000,000 bytes, `16GiB` is 17,179,869,184).
"""

from __future__ import annotations

import re
from decimal import Decimal

from .errors import UnitError

_BYTES = {
    "": 1,
    "b": 1,
    **{f"{p}b": 1000**k for k, p in enumerate("kmgtp", 1)},
    **{f"{p}ib": 1024**k for k, p in enumerate("kmgtp", 1)},
}
_NANOSECONDS = {"ns": 1, "us": 1000, "µs": 1000, "ms": 10**6, "s": 10**9}
_NUMBER = r"(?P<number>\d+(?:\.\d*)?(?:e[+-]?\d+)?)"
_QUANTITY = re.compile(_NUMBER + r"\s*(?P<unit>[a-zµ]*)", re.IGNORECASE)
_PERCENT = re.compile(_NUMBER + r"\s*%", re.IGNORECASE)
_OF_PEAK = re.compile(r"peak\s*\*\s*" + _NUMBER, re.IGNORECASE)
_FORMS = "write bytes as 17179869184, '16GiB' or '16GB'"


def parse_bytes(text: str | int) -> int:
    """Return the bytes that `text` names, e.g. "16GiB", "13.7e6" or 1024.

    A bare number is bytes; fractions of a byte are rounded down.

    Raises:
        UnitError: `text` is no size.

    """
    if isinstance(text, int) and not isinstance(text, bool):
        if text < 0:
            msg = f"a size cannot be negative: {text}"
            raise UnitError(msg)
        return text
    match = _QUANTITY.fullmatch(str(text).strip())
    scale = _BYTES.get(match["unit"].lower()) if match else None
    if match is None or scale is None:
        msg = f"not a size: {text!r}; {_FORMS}"
        raise UnitError(msg)
    return int(Decimal(match["number"]) * scale)


def parse_budget(
    text: str | int, *, unplanned_peak: int, device_bytes: int | None
) -> int:
    """Return the budget in bytes that `text` names.

    Besides the sizes of `parse_bytes`: "90%" is of the device's memory and
    "peak*0.6" is of the unplanned peak, which includes what is resident.

    Raises:
        UnitError: `text` is no budget, or asks for a share of a device whose
            memory the graph does not record.

    """
    spelled = str(text).strip()
    if match := _OF_PEAK.fullmatch(spelled):
        return int(Decimal(match["number"]) * unplanned_peak)
    if match := _PERCENT.fullmatch(spelled):
        if device_bytes is None:
            msg = (
                f"budget {text!r} is a share of the device's memory, which this graph"
                f" does not record; {_FORMS}, or 'peak*0.6' of the unplanned peak"
            )
            raise UnitError(msg)
        return int(Decimal(match["number"]) * device_bytes / 100)
    try:
        return parse_bytes(text)
    except UnitError as error:
        msg = f"{error}, '90%' of the device or 'peak*0.6' of the unplanned peak"
        raise UnitError(msg) from None


def parse_duration(text: str) -> int:
    """Return the nanoseconds that `text` names, e.g. "1.5ms" or "20 us".

    Raises:
        UnitError: `text` is no duration with a unit.

    """
    match = _QUANTITY.fullmatch(text.strip())
    scale = _NANOSECONDS.get(match["unit"].lower()) if match else None
    if match is None or scale is None:
        msg = f"not a duration: {text!r}; write it as '1.5ms', '20us' or '3s'"
        raise UnitError(msg)
    return int(Decimal(match["number"]) * scale)


def _scaled(number: int, base: int, suffixes: tuple[str, ...]) -> str:
    size, suffix = float(number), suffixes[0]
    for larger in suffixes[1:]:
        if abs(size) < base:
            break
        size, suffix = size / base, larger
    return f"{number} {suffix}" if suffix == suffixes[0] else f"{size:.2f} {suffix}"


def format_bytes(number: int) -> str:
    """Return `number` bytes in decimal units and, in brackets, binary ones.

    >>> format_bytes(17_179_869_184)
    '17.18 GB (16.00 GiB)'
    >>> format_bytes(512)
    '512 B'
    """
    decimal = _scaled(number, 1000, ("B", "kB", "MB", "GB", "TB", "PB"))
    if abs(number) < 1000:
        return decimal
    return f"{decimal} ({_scaled(number, 1024, ('B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'))})"


def format_duration(nanoseconds: int) -> str:
    """Return a duration in the largest unit that keeps it above one.

    >>> format_duration(81_234)
    '81.23 us'
    """
    return _scaled(nanoseconds, 1000, ("ns", "us", "ms", "s"))
