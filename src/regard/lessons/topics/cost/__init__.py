"""Lessons on the cost of attention kinds."""
