"""What commands print: aligned lines for people, one JSON document for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import typer


def print_lines(lines: Iterable[str]) -> None:
    """Print lines on stdout."""
    for line in lines:
        typer.echo(line)


def print_json(document: object) -> None:
    """Print one indented JSON document on stdout."""
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))


def note(message: str) -> None:
    """Print one line about what happens on stderr."""
    typer.echo(message, err=True)


def fields(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Return "label   text" lines with the texts aligned."""
    pairs = list(rows)
    width = max((len(label) for label, _ in pairs), default=0)
    return [f"{label:<{width}}  {text}" for label, text in pairs]


def table(rows: Iterable[Sequence[str]], *, right: str = "") -> list[str]:
    """Return rows as indented, aligned lines.

    `right` has one character a column, ">" for those aligned to the right; columns
    beyond it are aligned to the left.
    """
    cells = [list(row) for row in rows]
    if not cells:
        return []
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    signs = right.ljust(len(widths), "<").replace(" ", "<")
    return [
        "  "
        + "  ".join(
            f"{cell:{sign}{width}}"
            for cell, sign, width in zip(row, signs, widths, strict=True)
        ).rstrip()
        for row in cells
    ]


def percent(share: float) -> str:
    """Return a share as a percentage.

    >>> percent(0.1234)
    '12.34 %'
    """
    return f"{share * 100:.2f} %"


def count(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural where it is due.

    >>> count(1, "op"), count(1200, "op")
    ('1 op', '1,200 ops')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
