"""The command `encamp`: results on stdout, progress and errors on stderr."""

from .application import app, main

__all__ = ["app", "main"]
