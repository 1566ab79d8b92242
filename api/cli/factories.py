"""Find the factory that `pkg.module:name` names."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import typer

_FORM = "write it as pkg.module:name"


def load_factory(text: str) -> Callable[[], Any]:
    """Import the module and return the callable; the current directory is importable.

    Raises:
        typer.BadParameter: `text` has another form, the module does not import, or it
            has no such callable; the message names what failed.

    """
    module_name, colon, name = text.partition(":")
    if not (module_name and colon and name):
        msg = f"{text!r} names no factory; {_FORM}"
        raise typer.BadParameter(msg)
    found = _attribute(_module(module_name), name)
    if not callable(found):
        kind = type(found).__name__
        msg = f"{text!r} is of type {kind}, not a callable that returns a model"
        raise typer.BadParameter(msg)
    factory: Callable[[], Any] = found
    return factory


def _module(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(name)
    except Exception as error:
        msg = f"importing {name!r} failed: {_told(error)}"
        raise typer.BadParameter(msg) from error


def _told(error: Exception) -> str:
    """Say what was raised, and where if that was in the user's own file."""
    text = f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    at = frames[-1] if frames else None
    if at is None or at.filename.startswith("<frozen"):
        return text
    return f"{text} ({at.filename}, line {at.lineno})"


def _attribute(module: ModuleType, name: str) -> object:
    try:
        return attrgetter(name)(module)
    except AttributeError:
        public = sorted(n for n, v in vars(module).items() if _is_own(module, n, v))
        offers = f"; it defines {', '.join(public)}" if public else ""
        msg = f"module {module.__name__!r} has no {name!r}{offers}"
        raise typer.BadParameter(msg) from None


def _is_own(module: ModuleType, name: str, value: object) -> bool:
    own = getattr(value, "__module__", None) == module.__name__
    return own and callable(value) and not name.startswith("_")
