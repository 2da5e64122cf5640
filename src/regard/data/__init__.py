"""Data: sources and readers, splits, tokenizers, the token cache, batching."""
