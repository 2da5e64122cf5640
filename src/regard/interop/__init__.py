"""Interoperability: models of other tools in and out."""
