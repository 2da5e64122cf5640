"""What bends the numbers between two linear layers, and how oneDNN names it.

oneDNN bends what a product makes while it is still at hand, which for the few rows of decoding is
quicker than torch's own function behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor


class Bend(NamedTuple):
    plain: Callable[[Tensor], Tensor]
    "torch's function, the oracle."
    name: str
    algorithm: str
    "Both as oneDNN's product takes them."


STRAIGHT = Bend(lambda x: x, "none", "")
GELU = Bend(F.gelu, "gelu", "none")
GELU_TANH = Bend(partial(F.gelu, approximate="tanh"), "gelu", "tanh")  # GPT-2's
RELU = Bend(F.relu, "relu", "")
