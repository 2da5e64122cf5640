"""Fast paths of attention: blocks of queries, and compiled kernels."""
