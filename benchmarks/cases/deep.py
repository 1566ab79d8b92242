"""Transformers of growing depth, for how time and memory grow with the graph."""

from __future__ import annotations

import functools

from benchmarks.registry import Case, add_case
from benchmarks.synthetic import Shape, transformer

_DEPTHS = (10, 40, 150, 500, 2000)

for _layers in _DEPTHS:
    _make = functools.partial(transformer, Shape(_layers))
    _what = f"decoder of {_layers:,} layers"
    _quick = _layers == min(_DEPTHS)
    add_case(Case(f"deep{_layers}", _what, ("scale",), _make, quick=_quick))
