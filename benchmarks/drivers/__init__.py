"""Drivers: one way of measuring each."""
