"""Fill README.md's tables from benchmarks/RESULTS.md, so that nobody types a figure.

A pair of markers, `<!-- results: HEADING -->` and `<!-- end -->`, holds the table of
that heading, with a line on the run it comes from.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
RESULTS = ROOT / "benchmarks" / "RESULTS.md"
_MARKED = re.compile(r"(<!-- results: (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)
_FACTS = ("machine", "threads", "versions")


def filled(readme: str, results: str) -> str:
    """Return the README with its marked tables taken from the results.

    Raises:
        KeyError: the results have no such heading.

    """
    tables = _sections(results)
    origin = "; ".join(_fact(results, name) for name in _FACTS)

    def fill(match: re.Match[str]) -> str:
        head, name, end = match.groups()
        return f"{head}\n{tables[name]}\n\n({origin})\n\n{end}"

    return _MARKED.sub(fill, readme)


def _sections(results: str) -> dict[str, str]:
    """Return the text of each heading: what was measured, and the table."""
    parts = re.split(r"^## (.+)\n", results, flags=re.MULTILINE)[1:]
    return {
        name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)
    }


def _fact(results: str, name: str) -> str:
    found = re.search(rf"^- {name}: (.+)$", results, re.MULTILINE)
    return f"{name}: {found[1]}" if found else ""


if __name__ == "__main__":
    README.write_text(
        filled(README.read_text(encoding="utf-8"), RESULTS.read_text(encoding="utf-8")),
        encoding="utf-8",
    )
    print(f"filled {README.name}")
