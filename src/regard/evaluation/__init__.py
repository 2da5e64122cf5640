"""Evaluation: metrics, statistics, baselines and health checks, on arrays and texts alone."""
