"""Attention: masks, rules, kinds, positions, and the one place where they meet (`attend`)."""
