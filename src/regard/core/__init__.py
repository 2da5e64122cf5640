"""Foundations of every package: errors, settings, catalogues, files, CPU and memory."""
