"""Retrieval and similarity by sentence vectors."""
