"""Runs: one recipe becomes one run folder."""
