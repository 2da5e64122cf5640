"""Lessons on cost."""
