"""What the pages tell people to run, runs."""

import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from encamp.api.cli.exits import MEANINGS

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
README = ROOT / "README.md"


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    language: str
    text: str

    @property
    def file(self):
        """The name of the file that a block says it is, in a comment at its top."""
        found = re.match(r"# (\S+\.\w+)\n", self.text)
        return found[1] if found else None


def blocks(*languages):
    """Return the pages' blocks in these languages, in order."""
    found = [
        Block(page, language, text)
        for page in PAGES
        for language, text in FENCE.findall(page.read_text(encoding="utf-8"))
    ]
    return [block for block in found if block.language in languages]


def commands(block):
    """Return the commands of a block as lists of words: its lines, or its `run:`s."""
    lines = block.text.splitlines()
    if block.language == "yaml":
        matches = [re.match(r"\s+- run: (.+)", line) for line in lines]
        lines = [match[1] for match in matches if match]
    split = [shlex.split(line, comments=True) for line in lines]
    return [words for words in split if words]


def name_of(block):
    """Name a block by its page and its first words."""
    first = block.text.strip().partition("\n")[0]
    return f"{block.page.name}: {first[:40]}"


PYTHON = [block for block in blocks("python") if block.file is None]
SHELL = blocks("console", "yaml")


@pytest.mark.parametrize("block", PYTHON, ids=name_of)
def test_python_runs(block, tmp_path):
    """A block of Python, alone in a fresh interpreter, ends without a complaint."""
    done = run([sys.executable, "-W", "error", "-c", block.text], tmp_path)

    assert (done.returncode, done.stderr) == (0, ""), done.stderr


@pytest.mark.parametrize("block", SHELL, ids=name_of)
def test_commands_run(block, tmp_path):
    """Commands of Encamp succeed in order, beside the files that the page shows.

    Of `make` and `pip` the targets and the extras exist; programs of the environment
    are there.
    """
    for shown in blocks("python"):
        if shown.page == block.page and shown.file is not None:
            (tmp_path / shown.file).write_text(shown.text, encoding="utf-8")
    for words in commands(block):
        check(words, tmp_path)


def check(words, folder):
    """Run a command of Encamp; look up what another one names."""
    program, *arguments = words
    if program == "encamp":
        script = Path(sys.executable).with_name("encamp")
        done = run([str(script), *arguments], folder)
        assert done.returncode == 0, (words, done.stderr)
    elif program == "make":
        done = run(["make", "--dry-run", *arguments], ROOT)
        assert done.returncode == 0, (words, done.stderr)
    elif program == "pip":
        extras = set(re.findall(r"\[(\w+)\]", " ".join(arguments)))
        assert extras <= set(project()["optional-dependencies"]), words
    else:
        assert program.startswith(".venv/bin/"), f"untested: {words}"
        assert Path(sys.executable).with_name(Path(program).name).exists(), words


def run(words, folder):
    """Run a program in a folder; the tests' cache (see conftest.py) goes with it."""
    return subprocess.run(
        words,
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
    )


def project():
    """Return the project's table of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]


def test_the_readme_lists_every_exit_code():
    """Codes and meanings are those of the command line."""
    rows = re.findall(r"^\| (\d) \| (.+) \|$", README.read_text("utf-8"), re.MULTILINE)

    assert rows == [(str(code.value), meaning) for code, meaning in MEANINGS.items()]


def test_the_readme_has_the_figures_of_the_results():
    """Its tables are those of benchmarks/RESULTS.md: `make docs` puts them there."""
    filled = runpy.run_path(str(ROOT / "docs" / "readme.py"))["filled"]
    readme = README.read_text(encoding="utf-8")
    results = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")

    assert readme.count("<!-- results: ") == 2
    assert filled(readme, results) == readme, "run `make docs`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_name_pictures_that_exist(page):
    """A picture of a page is a file of the repository."""
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8"))

    assert [name for name in pictures if not (page.parent / name).exists()] == []
