"""Training steps from public bug reports, as the tests have them."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from benchmarks.registry import Case, add_case

_SUPPORT = Path(__file__).parents[2] / "tests" / "support"
_QUICK = ("S01", "S05")

sys.path.append(str(_SUPPORT))
for name, factory in import_module("cases").CASES.items():
    what = (factory.__doc__ or "").rstrip(".").partition(": ")[2]
    add_case(Case(name, what, ("verify",), factory, name in _QUICK))
