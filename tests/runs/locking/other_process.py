"""A second process that holds the lock of a run folder."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HOLD = """
import errno, platform, sys, time
from pathlib import Path
from regard.runs.locking import lock_holder
from regard.runs.locking.lock import lock_run

folder, purpose, host, file_system = sys.argv[1:]
lock_holder.BEAT_SECONDS = 0.1
if host:
    platform.node = lambda: host
if file_system == "no locks":
    import filelock._unix
    def refuse(descriptor):
        raise OSError(errno.ENOLCK, "no locks here")
    filelock._unix._lock_fd_nonblocking = refuse
with lock_run(Path(folder), purpose):
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def held_by_another_process(
    folder: Path, purpose: str = "training", *, host: str = "", file_system: str = "system locks"
) -> Iterator[subprocess.Popen[str]]:
    """`host`: as if it were a process of that machine."""
    command = [sys.executable, "-c", HOLD, str(folder), purpose, host, file_system]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout.readline() == "held\n"
            yield holder
        finally:
            holder.kill()
