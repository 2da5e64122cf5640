"""Too little memory for a thread is an error, not a wait without end."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import resource, threading
from regard.core.process.thread_memory import check_thread_memory
check_thread_memory()
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (1 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    check_thread_memory()
    threading.Thread(target=print).start()
except (MemoryError, RuntimeError):
    print("said")
"""


@pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="needs Linux")
def test_a_thread_that_has_no_room_is_not_started() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "said\n"
