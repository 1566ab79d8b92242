"""Compiling the planner's inner loops, in one place and typed.

The loops are plain Python over NumPy arrays; Numba compiles them on first use and
keeps the machine code in the user's cache folder, so that later processes load it in
milliseconds. Numba looks at the file of a function only, not at the files of those it
calls and inlines; the cache is kept apart for each state of the planner's source, or
an edit would leave stale code running.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

from encamp.folders import cache_folder

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
RandomState = npt.NDArray[np.uint64]

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """Return `function` compiled, cached on disk and free of the interpreter lock."""
    return _compile(function, {})


def compiled_bare(function: Function) -> Function:
    """Return a compiled function that counts no references to arrays.

    It can make no array, nor call what does. Numba counts the references to each array
    of a tuple at each call, atomically; where functions of a few nanoseconds call each
    other with the same tuple, that is most of the time.
    """
    return _compile(function, {"_nrt": False})


def _compile(function: Function, options: dict[str, Any]) -> Function:
    try:
        with _numba_caches_in(cache_folder() / "planner" / _source_digest()):
            made = numba.njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:
        # No folder for the cache can be written: compile anew in each process.
        made = numba.njit(nogil=True, **options)(function)
    return cast("Function", made)


@contextmanager
def _numba_caches_in(folder: Path) -> Iterator[None]:
    """Set the folder that Numba takes for functions compiled in the body."""
    settings: Any = numba.config  # filled when numba is imported, so not typed
    before = settings.CACHE_DIR
    settings.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        settings.CACHE_DIR = before


@cache
def _source_digest() -> str:
    """Return a digest of the planner's source."""
    state = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        state.update(path.read_bytes())
    return state.hexdigest()[:16]


def random_state(seed: int) -> RandomState:
    """Return the state of a random stream for `uniform`, advanced by each draw."""
    return np.array([seed % 2**63], dtype=np.uint64)


@compiled_bare
def uniform(state: RandomState) -> float:
    """Draw from [0, 1) with SplitMix64 (Steele, Lea, Flood: OOPSLA 2014)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    word = state[0]
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    word ^= word >> np.uint64(31)
    return float(word >> np.uint64(11)) * 2.0**-53


@compiled_bare
def below(state: RandomState, limit: int) -> int:
    """Draw an integer from 0 to `limit` - 1."""
    return int(uniform(state) * limit)
