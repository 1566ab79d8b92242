"""Which error leads to which exit code."""

import pytest

from encamp import errors
from encamp.api.cli.exits import MEANINGS, Exit, exit_of

EXPECTED = {
    "InfeasibleError": 3,
    "PlanError": 4,
    "InvalidPlanError": 4,
    "StalePlanError": 4,
    "MissingPlanError": 4,
    "ServiceError": 5,
    "UnauthorizedError": 5,
    "ForbiddenError": 5,
    "NotFoundError": 5,
    "ConflictError": 5,
    "TooLargeError": 5,
    "BusyError": 5,
    "UnreachableError": 5,
    "StoreError": 5,
    "VerificationError": 6,
    "NoPlanError": 7,
}
FIGURES = {
    "InfeasibleError": {"budget_bytes": 1, "bound_bytes": 2},
    "BusyError": {"own": True, "retry_after_s": 1},
}
ERRORS = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.EncampError)
    if kind is not errors.InternalError  # a bug: traceback, exit 1
}


@pytest.mark.parametrize("name", ERRORS)
def test_each_error_has_its_code(name):
    """Whatever is not listed is something given that cannot be used: 2."""
    error = ERRORS[name]("", **FIGURES.get(name, {}))

    assert exit_of(error) == EXPECTED.get(name, 2)


def test_each_code_has_a_meaning():
    """The help lists every code that the program can end with on purpose."""
    assert list(MEANINGS) == list(Exit)
