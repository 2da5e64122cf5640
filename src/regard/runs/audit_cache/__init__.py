"""Audits kept for later runs: under which key, and when one is reused."""
