"""How `pkg.module:name` becomes a callable."""

import pytest
import typer

from encamp.api.cli.factories import load_factory


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Give a function that writes a module into the current directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return lambda name, text: (tmp_path / name).write_text(text)


def refusal(text):
    """Return the message with which `text` is refused."""
    with pytest.raises(typer.BadParameter) as caught:
        load_factory(text)
    return caught.value.message


def test_a_function_of_the_current_directory_is_found(write):
    """No installation is needed to name a model."""
    write("steps_a.py", "def tiny():\n    return 'model', ()\n")

    assert load_factory("steps_a:tiny")() == ("model", ())


@pytest.mark.parametrize("text", ["steps", "steps:", ":tiny", ""])
def test_another_form_is_refused(text):
    """Both a module and a name are needed."""
    assert refusal(text) == f"{text!r} names no factory; write it as pkg.module:name"


def test_a_missing_module_is_named():
    """What failed is what Python said."""
    assert refusal("no_such_steps:tiny") == (
        "importing 'no_such_steps' failed:"
        " ModuleNotFoundError: No module named 'no_such_steps'"
    )


def test_an_error_in_the_module_is_named_with_its_line(write, tmp_path):
    """The user's own line is where to look."""
    write("steps_b.py", "\nraise RuntimeError('no licence')\n")

    assert refusal("steps_b:tiny") == (
        "importing 'steps_b' failed: RuntimeError: no licence"
        f" ({tmp_path / 'steps_b.py'}, line 2)"
    )


def test_a_missing_name_lists_what_the_module_defines(write):
    """A misspelt factory is seen beside the right one."""
    write("steps_c.py", "import os\ndef tiny(): ...\ndef large(): ...\n_x = 1\n")

    assert refusal("steps_c:tinny") == (
        "module 'steps_c' has no 'tinny'; it defines large, tiny"
    )


def test_a_name_that_is_no_callable_is_refused(write):
    """A model is not a factory."""
    write("steps_d.py", "tiny = 3\n")

    assert refusal("steps_d:tiny") == (
        "'steps_d:tiny' is of type int, not a callable that returns a model"
    )
