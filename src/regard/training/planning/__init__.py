"""The memory of a training on devices that need not be here."""
