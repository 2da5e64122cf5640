"""Commands that train and evaluate."""
