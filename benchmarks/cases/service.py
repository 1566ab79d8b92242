"""A graph of ten thousand ops, and a small one for smoke runs of the service."""

from __future__ import annotations

from benchmarks.cases.chain import layered
from benchmarks.registry import Case, add_case

_LAYERS = 5000

add_case(
    Case(
        "10k ops",
        f"{2 * _LAYERS} ops of {_LAYERS} equal layers",
        ("service",),
        lambda: layered(_LAYERS),
    )
)
add_case(
    Case(
        "100 ops",
        "50 equal layers",
        ("service",),
        lambda: layered(50),
        quick=True,
        full=False,
    )
)
