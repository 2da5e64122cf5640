"""Commands about data: corpus, tokenizer, new."""
