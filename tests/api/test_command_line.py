"""The installed command, run as a person or a script runs it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import encamp
from cli_chain import chain
from encamp.api.cli import app
from encamp.api.cli.progress import progress
from encamp.errors import InternalError
from encamp.wire import write_graph


def run(*arguments, **options):
    """Run the console script, piped."""
    script = Path(sys.executable).with_name("encamp")
    return subprocess.run(
        [script, *arguments], check=False, capture_output=True, text=True, **options
    )


def test_version():
    """`--version` prints name and version."""
    done = run("--version")

    assert (done.returncode, done.stdout) == (0, f"encamp {encamp.__version__}\n")


def test_errors_are_one_plain_line_on_stderr(tmp_path):
    """No traceback, no colour, nothing on stdout, exit code 2."""
    done = run("show", "missing.json", cwd=tmp_path, env=os.environ | {"TERM": "xterm"})

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("encamp: missing.json: ")
    assert done.stderr.count("\n") == 1
    assert "\x1b" not in done.stderr


def test_a_wrong_option_is_a_usage_error():
    """Exit code 2, with the option's name."""
    done = run("check", "--colour")

    assert (done.returncode, done.stdout) == (2, "")
    assert "No such option: --colour" in done.stderr


def test_results_have_no_control_characters_in_a_pipe(tmp_path):
    """What is piped is text."""
    write_graph(chain(), tmp_path / "chain.json")
    done = run("show", "chain.json", cwd=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("chain\n")
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("bug", [ZeroDivisionError, InternalError])
def test_a_bug_ends_with_a_traceback(monkeypatch, tmp_path, bug):
    """What nobody can mend by another input is not swallowed."""

    def fail(_graph):
        raise bug

    write_graph(chain(), tmp_path / "chain.json")
    monkeypatch.setattr("encamp.api.cli.show.summarise_graph", fail)

    with pytest.raises(bug):
        CliRunner().invoke(
            app, ["show", str(tmp_path / "chain.json")], catch_exceptions=False
        )


def test_progress_is_a_line_at_each_tenth_in_a_pipe(capsys):
    """Forty steps give eleven lines: none yet, then each tenth."""
    with progress("costing ops") as report:
        for done in range(41):
            report(done, 40)

    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"costing ops: {done}/40" for done in range(0, 41, 4)]
