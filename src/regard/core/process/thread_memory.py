"""Whether there is memory for another thread, asked before one is started.

Python waits without end for a thread that dies before it can say that it has begun, as one does
for which memory is too short (`ulimit -v`).
"""

from __future__ import annotations

THREAD_BYTES = 16 << 20
"Bytes that a thread needs: its stack, and what it allocates before it can report an error."


def check_thread_memory() -> None:
    """Raise a MemoryError where there is too little; what is asked for is given back at once."""
    bytearray(THREAD_BYTES)
