"""The examples for CI systems: their commands are run, in their order, by a shell."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from encamp.replay import replay
from encamp.wire import read_graph

EXAMPLES = Path(__file__).parents[2] / "examples" / "ci"
MODEL = """\
import torch
from torch import nn


class Step(nn.Module):
    def __init__(self):
        super().__init__()
        layers = (m for _ in range(4) for m in (nn.Linear(16, 16), nn.Tanh()))
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x).square().mean()


def step():
    return Step(), (torch.ones(ROWS, 16),)
"""
TRACE = "mkdir -p graphs && encamp trace train:step --costs roofline:h100-sxm"


def test_every_example_is_run_here():
    """A new file beside them wants a test."""
    assert {path.name for path in EXAMPLES.iterdir()} == {
        "github-actions.yml",
        "gitlab-ci.yml",
    }


def github_commands():
    """Return the commands of the steps that run unless one failed, in order."""
    job = yaml.safe_load((EXAMPLES / "github-actions.yml").read_text())["jobs"]["plans"]
    return [s["run"] for s in job["steps"] if "run" in s and "if" not in s]


def github_commands_after_a_failure():
    """Return the commands of the steps that run only then."""
    job = yaml.safe_load((EXAMPLES / "github-actions.yml").read_text())["jobs"]["plans"]
    return [s["run"] for s in job["steps"] if s.get("if") == "failure()"]


def gitlab_commands():
    """Return the commands of the job, in order."""
    job = yaml.safe_load((EXAMPLES / "gitlab-ci.yml").read_text())["plans"]
    return [*job["before_script"], *job["script"]]


def shell(commands, folder):
    """Run commands as both systems do, but for what installs: the first failure ends.

    What the machine of the job installs is here already.
    """
    script = "\n".join(c for c in commands if "install" not in c)
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "GITHUB_BASE_REF": "main",
        "GITHUB_STEP_SUMMARY": str(folder / "page.md"),
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
    }
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script],  # noqa: S607 - as they name it
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def git(folder, *arguments):
    """Run git as somebody."""
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    command = ["git", "-C", folder, *who, *arguments]
    subprocess.run(command, check=True)


@pytest.fixture(scope="module")
def upstream(tmp_path_factory):
    """Return a repository whose main branch holds a model, its lock and its plan."""
    folder = tmp_path_factory.mktemp("upstream")
    (folder / "train.py").write_text(MODEL.replace("ROWS", "64"))
    (folder / ".gitignore").write_text("graphs\n__pycache__\n*.md\nbase.lock\n")
    traced = shell([f"{TRACE} -o graphs/step.json.zst"], folder)
    assert traced.returncode == 0, traced.stderr
    budget = (
        replay(read_graph(folder / "graphs" / "step.json.zst")).peak_bytes * 9 // 10
    )
    lock = "encamp plan --lock encamp.lock graphs/step.json.zst --work-limit 50"
    locked = shell([f"{lock} --budget {budget}"], folder)
    assert locked.returncode == 0, locked.stderr
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "-A")
    git(folder, "commit", "--quiet", "-m", "A model and its plan")
    return folder


@pytest.fixture
def checkout(upstream, tmp_path):
    """Return what the job's machine has checked out."""
    folder = tmp_path / "work"
    git(upstream, "clone", "--quiet", str(upstream), str(folder))
    return folder


@pytest.mark.parametrize(
    ("commands", "page"),
    [(github_commands(), "page.md"), (gitlab_commands(), "plans.md")],
    ids=["github", "gitlab"],
)
def test_a_model_as_it_was_passes(checkout, commands, page):
    """The graph traced in CI is the one that was planned; the summary has its row."""
    done = shell(commands, checkout)

    assert done.returncode == 0, done.stderr
    assert "| ok |" in (checkout / page).read_text()


def test_another_batch_fails_and_shows_what_would_change(checkout):
    """Its graph has other bytes than the locked one: exit 4, told in the summary.

    Half the batch fits the same budget; its plan is of another graph.
    """
    (checkout / "train.py").write_text(MODEL.replace("ROWS", "32"))

    done = shell(github_commands(), checkout)
    after = shell(github_commands_after_a_failure(), checkout)

    assert done.returncode == 4
    assert "stale" in (checkout / "page.md").read_text()
    assert after.returncode == 0, after.stderr
    assert '-        "exact": "sha256:' in after.stdout
