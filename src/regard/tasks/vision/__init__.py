"""Image tasks on patches: questions about digits, masked patches."""
