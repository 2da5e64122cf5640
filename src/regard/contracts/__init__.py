"""Contracts: what every kind and position owes; run by the tests and by `regard check`."""
