"""Neural layers: linear, MLP, activations, dropout, norms, residual connections."""
