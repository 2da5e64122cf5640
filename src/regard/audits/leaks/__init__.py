"""Leak detection: perturbation, gradients and truncation against a mask."""
