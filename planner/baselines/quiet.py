"""Keeping a library's own prints out of results."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Send what C code prints on stdout to stderr instead.

    HiGHS 1.12 now and then prints a line however quiet it is told to be, which would
    end up in a JSON document on stdout. For the whole process, so keep it short.
    """
    sys.stdout.flush()
    library = ctypes.CDLL(None)
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        library.fflush(None)
        os.dup2(kept, 1)
        os.close(kept)
