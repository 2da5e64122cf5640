"""Lessons on adaptation: parameter counts of adapters."""
