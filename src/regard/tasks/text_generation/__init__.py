"""Conditional text generation: translation, summarisation."""
