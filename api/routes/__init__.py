"""The endpoints, by what they are about."""

from .about import router as about
from .graphs import router as graphs
from .operations import router as operations
from .plans import router as plans
from .questions import router as questions

ROUTERS = (graphs, questions, plans, operations, about)

__all__ = ["ROUTERS"]
