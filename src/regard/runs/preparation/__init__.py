"""From a recipe's data to examples in tokens, ready to train and evaluate on."""
