"""Tensors in files: safetensors, which runs no code when it is read; errors name the file."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.core.errors import UserError


def write_tensors(tensors: dict[str, Tensor], file: Path) -> None:
    try:
        save_file(tensors, file, metadata={"format": "pt"})
    except SafetensorError as problem:
        # safetensors has the errno only in its message; a full disk must surface as an OSError.
        errno = re.search(r"\(os error (\d+)\)", str(problem))
        if errno is None:
            raise
        raise OSError(int(errno[1]), os.strerror(int(errno[1])), str(file)) from problem


class TensorCount(NamedTuple):
    """What a safetensors file holds, by its header."""

    tensors: int
    numbers: int


def count_tensors(file: Path) -> TensorCount:
    try:
        with safe_open(file, framework="pt") as opened:
            names = list(opened.keys())
            sizes = [math.prod(opened.get_slice(name).get_shape()) for name in names]
            return TensorCount(len(sizes), sum(sizes))
    except FileNotFoundError:
        raise UserError(f"{file} is missing", topic="model") from None
    except SafetensorError as problem:
        raise UserError(f"{file} is damaged: {problem}", topic="model") from None


def read_tensors(file: Path) -> dict[str, Tensor]:
    try:
        return load_file(file)
    except FileNotFoundError:
        raise UserError(f"{file} is missing", topic="model") from None
    except SafetensorError as problem:
        raise UserError(f"{file} is damaged: {problem}", topic="model") from None
