"""One training step at shapes drawn at random, against plain GPT as people run it."""
