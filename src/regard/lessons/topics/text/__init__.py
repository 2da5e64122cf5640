"""Lessons on tokenizers and batches of text."""
