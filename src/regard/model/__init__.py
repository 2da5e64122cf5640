"""Models: one block, the families built from it, and the heads that answer."""
