"""Bytes and durations: parse what people write, print what both camps read.

Bytes and nanoseconds are integers everywhere in Encamp; decimal and binary units
are different words (`16GB` is 16,000,000,000 bytes, `16GiB` is 17,179,869,184).
"""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from .errors import UnitError

_BYTES = {
    "": 1,
    "b": 1,
    **{f"{p}b": 1000**k for k, p in enumerate("kmgtp", 1)},
    **{f"{p}ib": 1024**k for k, p in enumerate("kmgtp", 1)},
}
_NANOSECONDS = {"ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 10**6, "s": 10**9}
_NUMBER = r"(?P<number>\d+(?:\.\d*)?(?:e[+-]?\d+)?)"
_QUANTITY = re.compile(_NUMBER + r"\s*(?P<unit>[a-zµμ]*)", re.IGNORECASE)
_PERCENT = re.compile(_NUMBER + r"\s*%", re.IGNORECASE)
_OF_PEAK = re.compile(r"peak\s*\*\s*" + _NUMBER, re.IGNORECASE)
_BYTE_FORMS = "write bytes as 17179869184, '16GiB' or '16GB'"
_BUDGET_FORMS = (
    f"{_BYTE_FORMS}, '90%' of the device or 'peak*0.6' of the unplanned peak"
)
_DURATION_FORMS = "write it as '1.5ms', '20us' or '3s'"
_LARGEST = 2**60
_MAGNITUDE = 30
"""Powers of ten beyond which a number is too large, or nothing, at any scale."""
_DECIMAL_SUFFIXES = ("B", "kB", "MB", "GB", "TB", "PB")
_BINARY_SUFFIXES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def parse_bytes(text: str | int) -> int:
    """Return the bytes that `text` names, e.g. "16GiB", "13.7e6" or 1024.

    A bare number is bytes; fractions of a byte are rounded down.

    Raises:
        UnitError: `text` is no size.

    """
    spelled = str(text).strip()
    match = _QUANTITY.fullmatch(spelled)
    scale = _BYTES.get(match["unit"].lower()) if match else None
    if match is None or scale is None:
        msg = f"not a size: {text!r}; {_BYTE_FORMS}"
        raise UnitError(msg)
    return _whole(spelled, match["number"], scale)


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
        return _whole(spelled, match["number"], unplanned_peak)
    if match := _PERCENT.fullmatch(spelled):
        if device_bytes is None:
            msg = (
                f"budget {text!r} is a share of the device's memory, which this graph"
                f" does not record; {_BYTE_FORMS}, or 'peak*0.6' of the unplanned peak"
            )
            raise UnitError(msg)
        return _whole(spelled, match["number"], Fraction(device_bytes, 100))
    match = _QUANTITY.fullmatch(spelled)
    if match is None or match["unit"].lower() not in _BYTES:
        msg = f"not a budget: {text!r}; {_BUDGET_FORMS}"
        raise UnitError(msg)
    return parse_bytes(spelled)


def parse_duration(text: str) -> int:
    """Return the nanoseconds that `text` names, e.g. "1.5ms" or "20 us".

    Raises:
        UnitError: `text` is no duration with a unit.

    """
    spelled = text.strip()
    match = _QUANTITY.fullmatch(spelled)
    scale = _NANOSECONDS.get(match["unit"].lower()) if match else None
    if match is None or scale is None:
        msg = f"not a duration: {text!r}; {_DURATION_FORMS}"
        raise UnitError(msg)
    return _whole(spelled, match["number"], scale)


def _whole(text: str, number: str, scale: int | Fraction) -> int:
    """Return `number` times `scale`, exactly, rounded down."""
    # Looked at as a decimal first: a fraction would spell out a huge exponent.
    try:
        magnitude = Decimal(number).adjusted()
    except InvalidOperation:
        magnitude = _MAGNITUDE + 1
    if magnitude < -_MAGNITUDE:
        return 0
    if magnitude <= _MAGNITUDE:
        amount = math.floor(Fraction(Decimal(number)) * scale)
        if amount <= _LARGEST:
            return amount
    msg = f"{text!r} is out of range; Encamp counts from 0 to {_LARGEST}"
    raise UnitError(msg)


def _scaled(number: int, base: int, suffixes: tuple[str, ...]) -> str:
    size, suffix = float(number), suffixes[0]
    for larger in suffixes[1:]:
        # By what is printed: 999,999 ns is 1.00 ms rather than 1000.00 us.
        if round(abs(size), 2) < base:
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
    decimal = _scaled(number, 1000, _DECIMAL_SUFFIXES)
    if abs(number) < 1000:
        return decimal
    return f"{decimal} ({_scaled(number, 1024, _BINARY_SUFFIXES)})"


def format_duration(nanoseconds: int) -> str:
    """Return a duration in the largest unit that keeps it at one or above.

    >>> format_duration(81_234)
    '81.23 us'
    """
    return _scaled(nanoseconds, 1000, ("ns", "us", "ms", "s"))
