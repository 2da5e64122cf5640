"""Heads: from hidden states to logits, spans, labels, vectors and patches."""
