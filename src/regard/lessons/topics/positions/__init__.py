"""Lessons on positions."""
