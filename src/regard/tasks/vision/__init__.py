"""Images as patches: digits with questions, masked patches."""
