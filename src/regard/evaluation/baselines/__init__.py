"""Baselines: what counting, copying and word statistics achieve on the same items."""
