"""Audits: what a model may see, what changes its outputs, what can learn. For any model."""
