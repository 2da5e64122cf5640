"""What differs between devices: whether values are at hand, and whether there is autocast.

Reading a tensor from Python is free on the CPU; on an accelerator it waits for all queued work.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor


def is_readable(x: Tensor) -> bool:
    """Whether reading its values waits for nothing. Where it would, what follows has to be right
    whatever the values are."""
    return x.is_cpu and not isinstance(x, FakeTensor) and not torch.compiler.is_compiling()


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Within: operations keep the dtype of their tensors. Not every device has autocast."""
    if torch.amp.is_autocast_available(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()
