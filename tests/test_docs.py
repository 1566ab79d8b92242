"""The pages say what is so."""

import re
import runpy
from pathlib import Path

import pytest
import typer.main

from encamp.api.cli import app

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
GENERATOR = runpy.run_path(str(ROOT / "docs" / "generate.py"), run_name="generator")


def test_the_reference_of_the_command_line_is_up_to_date():
    """After a change to a command, `make docs` rewrites the page."""
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")

    assert page == GENERATOR["page"](), "run `make docs`"


def test_the_reference_has_every_command():
    """Each command has a section of its own."""
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    commands = typer.main.get_command(app).commands

    assert re.findall(r"^## encamp (.+)$", page, re.MULTILINE) == list(commands)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    """A relative link names a file of the repository."""
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    relative = [link for link in links if "://" not in link]

    assert [link for link in relative if not (page.parent / link).exists()] == []
