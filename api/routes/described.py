"""What several endpoints say of themselves in the API's description."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from encamp.api.problems import MEDIA_TYPE

_PROBLEM = {"$ref": "#/components/schemas/ProblemDocument"}
_USUAL = (401, 403, 421, 500)


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the description of problems with these statuses, and the usual ones."""
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": _PROBLEM}},
        }
        for status in sorted({*_USUAL, *statuses})
    }
