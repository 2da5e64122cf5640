"""Batch coupling: rows of a batch that influence each other."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from regard.audits.forward.forward_mode import ForwardMode


def isolate_rows(mode: ForwardMode, base: Tensor, generator: torch.Generator) -> ForwardMode:
    """The mode, or one that runs rows one at a time where batch rows influence each other."""
    other = mode.subject.draw(2, base.shape[1], generator).to(base.dtype)
    before = mode.outputs(torch.cat([base, other[:1]]))[:1]
    after = mode.outputs(torch.cat([base, other[1:]]))[:1]
    return replace(mode, companion=other[:1]) if bool((before != after).any()) else mode
