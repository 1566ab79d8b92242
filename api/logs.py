"""Structured logs: one JSON document a line on stderr.

Nothing that could be a secret is handed to them: no header, no body, no query.
"""

from __future__ import annotations

import logging
import sys
from typing import TextIO, cast

import structlog
from structlog.typing import FilteringBoundLogger, Processor

_SHARED: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
]


def new_logger(to: TextIO | None = None) -> FilteringBoundLogger:
    """Return a logger that writes JSON lines, to stderr where not told otherwise."""
    return cast(
        "FilteringBoundLogger",
        structlog.wrap_logger(
            structlog.WriteLogger(to or sys.stderr),
            processors=[*_SHARED, structlog.processors.JSONRenderer()],
            wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
            cache_logger_on_first_use=True,
        ),
    )


def capture_standard_logging() -> None:
    """Have libraries that log as Python does write the same lines, from WARNING up."""
    handler = logging.StreamHandler(sys.stderr)
    render = structlog.processors.JSONRenderer()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(render, foreign_pre_chain=_SHARED)
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
