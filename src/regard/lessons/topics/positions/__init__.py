"""Lessons on position encodings."""
