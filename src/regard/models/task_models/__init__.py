"""Task models: a pretrained body with the head of a task."""
