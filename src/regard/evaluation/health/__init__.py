"""Health checks: collapsed samples, constant predictions, overfitting."""
