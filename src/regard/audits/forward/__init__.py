"""Running a model reproducibly: modes, float64, perturbed weights."""
