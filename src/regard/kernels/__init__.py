"""Kernels of our own, in C: work that torch's operations can only do one pass after another.

Each has a readable oracle in torch and equals it; where the library was not built, or the processor
is of another sort, the oracle's own quick path is taken. `library` says which it is.
"""
