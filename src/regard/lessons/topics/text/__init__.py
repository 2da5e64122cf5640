"""Lessons on text and tokenizers."""
