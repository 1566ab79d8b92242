"""Figures as the results print them."""

from __future__ import annotations

from encamp.units import format_bytes, format_duration


def percent(share: float, digits: int = 2) -> str:
    """Return a share in percent.

    >>> percent(0.12345)
    '12.35 %'
    """
    return f"{100 * share:.{digits}f} %"


def size(number: int) -> str:
    """Return bytes in a decimal unit.

    >>> size(410_620_936)
    '410.62 MB'
    """
    return format_bytes(number).partition(" (")[0]


def time(nanoseconds: int) -> str:
    """Return a duration."""
    return format_duration(nanoseconds)


def seconds(number: float) -> str:
    """Return seconds with one digit.

    >>> seconds(12.04)
    '12.0 s'
    """
    return f"{number:.1f} s"


def table(columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> str:
    """Return a Markdown table; all columns but the first are aligned to the right.

    >>> print(table(("a", "b"), (("x", "1"),)))
    | a | b |
    | :-- | --: |
    | x | 1 |
    """
    rules = (":--", *("--:" for _ in columns[1:]))
    return "\n".join(f"| {' | '.join(row)} |" for row in (columns, rules, *rows))
