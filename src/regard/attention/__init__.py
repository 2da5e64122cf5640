"""Attention: masks, attention functions, kinds, positions, KV cache; they meet in `attend`."""
