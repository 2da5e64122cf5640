"""Compiled CPU kernels: C for AVX2 and AVX-512, and the Python that calls it."""
