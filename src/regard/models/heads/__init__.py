"""Heads: from hidden states to token logits, labels, answer spans and sentence embeddings."""
