"""Float64 re-check: run a computation in float64 throughout, whatever the model casts to inside.

A true dependence keeps its size in float64; rounding noise falls by about 2⁻²⁹. `module.double()`
alone is not enough: many models cast to float32 inside (softmax, norms) or hold tensors that are
neither parameters nor buffers. A dispatch mode therefore upcasts every operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

UPCAST = {
    torch.float32: torch.float64,
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128,
}


@contextmanager
def force_float64() -> Iterator[None]:
    """Within: new floats are float64, casts to lower precision are skipped, operands are upcast."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _UpcastMode():  # type: ignore[no-untyped-call]
            yield
    finally:
        torch.set_default_dtype(before)


class _UpcastMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Skipping would import the compiler, which takes longer than a small audit.
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        # `view(dtype)` reinterprets the bits: another dtype would change their meaning.
        if named.get("dtype") in UPCAST and func is not torch.ops.aten.view.dtype:
            named["dtype"] = UPCAST[named["dtype"]]
        # Views and in-place operations must keep their storage, so their operands are not upcast.
        if not _shares_storage(func):
            args = [_upcast(value) for value in args]
            named = {key: _upcast(value) for key, value in named.items()}
        call: Callable[..., Any] = func
        return call(*args, **named)


@cache
def _shares_storage(func: Any) -> bool:
    return any(argument.alias_info for argument in func._schema.arguments)


def _upcast(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.to(UPCAST[value.dtype]) if value.dtype in UPCAST else value
    return [_upcast(element) for element in value] if isinstance(value, list) else value
