"""Lessons on sequence to sequence."""
