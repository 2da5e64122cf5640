"""Commands that serve the page."""
