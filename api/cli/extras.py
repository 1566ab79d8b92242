"""What to say where an optional dependency is missing."""

from __future__ import annotations

from importlib.util import find_spec

from encamp.errors import MissingExtraError


def require_service(what: str) -> None:
    """Refuse to go on without what the planning service is made of.

    Raises:
        MissingExtraError: some of it is not installed.

    """
    needed = ("alembic", "fastapi", "prometheus_client", "sqlalchemy", "structlog")
    if any(find_spec(name) is None for name in (*needed, "uvicorn")):
        msg = f"{what} needs more packages: pip install 'encamp[service]'"
        raise MissingExtraError(msg)


def require_torch(what: str) -> None:
    """Refuse to go on without PyTorch.

    Raises:
        MissingExtraError: it is not installed.

    """
    if find_spec("torch") is None:
        msg = f"{what} needs PyTorch: pip install 'encamp[torch]'"
        raise MissingExtraError(msg)
