"""Baselines: the methods a user knows, as schedules judged like Encamp's own.

Each module describes one method and names its source. `compare` gives what each of
them arrives at for a graph and a budget.
"""

from .comparison import METHODS, compare
from .method import Baseline, Limits, Method

__all__ = ["METHODS", "Baseline", "Limits", "Method", "compare"]
