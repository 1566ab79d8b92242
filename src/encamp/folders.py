"""Where Encamp keeps what it would be a pity to make twice."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """Return the user's cache folder for Encamp; it may not exist yet.

    ENCAMP_CACHE_DIR names it; else it is where the platform keeps caches, which on
    Linux is XDG_CACHE_HOME or `~/.cache`.
    """
    if named := os.environ.get("ENCAMP_CACHE_DIR"):
        return Path(named)
    return _platform_caches() / "encamp"


def data_folder() -> Path:
    """Return where this user's planning service keeps its store; it may not exist yet.

    ENCAMP_DATA_DIR names it; else it is where the platform keeps data, which on Linux
    is XDG_DATA_HOME or `~/.local/share`.
    """
    if named := os.environ.get("ENCAMP_DATA_DIR"):
        return Path(named)
    if named := os.environ.get("XDG_DATA_HOME"):
        return Path(named) / "encamp"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "encamp"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")
        return Path(local) / "encamp" / "data"
    return Path.home() / ".local" / "share" / "encamp"


def _platform_caches() -> Path:
    if named := os.environ.get("XDG_CACHE_HOME"):
        return Path(named)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    return Path.home() / ".cache"
