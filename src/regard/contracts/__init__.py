"""Contracts: properties of every attention kind and position; run by tests and `regard check`."""
