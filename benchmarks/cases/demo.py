"""The demo's GPT-2, and a miniature of it for smoke runs."""

from __future__ import annotations

from typing import Any

from examples import language_model

from benchmarks.registry import Case, add_case

_DRIVERS = ("budgets", "partitioner")


def _miniature() -> tuple[Any, ...]:
    return language_model.step(layers=2, width=32)


add_case(
    Case(
        "gpt2",
        "GPT-2, 6 layers, width 384, dropout 0.1, batch 4 x 256",
        _DRIVERS,
        language_model.step,
    )
)
add_case(
    Case(
        "gpt2-mini",
        "GPT-2, 2 layers, width 32",
        _DRIVERS,
        _miniature,
        quick=True,
        full=False,
    )
)
