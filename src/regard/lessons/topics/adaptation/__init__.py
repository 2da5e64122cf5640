"""Lessons on adaptation."""
