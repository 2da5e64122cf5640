"""What differs between devices: whether values are at hand, what a copy waits for, float64,
autocast.

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
    if torch.compiler.is_compiling() or not x.is_cpu or isinstance(x, FakeTensor):
        return False
    return not torch._C._functorch.is_functorch_wrapped_tensor(x)  # one of many, under vmap


PINNED_FOR = ("cuda",)
"Devices that copy from pinned memory alone while Python goes on."


def copy_to(x: Tensor, device: torch.device | str) -> Tensor:
    """The tensor on the device, without waiting for the copy."""
    if x.is_cpu and torch.device(device).type in PINNED_FOR:
        x = x.pin_memory()
    return x.to(device, non_blocking=True)


def widest_float(device: torch.device) -> torch.dtype:
    """float64, which Apple's GPUs do not have."""
    return torch.float32 if device.type == "mps" else torch.float64


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Within: operations keep the dtype of their tensors. Not every device has autocast."""
    if torch.amp.is_autocast_available(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()
