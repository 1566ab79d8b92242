"""Measured costs on disk: one file for each device and setting they depend on."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .call_text import digest
from .calls import OpCost

SCHEMA = "encamp.costs/1"

Environment = Mapping[str, str | int | bool]
"""What costs depend on beside the call: device, versions, threads, settings."""


class CostCache:
    """Costs by call description, measured in one environment.

    A file that is damaged or of another version counts as empty and is written anew.
    Writers replace the file as a whole after reading what others have added, so a
    reader never sees half of one; two that write in the same instant may lose one of
    their additions, which are then measured again.
    """

    def __init__(self, folder: Path, environment: Environment) -> None:
        """Use the file of `environment` in `folder`; neither need exist."""
        self._environment = dict(environment)
        text = json.dumps(self._environment, sort_keys=True)
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        self.path = folder / f"costs-{name}.json"

    def read(self) -> dict[str, OpCost]:
        """Return the costs on disk by `digest` of the call's description."""
        return {key: _cost(entry) for key, entry in self._entries().items()}

    def add(self, costs: Mapping[str, OpCost]) -> None:
        """Add costs by call description to the file.

        A folder that cannot be written costs a warning, not the measurement.
        """
        entries = self._entries()
        for call, cost in costs.items():
            entries[digest(call)] = {
                "call": call,
                "duration_ns": cost.duration_ns,
                "spread_ns": cost.spread_ns,
                "workspace_bytes": cost.workspace_bytes,
            }
        document = {
            "schema": SCHEMA,
            "environment": self._environment,
            "costs": entries,
        }
        try:
            _replace(self.path, json.dumps(document, indent=1, sort_keys=True))
        except OSError as error:
            warnings.warn(
                f"measured costs are not kept: cannot write {self.path}: {error};"
                " ENCAMP_CACHE_DIR names another folder",
                RuntimeWarning,
                stacklevel=2,
            )

    def _entries(self) -> dict[str, dict[str, Any]]:
        try:
            document = json.loads(self.path.read_text(encoding="utf-8"))
            sound = (
                document["schema"] == SCHEMA
                and document["environment"] == self._environment
            )
            entries: dict[str, dict[str, Any]] = document["costs"] if sound else {}
            for entry in entries.values():
                _cost(entry)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return {}
        return entries


def _cost(entry: Mapping[str, Any]) -> OpCost:
    """Return one entry's cost.

    Raises:
        KeyError, TypeError, ValueError: the entry is not as `add` writes it.

    """
    numbers = [entry[k] for k in ("duration_ns", "workspace_bytes", "spread_ns")]
    if any(type(number) is not int or number < 0 for number in numbers):
        msg = f"not a count of nanoseconds or bytes: {numbers}"
        raise ValueError(msg)
    return OpCost(*numbers)


def _replace(path: Path, text: str) -> None:
    """Put `text` into `path` in one step, whatever happens meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=path.stem, text=True)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(beside).replace(path)
    except OSError:
        Path(beside).unlink(missing_ok=True)
        raise
