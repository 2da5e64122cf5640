"""Run folders read back: records, index, filters, errors, deletion."""
