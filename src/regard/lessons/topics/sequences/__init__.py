"""Lessons on sequence-to-sequence models and their scores."""
