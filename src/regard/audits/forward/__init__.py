"""Deterministic forward passes: modes, float64, perturbed parameters."""
