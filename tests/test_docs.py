"""The pages say what is so."""

import json
import re
import runpy
from dataclasses import replace
from pathlib import Path

import pytest
import typer.main

from cli_chain import chain, plan_of
from encamp import fingerprint
from encamp.api.cli import app
from encamp.graph import Kind, Phase, Reason, Recompute
from encamp.plan import Order, Status
from encamp.wire import graph_to_json, plan_to_json

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
GENERATOR = runpy.run_path(str(ROOT / "docs" / "generate.py"), run_name="generator")


def test_the_reference_of_the_command_line_is_up_to_date():
    """After a change to a command, `make docs` rewrites the page."""
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")

    assert page == GENERATOR["page"](), "run `make docs`"


def test_the_description_of_the_service_is_up_to_date():
    """A change to the API shows as a change of this file, which `make docs` makes."""
    text = (ROOT / "docs" / "openapi.json").read_text(encoding="utf-8")

    assert text == GENERATOR["api"](), "run `make docs`"


def test_the_reference_has_every_command():
    """Each command has a section of its own."""
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    commands = typer.main.get_command(app).commands

    assert re.findall(r"^## encamp (.+)$", page, re.MULTILINE) == list(commands)


def fields_of(document):
    """Return the names of all fields of a document, those of `meta` left out."""
    if isinstance(document, list):
        return set().union(*map(fields_of, document))
    if not isinstance(document, dict):
        return set()
    inner = (v for k, v in document.items() if k not in ("meta", "memory"))
    return set(document).union(*map(fields_of, inner))


def test_the_formats_page_has_every_field():
    """Each field that Encamp writes is explained in docs/format.md."""
    page = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
    graph = chain()
    pinned = Recompute(allowed=False, reason=Reason.USER)
    texts = {"source": "a.py:1", "arguments": "1", "layout": "f32[25]"}
    full = replace(
        graph.ops[0], recompute=pinned, workspace_bytes=1, spread_ns=1, **texts
    )
    graph = replace(graph, ops=(full, *graph.ops[1:]))
    plan = plan_of(graph, range(7), 1000)
    plan = replace(plan, reserve_bytes=1, outline=fingerprint.outline(graph))
    written = fields_of(json.loads(graph_to_json(graph)))
    written |= fields_of(json.loads(plan_to_json(plan)))

    assert {"spread_ns", "resident", "module", "outline", "gap"} <= written
    assert {field for field in written if f"`{field}`" not in page} == set()


@pytest.mark.parametrize("word", sorted({*Kind, *Phase, *Reason, *Status, *Order}))
def test_the_formats_page_has_every_word(word):
    """Each word that a field may hold is on the page."""
    page = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")

    assert f"`{word}`" in page or f'`"{word}"`' in page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    """A relative link names a file of the repository."""
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    relative = [link for link in links if "://" not in link]

    assert [link for link in relative if not (page.parent / link).exists()] == []
