"""What regard asks of the computer and of its own process: cores, memory, collections."""
