"""API keys: from a file or the environment, and never into a log."""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path

from encamp.errors import OptionError

VARIABLE = "ENCAMP_KEY"
_LONGEST = 4096


def read_key(key_file: str | PathLike[str] | None = None) -> str | None:
    """Return the key in a file, else that in $ENCAMP_KEY, else None.

    Raises:
        OptionError: the file cannot be read, or holds no key; the message does not
            show what it holds.

    """
    if key_file is None:
        text = os.environ.get(VARIABLE, "")
        return _require_key(text, f"${VARIABLE}") if text else None
    try:
        with Path(key_file).open(encoding="utf-8") as file:
            text = file.read(_LONGEST + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        msg = f"the key file {key_file} cannot be read: {reason}"
        raise OptionError(msg) from None
    return _require_key(text, f"the key file {key_file}")


def _require_key(text: str, where: str) -> str:
    key = text.strip()
    plain = key.isascii() and key.isprintable() and " " not in key
    if not key or not plain or len(key) > _LONGEST:
        msg = f"{where} holds no API key: one line of letters, digits and signs"
        raise OptionError(msg)
    return key
