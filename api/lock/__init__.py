"""Lock files: which plan each graph of a repository is trained on, and how it was made.

A lock file is made and verified by `encamp plan --lock`. It is JSON, one fact a line,
so that a review sees what a change of the model does to memory and time.
"""

from .document import LOCK_SCHEMA, Lock, Locked, read_lock, write_lock
from .facts import Choices, PlanFacts
from .verifying import Finding, Trouble, Verified, verify

__all__ = [
    "LOCK_SCHEMA",
    "Choices",
    "Finding",
    "Lock",
    "Locked",
    "PlanFacts",
    "Trouble",
    "Verified",
    "read_lock",
    "verify",
    "write_lock",
]
