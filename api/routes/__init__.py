"""The endpoints, by what they are about."""

from . import about, graphs, operations, plans, questions

ROUTERS = tuple(part.router for part in (graphs, questions, plans, operations, about))

__all__ = ["ROUTERS"]
