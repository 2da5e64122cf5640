"""The token cache: a corpus tokenized once, in shards, by several processes."""
