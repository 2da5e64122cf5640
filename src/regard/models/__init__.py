"""Models: blocks, architectures, heads, task models, and the families that build them."""
