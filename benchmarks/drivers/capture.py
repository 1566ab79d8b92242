"""What it takes to trace a model that would not fit on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.registry import Case, Table, driver
from benchmarks.text import seconds, size

_CHILD = """
import json, re, sys, time
from importlib import import_module
from pathlib import Path
from encamp.tracer import trace_factory
module, name = sys.argv[1:]
factory = getattr(import_module(module), name)
started = time.perf_counter()
graph = trace_factory(factory, costs="roofline:h100-sxm")
# Not getrusage: its maximum is also that of the process this one was forked from.
status = Path("/proc/self/status").read_text()
print(json.dumps({
    "ops": len(graph.ops),
    "resident": graph.resident_bytes,
    "seconds": time.perf_counter() - started,
    "memory": 1024 * int(re.search(r"VmHWM:\\s*(\\d+) kB", status)[1]),
}))
"""


@driver("capture")
def capture(cases: Sequence[Case]) -> Table:
    """Trace each model in a process of its own."""
    return Table(
        title="Tracing offline",
        what=(
            "Models traced from their configuration under fake tensors, with roofline"
            " costs, each in a process of its own: Python, PyTorch and Transformers"
            " are part of its memory, importing them is not part of the time."
        ),
        columns=("model", "", "ops", "parameters", "time", "largest process memory"),
        rows=tuple(_row(case) for case in cases),
    )


def _row(case: Case) -> tuple[str, ...]:
    done = subprocess.run(  # noqa: S603 - this Python, on the program above
        [sys.executable, "-c", _CHILD, case.make.__module__, case.make.__name__],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    found = json.loads(done.stdout)
    return (
        case.name,
        case.what,
        f"{found['ops']:,}",
        size(found["resident"]),
        seconds(found["seconds"]),
        size(found["memory"]),
    )
