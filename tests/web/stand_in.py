"""What takes the place of `regard train` in tests: it locks its run as that does, without torch.

It trains for STAND_IN_SECONDS and saves upon Ctrl-C; with --resume it ends soon.
"""

import os
import signal
import sys
import time
from pathlib import Path

from regard.core.files import write_text
from regard.runs.locking.lock import lock_run

SECONDS = float(os.environ.get("STAND_IN_SECONDS", "60"))
TICK, RESUMED = 0.02, 0.1


def main() -> None:
    print("arguments", *sys.argv[1:], flush=True)
    given = Path(sys.argv[1])
    run = Path(sys.argv[3]) if "--out" in sys.argv else given
    if given.suffix == ".toml" and "refuse" in given.read_text():
        sys.exit("recipe: refused, says the stand-in")
    stopped = []
    with lock_run(run, "training"):
        signal.signal(signal.SIGINT, lambda *_: stopped.append(True))
        if "--resume" not in sys.argv:
            run.mkdir()  # an existing one is never touched
            write_text(run / "recipe.toml", given.read_text())
        saved = run / "saved"
        done = SECONDS - RESUMED if "--resume" in sys.argv else 0.0
        print("begun", flush=True)
        while done < SECONDS and not stopped:
            time.sleep(TICK)
            done += TICK
        write_text(saved, str(done))
        if stopped:
            sys.exit("saved at step 7")
        write_text(run / "results.json", "{}")


main()
