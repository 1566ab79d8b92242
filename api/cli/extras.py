"""What to say where an optional dependency is missing."""

from __future__ import annotations

from importlib.util import find_spec

from encamp.errors import MissingExtraError


def require_torch(what: str) -> None:
    """Refuse to go on without PyTorch.

    Raises:
        MissingExtraError: it is not installed.

    """
    if find_spec("torch") is None:
        msg = f"{what} needs PyTorch: pip install 'encamp[torch]'"
        raise MissingExtraError(msg)
