"""Hugging Face checkpoints: config, tensors, tokenizer, architectures."""
