"""Commands for lessons and exercises."""
