"""Where solves run: apart from the server, so that they can be stopped.

A `Pool` takes a `Job`, tells how it goes, and returns an `Outcome`. It blocks, for the
thread that calls it. Jobs and outcomes are JSON documents and text, never pickles.
"""

from .job import Job, Outcome, Pool, Stop
from .local import LocalPool

__all__ = ["Job", "LocalPool", "Outcome", "Pool", "Stop"]
