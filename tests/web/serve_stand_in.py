"""`python -m tests.web.serve_stand_in RUNS`: the page as `regard serve` has it, in a process of its
own, whose trainings are a stand-in (or the real command, with --real)."""

import sys
from functools import partial
from pathlib import Path

from regard.web import app, guard
from regard.web.serve import serve
from regard.web.trainings.processes import Trainings

STAND_IN = Path(__file__).with_name("stand_in.py")


def main() -> None:
    guard.PER_SECOND = 1e9  # a test asks more often than a person
    if "--real" not in sys.argv:
        app.Trainings = partial(Trainings, command=[sys.executable, str(STAND_IN)])  # type: ignore[misc, assignment]
    serve(
        Path(sys.argv[1]),
        port=0,
        expose_as=None,
        opens_browser=False,
        say=lambda address: print(address, flush=True),
    )


if __name__ == "__main__":
    main()
