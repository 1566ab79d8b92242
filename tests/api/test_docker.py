"""What the image is made of, replayed without Docker."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")
STEPS = re.findall(r"^([A-Z]+) (.+)$", DOCKERFILE.replace("\\\n", ""), re.MULTILINE)
BUILD = STEPS[: next(i for i, s in enumerate(STEPS[1:], 1) if s[0] == "FROM")]
FINAL = STEPS[len(BUILD) :]


def copied():
    """Return the paths that the image is built from."""
    lines = [line.split() for step, line in BUILD if step == "COPY"]
    return [path for *paths, _ in lines for path in paths]


def test_every_copied_path_exists():
    """And is let through by .dockerignore."""
    let_through = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    for path in copied():
        assert (ROOT / path).exists()
        assert f"!{path}" in let_through


def test_it_runs_as_nobody_special_and_looks_after_itself():
    """A user of its own, a health check, and no way to serve without keys."""
    steps = dict(FINAL)
    assert steps["USER"] == "encamp"
    assert "/readyz" in steps["HEALTHCHECK"]
    assert '"--auth"' in steps["CMD"]
    assert "torch" not in DOCKERFILE.lower().replace("without pytorch", "")


def test_compose_reads_and_builds_the_same():
    """The database's password is asked for, not written down."""
    text = (ROOT / "docker" / "compose.yaml").read_text(encoding="utf-8")
    services = yaml.safe_load(text)["services"]
    build = services["api"]["build"]
    assert (ROOT / "docker" / build["context"] / build["dockerfile"]).is_file()
    assert services["api"]["depends_on"].keys() <= services.keys()
    assert services["database"]["environment"]["POSTGRES_PASSWORD"].startswith("${")


@pytest.mark.slow
def test_the_install_steps_give_a_service_without_torch(tmp_path):
    """In a fresh environment, from the copied paths and nothing else."""
    for path in copied():
        source, target = ROOT / path, tmp_path / "build" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(source, target, symlinks=True, ignore=ignored)
        else:
            shutil.copy(source, target)
    home = tmp_path / "opt"
    for step, line in BUILD:
        if step == "RUN":
            command = shlex.split(line.replace("/opt/encamp", str(home)))
            command[0] = sys.executable if command[0] == "python" else command[0]
            subprocess.run(command, check=True, cwd=tmp_path / "build")
    encamp, python = home / "bin" / "encamp", home / "bin" / "python"
    made = subprocess.run(
        [encamp, "keys", "create", "--data", tmp_path / "data"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert made.stdout.startswith("ek_")
    specs = "u.find_spec('torch'), u.find_spec('psycopg')"
    code = f"import importlib.util as u; print({specs})"
    found = subprocess.check_output([python, "-c", code], text=True, cwd=tmp_path)
    assert found.startswith("None ModuleSpec")
