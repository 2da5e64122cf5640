"""Statistics: estimates, intervals, significance, verdicts."""
