"""Fast paths of attention: blocks of queries in torch, and regard's own CPU kernels."""
