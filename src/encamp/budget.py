"""A budget as people write it, in bytes of one graph's device."""

from __future__ import annotations

from .graph import CostGraph
from .replay import replay
from .units import parse_budget


def budget_bytes(graph: CostGraph, text: str | int) -> int:
    """Return the bytes that a budget or a reserve names for `graph`.

    "90%" is of the memory of the device the graph was costed for
    (`meta["device_memory_bytes"]`), "peak*0.6" of the peak of its unplanned step.
    Linear in the graph.

    Raises:
        UnitError: `text` does not parse, or asks for a share of a device whose
            memory the graph does not record.

    """
    device = graph.meta.get("device_memory_bytes")
    return parse_budget(
        text,
        unplanned_peak=replay(graph).peak_bytes,
        device_bytes=device if isinstance(device, int) else None,
    )
