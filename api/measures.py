"""What the service counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from .store import Operation, Queue

_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30)
_SOLVE_SECONDS = (0.5, 1, 2, 5, 10, 30, 60, 300, 1800)


class _Depths(Collector):
    """Operations by state, read when they are asked for."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return one gauge with a sample for each state."""
        gauge = GaugeMetricFamily(
            "encamp_operations",
            "Operations in flight, of all replicas",
            labels=["state"],
        )
        for state, number in self._queue.depths().items():
            gauge.add_metric([state], number)
        yield gauge


@dataclass(frozen=True, slots=True)
class Measures:
    """The counters of one app."""

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    requests: Counter = field(init=False)
    seconds: Histogram = field(init=False)
    ended: Counter = field(init=False)
    solve_seconds: Histogram = field(init=False)
    answers: Counter = field(init=False)
    running: Gauge = field(init=False)

    def __post_init__(self) -> None:
        """Make and register all of them."""
        made = {
            "requests": Counter(
                "encamp_requests",
                "Requests",
                ["method", "route", "status"],
                registry=self.registry,
            ),
            "seconds": Histogram(
                "encamp_request_seconds",
                "Time to answer",
                ["method", "route"],
                buckets=_SECONDS,
                registry=self.registry,
            ),
            "ended": Counter(
                "encamp_operations_ended",
                "Operations that ended in this replica",
                ["kind", "state"],
                registry=self.registry,
            ),
            "solve_seconds": Histogram(
                "encamp_solve_seconds",
                "Time from claim to end",
                ["kind"],
                buckets=_SOLVE_SECONDS,
                registry=self.registry,
            ),
            "answers": Counter(
                "encamp_answers",
                "Questions by how they were met",
                ["kind", "how"],
                registry=self.registry,
            ),
            "running": Gauge(
                "encamp_solves_running",
                "Solves running in this replica",
                registry=self.registry,
            ),
        }
        for name, counter in made.items():
            object.__setattr__(self, name, counter)

    def watch(self, queue: Queue) -> None:
        """Count what is in flight, too."""
        self.registry.register(_Depths(queue))

    def note_end(self, operation: Operation, seconds: float) -> None:
        """Count an operation that ended."""
        self.ended.labels(operation.kind, operation.state).inc()
        self.solve_seconds.labels(operation.kind).observe(seconds)

    def text(self) -> bytes:
        """Return all in Prometheus's text format."""
        return generate_latest(self.registry)
