"""Kernels of our own, in C: they pass once over numbers that torch's operations pass over again.

Each has a readable oracle in torch and equals it; where the library was not built, or the processor
is of another sort, the oracle's own quick path is taken. `library` says which it is.
"""
