"""The models of the zoo, as the tests have them."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from benchmarks.registry import Case, add_case

_SUPPORT = Path(__file__).parents[2] / "tests" / "support"
_QUICK = ("Llama", "U-Net")

if str(_SUPPORT) not in sys.path:
    sys.path.append(str(_SUPPORT))
for name, factory in import_module("zoo").ZOO.items():
    what = (factory.__doc__ or "").rstrip(".")
    add_case(Case(name, what, ("zoo",), factory, name in _QUICK))
