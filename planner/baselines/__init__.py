"""Baselines: the methods a user knows, as schedules judged like Encamp's own.

Each module describes one method and names its source. `compare` gives what each of
them arrives at for a graph and a budget, `compare_all` for many budgets.
"""

from .comparison import METHODS, compare, compare_all
from .method import Baseline, Limits, Method

__all__ = ["METHODS", "Baseline", "Limits", "Method", "compare", "compare_all"]
