"""Verdicts on results that regard did not make: files of items, compared as the runs of a study."""
