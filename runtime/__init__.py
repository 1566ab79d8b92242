"""Run a planned training step: bind, rewrite, measure and verify."""
