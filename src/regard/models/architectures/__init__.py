"""Architectures: decoder, encoder, encoder-decoder and recurrent models."""
