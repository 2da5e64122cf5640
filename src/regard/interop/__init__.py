"""Interoperability: import and export of checkpoints and adapters of other libraries."""
