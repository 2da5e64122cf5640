"""Blocks of a Transformer: embedding, attention and MLP blocks, stacks, virtual tokens."""
