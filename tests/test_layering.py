"""Where the packages live, and which of them need PyTorch or the solver."""

import ast
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import encamp

ROOT = Path(__file__).parents[1]
FOLDERS = ("api", "planner", "runtime", "tracer")
PACKAGE = ROOT / "src" / "encamp"
VOCABULARY = sorted(
    path.stem
    for path in PACKAGE.iterdir()
    if path.suffix == ".py" or (path.is_dir() and not path.is_symlink())
    if not path.stem.startswith("__")
)
TORCH_FREE = [
    "encamp",
    *(f"encamp.{name}" for name in VOCABULARY),
    "encamp.planner",
    "encamp.api.cli",
    "encamp.api.client",
]


def run_python(code, **environment):
    """Run `code` in a fresh interpreter and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def loaded(module, *suspects):
    """Return which of `suspects` are loaded once `module` has been imported."""
    code = f"import sys, {module}; print(*({set(suspects)!r} & set(sys.modules)))"
    return run_python(code).split()


@pytest.mark.parametrize("name", FOLDERS)
def test_each_package_is_the_folder_at_the_root(name):
    """Each link under src/encamp points at the folder of the same name."""
    link = ROOT / "src" / "encamp" / name

    assert link.is_symlink(), "check out with core.symlinks=true"
    assert link.resolve() == ROOT / name


@pytest.mark.parametrize("module", TORCH_FREE)
def test_planning_never_loads_torch(module):
    """The vocabulary, the planner and the command line load without PyTorch."""
    assert loaded(module, "torch") == []


@pytest.mark.parametrize("module", ["encamp.api.client", "encamp.api.lock"])
def test_asking_and_verifying_load_no_solver(module):
    """A training start that asks a service, and a job that verifies, begin at once."""
    assert loaded(module, "numba", "numpy", "ortools", "fastapi", "pydantic") == []


@pytest.mark.parametrize("name", ["", *(f".{name}" for name in VOCABULARY)])
def test_the_vocabulary_loads_the_standard_library_only(name):
    """Reading a graph needs neither the solver nor any other third party."""
    third_parties = ("numba", "numpy", "ortools", "networkx", "rich", "zstandard")

    assert loaded(f"encamp{name}", *third_parties) == []


@pytest.mark.parametrize("name", [*FOLDERS, "src", "tests"])
def test_folders_are_imported_as_parts_of_encamp(name):
    """`import planner` would load a second copy beside `encamp.planner`."""
    bare = [
        f"{file.relative_to(ROOT)}: {module}"
        for file in (ROOT / name).rglob("*.py")
        for module in imported(file)
        if module.split(".")[0] in FOLDERS
    ]

    assert bare == []


def imported(file):
    """Return the modules that a file imports absolutely."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module


def test_import_contracts_hold():
    """import-linter keeps every contract of pyproject.toml."""
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [linter, "--no-logo", "--no-cache"],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )

    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("lost", ["absent", "text"])
def test_a_copy_without_links_still_imports(tmp_path, lost):
    """An archive drops the links, git may turn them into text; both still import."""
    for name in FOLDERS:
        shutil.copytree(ROOT / name, tmp_path / name)
    package = tmp_path / "src" / "encamp"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns(*FOLDERS))
    if lost == "text":
        for name in FOLDERS:
            (package / name).write_text(f"../../{name}")

    code = "import encamp.planner, encamp.api; print(encamp.planner.__file__)"
    found = run_python(code, PYTHONPATH=str(tmp_path / "src"))

    assert Path(found) == tmp_path / "planner" / "__init__.py"


@pytest.mark.slow
def test_the_wheel_holds_every_module(tmp_path):
    """An installed Encamp has the modules of the repository and nothing beside."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-qq"]
    # A copy: building leaves folders beside the sources.
    tree = tmp_path / "tree"
    hidden = shutil.ignore_patterns(".*", "build", "*.egg-info", "demo")
    shutil.copytree(ROOT, tree, symlinks=True, ignore=hidden)
    subprocess.run(
        [*pip, "install", "--no-deps", "--target", tmp_path / "site", tree], check=True
    )

    site = tmp_path / "site" / "encamp"
    assert python_files(site) == python_files(tree / "src" / "encamp")
    assert (site / "py.typed").is_file()


def python_files(folder):
    """Return the paths of the Python files below a folder, linked ones among them."""
    below = (
        Path(at) / name
        for at, _, names in os.walk(folder, followlinks=True)
        for name in names
    )
    return {path.relative_to(folder) for path in below if path.suffix == ".py"}


def test_version_is_that_of_the_installed_package():
    """`encamp.__version__` is the one place where the version stands."""
    assert encamp.__version__ == version("encamp")
