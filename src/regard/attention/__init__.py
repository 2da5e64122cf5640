"""Attention: masks, functions, kinds, positions, and the one place where they meet (`attend`)."""
