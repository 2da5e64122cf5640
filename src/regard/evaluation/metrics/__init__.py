"""Metrics: per-item statistics, and scores made of their sums."""
