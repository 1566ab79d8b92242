"""Where results come from: machine, versions, commit."""

from __future__ import annotations

import datetime as dt
import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import torch

from encamp.tracer.machine import device_memory, device_name

from .text import size

_PACKAGES = ("encamp", "torch", "transformers", "ortools", "numba", "numpy")


def provenance() -> list[str]:
    """Return a line each on the day, the machine, the versions and the commit."""
    cpu = torch.device("cpu")
    memory = device_memory(cpu)
    kept = size(memory) if memory is not None else "unknown"
    versions = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    load, _, _ = os.getloadavg()
    return [
        f"date: {dt.datetime.now(dt.UTC):%Y-%m-%d}",
        f"machine: {device_name(cpu)}, {os.cpu_count()} cores, memory {kept}",
        f"threads: {torch.get_num_threads()}; load when the run began: {load:.1f}",
        f"versions: Python {platform.python_version()}, {versions}",
        f"commit: {_commit()}",
    ]


def _commit() -> str:
    folder = Path(__file__).parent
    try:
        found = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],  # noqa: S607 - the user's git
            check=True,
            capture_output=True,
            text=True,
            cwd=folder,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown (no git here)"
    return found.stdout.strip()
