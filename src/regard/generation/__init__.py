"""Generation: greedy decoding, sampling, beam search, and the context window they decode in."""
