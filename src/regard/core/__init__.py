"""What every room stands on: errors, settings, catalogues, files, the machine."""
