"""How long a thread that waits for the others spins before it sleeps.

By default GNU's OpenMP runtime, which torch computes with on Linux, spins for a millisecond and
more. Alone on the machine that is the fastest; beside any other work, a second training say,
threads spin on the core that the one they wait for needs, and both trainings take up to 100 times
as long. A thousand turns, about 20 µs, bridge the gaps between two operations of a training step:
alone a small step takes 3 to 9 % longer and a larger one the same, and two trainings at once take
twice as long as one.

Nothing changes where the environment says how to wait. No bit of a result depends on it.
"""

from __future__ import annotations

import os
import sys

SPIN_COUNT = "GOMP_SPINCOUNT"
SPINS = 1000
WAITING_VARIABLES = (SPIN_COUNT, "OMP_WAIT_POLICY")


def limit_spinning() -> bool:
    """Limit it for this process and those it starts; returns whether it did.

    To be called before torch is loaded: the runtime reads the environment once.
    """
    if "torch" in sys.modules or any(name in os.environ for name in WAITING_VARIABLES):
        return False
    os.environ[SPIN_COUNT] = str(SPINS)
    return True
