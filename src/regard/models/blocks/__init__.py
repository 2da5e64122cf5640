"""Building blocks of a Transformer: embedding, block, stack, decode stack, virtual tokens."""
