"""Models in and out: checkpoints of other tools become ours, ours become theirs."""
