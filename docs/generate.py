"""Write docs/cli.md and docs/openapi.json: what the code says of its own interfaces."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import typer.main
from typer.core import TyperGroup
from typer.testing import CliRunner

from encamp.api.app import make_app
from encamp.api.cli import app
from encamp.api.settings import Settings
from encamp.api.store import Store

PAGE = Path(__file__).parent / "cli.md"
API = Path(__file__).parent / "openapi.json"
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


def api() -> str:
    """Return the text of docs/openapi.json: the service's description of itself."""
    with TemporaryDirectory() as folder:
        store = Store.open(f"sqlite:///{folder}/store.db")
        description = make_app(store, Settings()).openapi()
        store.close()
    return json.dumps(description, indent=1, ensure_ascii=False) + "\n"


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
    API.write_text(api(), encoding="utf-8")
    print(f"wrote {PAGE.name} and {API.name}")
