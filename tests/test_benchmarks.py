"""The benchmarks run, and what they print is what was measured."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.mark.slow
def test_a_smoke_run_measures_every_driver(tmp_path):
    """`make bench-quick` writes a section for each driver, all plans exact."""
    results = tmp_path / "results.md"
    done = python("-m", "benchmarks", "--quick", "--output", str(results))
    text = results.read_text(encoding="utf-8") if results.exists() else ""

    assert done.returncode == 0, done.stderr
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == [
        "PyTorch's activation_memory_budget",
        "Budgets",
        "Predicted against measured",
        "The zoo",
        "The measured frontier",
        "Tracing offline",
        "Joint graphs at every budget",
        "Public graphs against published results",
        "Known optima of a fixed order",
        "Growth with the graph",
        "Ablation",
        "The planning service",
    ]
    assert "differ" not in text
    assert "| NO |" not in text
    assert (tmp_path / "frontier.png").exists()
    assert set(re.findall(r"([+-]\d+) B ", text)) == {"+0"}


@pytest.mark.slow
def test_the_demo_trains_alike(tmp_path):
    """Two steps are equal bit for bit, the peak exact; graph, plan, picture exist."""
    done = python("-m", "examples.demo", "--steps", "2", "--folder", str(tmp_path))

    assert done.returncode == 0, done.stderr
    told = " ".join(done.stdout.split())
    assert "losses of all 2 steps and the weights after them are equal bit" in told
    measured = next(li for li in done.stdout.splitlines() if "peak, measured" in li)
    assert measured.count("(+0 B)") == 3
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"graph.json.zst", "plan.json", "memory.png"}
    assert "Warning" not in done.stderr


def python(*arguments):
    """Run Python in the repository's root, with warnings shown."""
    return subprocess.run(
        [sys.executable, *arguments],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
