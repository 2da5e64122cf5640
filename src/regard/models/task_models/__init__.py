"""Task models: a pretrained body with a task's head."""
