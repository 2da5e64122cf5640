"""Audits of any model: leaks against its mask, invariances, unused parameters."""
