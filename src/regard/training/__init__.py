"""Training: loop, optimizer, learning-rate schedule, batch loader, checkpoints, device."""
