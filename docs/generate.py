"""Write docs/cli.md, the reference of the command line, from its own help texts."""

from __future__ import annotations

from pathlib import Path

import typer.main
from typer.core import TyperGroup
from typer.testing import CliRunner

from encamp.api.cli import app

PAGE = Path(__file__).parent / "cli.md"
HEAD = """\
# The command line

Results go to stdout; progress, notes and errors go to stderr, as plain lines where that
is no terminal. `--json` prints one JSON document on stdout. This page is written by
`make docs`.
"""


def page() -> str:
    """Return the text of docs/cli.md."""
    root = typer.main.get_command(app)
    names = list(root.commands) if isinstance(root, TyperGroup) else []
    sections = [_section("encamp", [])]
    sections += [_section(f"encamp {name}", [name]) for name in names]
    return "\n".join([HEAD, *sections])


def _section(title: str, arguments: list[str]) -> str:
    help_text = CliRunner().invoke(
        app,
        [*arguments, "--help"],
        prog_name="encamp",
        env={"COLUMNS": "88", "TERMINAL_WIDTH": "88"},
        catch_exceptions=False,
    )
    return f"## {title}\n\n```text\n{help_text.stdout.strip()}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.name}")
