"""Readers: text, CSV, TSV, JSON, Parquet, SQuAD and parallel files as streams of records."""
