"""Ranks of one training that have to do the same: one asks, all hear, all agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch.distributed as dist

from encamp import errors
from encamp.errors import EncampError, InternalError, StalePlanError

_T = TypeVar("_T")


def num_ranks() -> int:
    """Return how many ranks train together, 1 for a process alone."""
    if not dist.is_available() or not dist.is_initialized():
        return 1
    return dist.get_world_size()


def from_first(make: Callable[[], _T]) -> _T:
    """Return on every rank what `make` returns on the first, which alone calls it.

    What it returns has to be what pickle takes. Every rank calls this function.

    Raises:
        EncampError: what `make` raised, on every rank.

    """
    if num_ranks() == 1:
        return make()
    box: list[Any] = [None]
    failure: Exception | None = None
    if dist.get_rank() == 0:
        try:
            box = [("made", make())]
        except Exception as error:  # noqa: BLE001 - the others wait for word of it
            failure = error
            box = [("failed", _packed(error))]
    dist.broadcast_object_list(box, src=0)
    if failure is not None:
        raise failure
    outcome, content = box[0]
    if outcome == "failed":
        raise _unpacked(*content)
    made: _T = content
    return made


def require_agreement(problem: str | None) -> None:
    """Raise on every rank if any has a problem; every rank calls this function.

    Raises:
        StalePlanError: with each rank's problem, or that it has none.

    """
    if num_ranks() == 1:
        if problem is not None:
            raise StalePlanError(problem)
        return
    problems: list[str | None] = [None] * num_ranks()
    dist.all_gather_object(problems, problem)
    if any(told is not None for told in problems):
        lines = [
            f"  rank {rank}: {'the plan fits' if told is None else told}"
            for rank, told in enumerate(problems)
        ]
        msg = "\n".join(["the ranks cannot all run one plan:", *lines])
        raise StalePlanError(msg)


def _packed(error: Exception) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    if not isinstance(error, EncampError):
        told = f"rank 0 failed with {type(error).__name__}: {error}"
        return InternalError.__name__, (told,), {}
    return type(error).__name__, error.args, dict(vars(error))


def _unpacked(
    name: str, args: tuple[Any, ...], attributes: dict[str, Any]
) -> EncampError:
    """Return an exception as it was, whatever its class asks to be made with."""
    kind: type[EncampError] = getattr(errors, name, EncampError)
    error = kind.__new__(kind, *args)
    error.args = args
    vars(error).update(attributes)
    return error
