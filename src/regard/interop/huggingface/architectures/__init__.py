"""The architectures that regard reads and writes, one file each."""
