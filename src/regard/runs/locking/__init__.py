"""One writer per run folder: its lock, and who holds it."""
