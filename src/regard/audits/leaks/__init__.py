"""The search for leaks: perturbation, gradients and truncation against a mask."""
