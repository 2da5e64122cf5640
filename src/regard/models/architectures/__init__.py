"""Architectures: decoder (language model), encoder, encoder-decoder and recurrent models."""
