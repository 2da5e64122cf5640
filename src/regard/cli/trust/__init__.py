"""Commands that check: audit, check."""
