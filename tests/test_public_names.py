"""What `import encamp` offers."""

import sys
from importlib.metadata import entry_points
from types import FunctionType, ModuleType

import pytest

import encamp
from encamp.api.cli import main
from encamp.errors import EncampError, MissingExtraError
from encamp.plan import Plan


def test_public_names_are_the_four_verbs_and_the_version():
    """Every public name resolves, and the verbs are functions."""
    verbs = sorted(set(encamp.__all__) - {"__version__"})

    assert verbs == ["apply", "plan", "trace", "verify"]
    for verb in verbs:
        assert isinstance(getattr(encamp, verb), FunctionType)


def test_plan_is_the_function_and_its_module_is_still_importable():
    """The function `encamp.plan` does not hide the module `encamp.plan`."""
    assert isinstance(encamp.plan, FunctionType)
    assert isinstance(sys.modules["encamp.plan"], ModuleType)
    assert Plan.__module__ == "encamp.plan"


def test_entry_points_lead_to_functions():
    """The installed command and the backend that torch.compile finds by name."""
    (command,) = entry_points(group="console_scripts", name="encamp")
    (backend,) = entry_points(group="torch_dynamo_backends", name="encamp")

    assert command.load() is main
    assert isinstance(backend.load(), FunctionType)


def test_an_unknown_name_is_an_attribute_error():
    """Looking up what does not exist fails as for any module."""
    with pytest.raises(AttributeError, match="no attribute 'trcae'"):
        encamp.trcae  # noqa: B018 - the look-up is the test


@pytest.mark.parametrize("verb", ["apply", "trace", "verify"])
def test_without_torch_the_message_names_the_extra(monkeypatch, verb):
    """Where PyTorch is missing, its users say how to install it."""
    monkeypatch.setattr(encamp, "find_spec", lambda _: None)

    with pytest.raises(MissingExtraError) as caught:
        getattr(encamp, verb)

    assert str(caught.value) == (
        f"encamp.{verb} needs PyTorch: pip install 'encamp[torch]'"
    )
    assert isinstance(caught.value, EncampError)
