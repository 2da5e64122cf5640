"""One training on several processes, the ranks that torchrun starts."""
