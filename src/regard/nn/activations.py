"""Activation functions and their kernel ids."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor


class Activation(NamedTuple):
    name: str
    reference: Callable[[Tensor], Tensor]
    "torch's function, the oracle of the kernels."
    kernel_id: int
    "As in activations.h."


IDENTITY = Activation("identity", lambda x: x, 0)
RELU = Activation("relu", F.relu, 1)
GELU_TANH = Activation("gelu-tanh", partial(F.gelu, approximate="tanh"), 2)  # GPT-2's
GELU = Activation("gelu", F.gelu, 3)
