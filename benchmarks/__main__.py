"""Measure every case and write the results: `python -m benchmarks`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from encamp.api.picture_style import drawing

from . import registry
from .machine import provenance
from .text import seconds, table

RESULTS = Path(__file__).with_name("RESULTS.md")
_ORDER = (
    "partitioner",
    "budgets",
    "verify",
    "zoo",
    "frontier",
    "capture",
    "proofs",
    "published",
    "fixed-order",
    "scale",
    "ablation",
    "service",
)


def main() -> None:
    """Run the drivers in order, each on its cases."""
    arguments = _arguments()
    registry.load()
    began, lines = time.perf_counter(), provenance()
    output = arguments.output or _default(quick=arguments.quick)
    names = arguments.only or _ORDER
    parts = [_section(name, output.parent, quick=arguments.quick) for name in names]
    taken = f"this run took {seconds(time.perf_counter() - began)}"
    by = f"`python -m benchmarks --only {' '.join(names)}`"
    by = by if arguments.only else "`make bench`"
    head = f"# Results\n\nWritten by {by}, all in one run; no figure is typed in."
    facts = "\n".join(f"- {line}" for line in (*lines, taken))
    output.write_text("\n\n".join([head, facts, *parts]) + "\n", encoding="utf-8")
    print(f"wrote {output}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small cases only")
    parser.add_argument("--only", nargs="+", choices=_ORDER, help="these drivers only")
    parser.add_argument("--output", type=Path, help="where to write the results")
    return parser.parse_args()


def _default(*, quick: bool) -> Path:
    """Return where results go: those of a smoke run not into the repository."""
    return Path(tempfile.mkdtemp(), RESULTS.name) if quick else RESULTS


def _section(name: str, folder: Path, *, quick: bool) -> str:
    cases = registry.cases_for(name, quick=quick)
    print(f"{name}: {len(cases)} cases", file=sys.stderr, flush=True)
    found = registry.drivers()[name](cases)
    parts = [f"## {found.title}", found.what, table(found.columns, found.rows)]
    if found.picture is not None:
        picture = folder / f"{name}.png"
        with drawing(picture) as figure:
            found.picture(figure)
        parts.insert(2, f"![{found.title}]({picture.name})")
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
