"""The search for overlap: what of planted overlap it finds, and its time and memory."""
