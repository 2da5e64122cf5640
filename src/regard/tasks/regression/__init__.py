"""Regression: a number for each text."""
