"""A plan over time: as a document, and for the viewers that people have."""

from .memory_viz import snapshot
from .perfetto import trace
from .steps import timeline_document

__all__ = ["snapshot", "timeline_document", "trace"]
