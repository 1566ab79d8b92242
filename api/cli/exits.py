"""Exit codes of the command line, and which error leads to which."""

from __future__ import annotations

from enum import IntEnum

from encamp.errors import (
    EncampError,
    InfeasibleError,
    NoPlanError,
    PlanError,
    ServiceError,
    VerificationError,
)


class Exit(IntEnum):
    """What the exit status of `encamp` says; 1, with a traceback, is a bug."""

    DONE = 0
    USAGE = 2
    INFEASIBLE = 3
    STALE = 4
    SERVICE = 5
    FAILED = 6
    NO_PLAN = 7


MEANINGS = {
    Exit.DONE: "done",
    Exit.USAGE: "something given cannot be used: an option, a document, a model",
    Exit.INFEASIBLE: "no schedule fits the budget; the smallest that does is named",
    Exit.STALE: "a plan is of another graph or over its budget; a lock does not hold",
    Exit.SERVICE: "the planning service refused the request, or does not answer",
    Exit.FAILED: "verification failed",
    Exit.NO_PLAN: "the search ended before any plan: a limit, an interrupt",
}

_CODES: dict[type[EncampError], Exit] = {
    InfeasibleError: Exit.INFEASIBLE,
    PlanError: Exit.STALE,
    ServiceError: Exit.SERVICE,
    VerificationError: Exit.FAILED,
    NoPlanError: Exit.NO_PLAN,
}


def exit_of(error: EncampError) -> Exit:
    """Return the exit status for an error: its class's, else that of wrong usage."""
    codes = (code for kind, code in _CODES.items() if isinstance(error, kind))
    return next(codes, Exit.USAGE)
