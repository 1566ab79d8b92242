"""Encamp plans activation checkpoints for PyTorch training steps."""

__version__ = "0.1.0"
