"""`make torture`: run trials of every target, and add them to docs/reliability.json and .md.

TORTURE is the fraction of the full counts, by default 1; with 0.01 it takes minutes. Each target
goes on where its last session ended, so that counts add up over days.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.torture import ledger
from tests.torture.catalogue import find_targets
from tests.torture.harness import run_target


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", help="Names; default: all.")
    parser.add_argument("--fraction", type=float, default=float(os.environ.get("TORTURE") or 1))
    parser.add_argument("--seconds", type=float, help="Of each target, at most.")
    parser.add_argument("--trial", type=int, help="Repeat this trial alone, and record nothing.")
    parser.add_argument(
        "--home", type=Path, help="Keep here what is made once, for short sessions of one code."
    )
    parser.add_argument("--failed", action="store_true", help="Repeat those that failed once.")
    parser.add_argument("--again", action="store_true", help="Begin with trial 0.")
    parser.add_argument("--dry", action="store_true", help="Record nothing.")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was done counts
    failed = 0
    for target in find_targets(given.targets):
        first = 0 if given.again else ledger.trials_done(target.name)
        count = max(1, round(target.full * given.fraction))
        trials = list(range(first, first + count)) if given.trial is None else [given.trial]
        if given.failed and not (trials := ledger.failed_trials(target.name)):
            continue
        until = time.monotonic() + given.seconds if given.seconds else None
        with tempfile.TemporaryDirectory(prefix="regard-torture-") as temporary:
            home = given.home / target.name if given.home else Path(temporary)
            session = run_target(target, trials, home, until=until)
        outcomes = ", ".join(f"{word} {n}" for word, n in session.outcomes.most_common())
        print(
            f"{target.name}: {session.outcomes.total():,} in {session.seconds:,.0f} s: {outcomes}"
        )
        failed += len(session.failures)
        if given.failed:
            ledger.record_repeated(session)
        elif given.trial is None and not given.dry:
            ledger.record(session)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
