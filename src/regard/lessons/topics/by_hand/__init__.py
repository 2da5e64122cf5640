"""Lessons on attention by hand."""
