"""Lessons on masks."""
