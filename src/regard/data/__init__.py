"""Data: sources, readers, splits, tokenizers, the memory-mapped token cache, batching."""
