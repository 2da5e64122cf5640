"""What bends the numbers between two linear layers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor


class Bend(NamedTuple):
    name: str
    plain: Callable[[Tensor], Tensor]
    "torch's function, the oracle."
    number: int
    "By which kernels know it, as in bends.h."


STRAIGHT = Bend("straight", lambda x: x, 0)
RELU = Bend("relu", F.relu, 1)
GELU_TANH = Bend("gelu-tanh", partial(F.gelu, approximate="tanh"), 2)  # GPT-2's
GELU = Bend("gelu", F.gelu, 3)
