"""Charts of runs and studies, and drawings of attention weights."""
