"""What an object holds beside parameters, as plain values that compare equal where it is equal."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, PurePath)


class UnknownStateError(Exception):
    """The object holds something that cannot be told apart from other such things."""


def describe(value: Any, *, own: Sequence[str], seen: tuple[int, ...] = ()) -> Any:
    """`value` in terms of JSON. Classes and functions stand for their source: they have to be of
    the packages `own`, or builtin."""

    def inner(one: Any) -> Any:
        return describe(one, own=own, seen=(*seen, id(value)))

    if isinstance(value, PLAIN):
        return repr(value)
    if id(value) in seen:
        return f"the object {len(seen) - seen.index(id(value))} above"
    if isinstance(value, type | FunctionType | BuiltinFunctionType):
        return _code(value, inner, own)
    if isinstance(value, MethodType):
        return [_code(value.__func__, inner, own), inner(value.__self__)]
    if isinstance(value, enum.Enum):
        return [_code(type(value), inner, own), value.name]
    if isinstance(value, Tensor):
        return tensor_digest(value)
    if isinstance(value, np.ndarray | np.generic):
        return inner(torch.as_tensor(np.asarray(value)))
    if isinstance(value, Mapping):
        return [[inner(key), inner(item)] for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [type(value).__name__, *map(inner, value)]
    if isinstance(value, set | frozenset):
        return sorted(str(inner(item)) for item in value)
    return [_code(type(value), inner, own), _attributes(value, inner, own)]


def tensor_digest(tensor: Tensor) -> str:
    own = tensor.detach().cpu().contiguous()
    head = f"{list(own.shape)} {own.dtype} ".encode()
    content = own.flatten().view(torch.uint8).numpy().tobytes() if own.numel() else b""
    return hashlib.sha256(head + content).hexdigest()


def _attributes(value: Any, inner: Callable[[Any], Any], own: Sequence[str]) -> Any:
    module = type(value).__module__
    if module.partition(".")[0] not in own or module.startswith("torch._C"):
        raise UnknownStateError(f"a {type(value).__name__}, whose state does not show")
    if isinstance(value, nn.Module):  # its parts are in the tree of the model
        if any(True for _ in value.parameters()):
            raise UnknownStateError(f"a module beside the tree: {type(value).__name__}")
        empty = vars(nn.Module())
        return [[key, inner(one)] for key, one in vars(value).items() if one != empty.get(key)]
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    held = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return inner({**held, **getattr(value, "__dict__", {})})


def _code(code: Any, inner: Callable[[Any], Any], own: Sequence[str]) -> Any:
    module = str(code.__module__)
    if module.partition(".")[0] not in (*own, "builtins", "math", "operator"):
        raise UnknownStateError(f"{code.__qualname__} of {module}")
    name = f"{module}.{code.__qualname__}"
    if not isinstance(code, FunctionType):
        return name
    held = [cell.cell_contents for cell in code.__closure__ or ()]
    return [name, code.__code__.co_firstlineno, *map(inner, (held, code.__defaults__))]
