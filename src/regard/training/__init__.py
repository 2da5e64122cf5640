"""Training: loop, optimizer, schedule, batches, checkpoints, device."""
