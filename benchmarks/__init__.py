"""Benchmarks of Encamp: a registry of cases and the drivers that measure them."""
