"""Commands about what can be named: ls, mask."""
