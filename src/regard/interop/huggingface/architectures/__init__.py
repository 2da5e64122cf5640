"""Architectures that regard imports and exports, one file each."""
