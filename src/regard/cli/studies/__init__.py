"""Commands about studies and runs: compare, sweep, runs, report, errors."""
