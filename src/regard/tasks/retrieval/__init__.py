"""Retrieval and similarity with sentence embeddings."""
