"""Question answering: spans of a passage, and closed-book recall."""
