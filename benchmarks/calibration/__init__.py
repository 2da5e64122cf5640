"""Type I error, power and coverage of regard's verdicts and intervals, by simulation.

    .venv/bin/python -m benchmarks.calibration --out docs/studies/calibration.md

One file a section of the page; each has a function that returns its Markdown.
"""
