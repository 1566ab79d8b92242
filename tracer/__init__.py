"""Capture a training step as a cost graph: the only way in from PyTorch."""
