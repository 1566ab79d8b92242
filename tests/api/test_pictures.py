"""Pictures of memory over a step; their texts are read from an SVG."""

import re
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from cli_chain import SMALLEST, SMALLEST_STEPS, chain, plan_of
from encamp.api.cli import app
from encamp.api.picture_style import SUFFIXES
from encamp.api.pictures import draw_memory
from encamp.errors import InvalidPlanError, MissingExtraError, OptionError
from encamp.graph import CostGraph
from encamp.plan import Plan
from encamp.wire import write_graph, write_plan

pytest.importorskip("matplotlib")

MAGIC = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


def in_millions() -> tuple[CostGraph, Plan]:
    """Return the chain with its bytes in millions, planned at the smallest budget."""
    graph = chain()
    values = tuple(replace(v, bytes=v.bytes * 10**6) for v in graph.values)
    graph = replace(graph, values=values)
    return graph, plan_of(graph, SMALLEST_STEPS, SMALLEST * 10**6)


def texts_of(path):
    """Return the texts of an SVG, in order."""
    return re.findall(r"<text[^>]*>(.*?)</text>", path.read_text(encoding="utf-8"))


class TestDrawMemory:
    def test_names_budget_peaks_and_units(self, tmp_path):
        """508 MB unplanned, 405 MB planned and budgeted; 80 ns become 110."""
        draw_memory(*in_millions(), tmp_path / "a.svg")
        texts = texts_of(tmp_path / "a.svg")

        assert {"508.0 MB", "405.0 MB", "budget 405.0 MB"} <= set(texts)
        assert {"memory, MB", "MiB", "time within the step, ms"} <= set(texts)
        assert "chain: 79.7 % of the peak memory for +37.5 % time" in texts
        assert any(text.startswith("budget 405.00 MB (386.24 MiB)") for text in texts)

    def test_has_a_legend(self, tmp_path):
        """Every colour is named."""
        draw_memory(*in_millions(), tmp_path / "a.svg")
        legend = ["unplanned", "planned", "resident: parameters, batch", "budget"]

        assert {*legend, "recomputing"} <= set(texts_of(tmp_path / "a.svg"))

    @pytest.mark.parametrize("suffix", SUFFIXES)
    def test_the_suffix_says_the_kind(self, suffix, tmp_path):
        """Each kind of file begins as its format does."""
        path = tmp_path / f"a{suffix}"
        draw_memory(*in_millions(), path)

        assert path.read_bytes().startswith(MAGIC[suffix])

    def test_refuses_another_suffix(self, tmp_path):
        """The message lists the kinds there are."""
        with pytest.raises(OptionError, match=r"'a\.txt'.*\.png, \.svg, \.pdf"):
            draw_memory(*in_millions(), tmp_path / "a.txt")

    def test_refuses_a_plan_of_another_graph(self, tmp_path):
        """A plan that names an op the graph lacks draws nothing."""
        graph, plan = in_millions()
        other = replace(plan, steps=(*plan.steps, 99))

        with pytest.raises(InvalidPlanError, match="op 99"):
            draw_memory(graph, other, tmp_path / "a.svg")
        assert not (tmp_path / "a.svg").exists()

    def test_needs_matplotlib(self, monkeypatch, tmp_path):
        """Without it, the message says what to install."""
        monkeypatch.setattr("encamp.api.picture_style.find_spec", lambda _: None)

        with pytest.raises(MissingExtraError, match=r"pip install 'encamp\[plot\]'"):
            draw_memory(*in_millions(), tmp_path / "a.svg")


class TestShowPicture:
    @pytest.fixture(autouse=True)
    def _files(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        graph, plan = in_millions()
        write_graph(graph, "chain.json")
        write_plan(plan, "plan.json")

    def test_draws_beside_what_it_tells(self, tmp_path):
        """What stdout gets is the summary as ever; stderr names the picture."""
        arguments = ["show", "plan.json", "--graph", "chain.json"]
        plain = CliRunner().invoke(app, arguments)
        drawn = CliRunner().invoke(app, [*arguments, "--picture", "a.png"])

        assert (drawn.exit_code, drawn.stdout) == (0, plain.stdout)
        assert drawn.stderr == "wrote a.png\n"
        assert (tmp_path / "a.png").read_bytes().startswith(MAGIC[".png"])

    def test_needs_the_graph(self):
        """A plan alone has no times and no bytes."""
        done = CliRunner().invoke(app, ["show", "plan.json", "--picture", "a.png"])

        assert done.exit_code == 2
        assert "--graph" in done.stderr
