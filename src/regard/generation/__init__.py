"""Generation: sampling, beam search, and the window a model decodes in."""
