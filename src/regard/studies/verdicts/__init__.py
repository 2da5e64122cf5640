"""Verdicts: who is compared with whom, and at which looks at the seeds."""
