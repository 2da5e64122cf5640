"""Health checks: collapsed samples, constant predictions, overfitting, overlap with training."""
