"""Encamp plans activation checkpoints for PyTorch training steps.

```python
import encamp

graph = encamp.trace(model, args)              # the step as ops with costs
plan = encamp.plan(graph, "peak*0.5")          # the cheapest step that fits
model = encamp.apply(model, plan=plan)         # train on it
report = encamp.verify(factory, plan)          # and check it, bit for bit
```

`trace`, `apply` and `verify` need PyTorch (`pip install 'encamp[torch]'`) and are
loaded on first use; `plan` does not. The name `encamp.plan` is that function; the
module of the same name is reached by `from encamp.plan import Plan`.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Loaded before the function `plan` is defined: a submodule that were loaded later
# would take the function's name in this namespace.
from . import plan as _plan_module  # noqa: F401
from .budget import budget_bytes
from .errors import MissingExtraError

if TYPE_CHECKING:
    from encamp.runtime import apply as apply
    from encamp.runtime import verify as verify
    from encamp.tracer import trace as trace

    from .graph import CostGraph
    from .plan import Plan

__all__ = ["__version__", "apply", "plan", "trace", "verify"]

__version__ = "0.1.0"

_ROOT = Path(__file__).parents[2]
if not (Path(__file__).parent / "planner").is_dir() and (_ROOT / "planner").is_dir():
    # A copy of the repository that lost its links (an archive, core.symlinks=false).
    __path__.append(str(_ROOT))

_TORCH_SIDE = {
    "apply": "encamp.runtime",
    "trace": "encamp.tracer",
    "verify": "encamp.runtime",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever is looked up
    """Load a public function from its package on first use.

    Raises:
        MissingExtraError: it needs PyTorch, which is not installed.

    """
    home = _TORCH_SIDE.get(name)
    if home is None:
        msg = f"module 'encamp' has no attribute {name!r}"
        raise AttributeError(msg)
    if find_spec("torch") is None:
        msg = f"encamp.{name} needs PyTorch: pip install 'encamp[torch]'"
        raise MissingExtraError(msg)
    return getattr(import_module(home), name)


def plan(
    graph: CostGraph,
    budget: str | int,
    *,
    reserve: str | int = 0,
    **options: Any,  # noqa: ANN401 - the fields of planner.Options
) -> Plan:
    """Return the cheapest schedule of `graph` found that stays within `budget`.

    `budget` is the total peak of the step: bytes, "16GiB", "90%" of the device or
    "peak*0.6" of the unplanned peak. `reserve`, written alike, is kept free of it.
    `options` are the fields of `encamp.planner.Options`.

    Raises:
        UnitError: the budget or the reserve does not parse.
        InfeasibleError: no schedule fits.
        NoPlanError: a limit or an interrupt came before any plan.

    """
    from encamp.planner import Options, solve  # noqa: PLC0415 - loads the solver

    return solve(
        graph,
        budget_bytes(graph, budget),
        reserve_bytes=budget_bytes(graph, reserve),
        options=Options(**options),
    )
