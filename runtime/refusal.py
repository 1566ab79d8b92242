"""Let Encamp's own exceptions through `torch.compile` as they are.

Dynamo wraps what a backend raises in its own exception, which a user would have to
unwrap. It lets one class of its own through; an exception that is both keeps our
type, our message and our attributes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch._dynamo.exc import ShortenTraceback

from encamp.errors import EncampError


@contextmanager
def refusals() -> Iterator[None]:
    """Re-raise an `EncampError` of the body so that Dynamo passes it on."""
    try:
        yield
    except EncampError as error:
        raise _passing(error) from error.__cause__


def _passing(error: EncampError) -> EncampError:
    if isinstance(error, ShortenTraceback):
        return error
    kind = _passing_class(type(error))
    made = kind.__new__(kind, *error.args)
    made.__dict__.update(error.__dict__)
    made.args = error.args
    made.first_useful_frame = None  # type: ignore[attr-defined]
    made.said = str(error)  # type: ignore[attr-defined]
    return made.with_traceback(error.__traceback__)


def _passing_class(kind: type[EncampError]) -> type[EncampError]:
    body = {"__module__": kind.__module__, "__str__": _said}
    return type(kind.__name__, (kind, ShortenTraceback), body)


def _said(error: EncampError) -> str:
    """Leave out what Dynamo adds to a message: how to report a bug of its own."""
    return error.said  # type: ignore[attr-defined, no-any-return]
