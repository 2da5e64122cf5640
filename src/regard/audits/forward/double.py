"""The second look: the same computation in float64, whatever the model casts to on its way.

A true dependence keeps its size in float64; rounding noise falls by about 2⁻²⁹. A module copied
with `.double()` is not enough: many models cast to float32 inside (softmax, norms) or keep plain
tensors. So every operation is watched, and what would be narrow is made wide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

WIDE = {
    torch.float32: torch.float64,
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128,
}


@contextmanager
def in_double() -> Iterator[None]:
    """Within: new floats are float64, casts to less are not done, narrow operands are widened."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Widening():  # type: ignore[no-untyped-call]
            yield
    finally:
        torch.set_default_dtype(before)


class _Widening(TorchDispatchMode):  # type: ignore[no-untyped-call]
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Skipping would import the compiler, which takes longer than a small audit.
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        # `view(dtype)` reads the same bits as another type: widening would change their meaning.
        if named.get("dtype") in WIDE and func is not torch.ops.aten.view.dtype:
            named["dtype"] = WIDE[named["dtype"]]
        # Views and in-place operations have to keep their storage, so their operands stay.
        if not _shares_storage(func):
            args = [_wide(value) for value in args]
            named = {key: _wide(value) for key, value in named.items()}
        call: Callable[..., Any] = func
        return call(*args, **named)


@cache
def _shares_storage(func: Any) -> bool:
    return any(argument.alias_info for argument in func._schema.arguments)


def _wide(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.to(WIDE[value.dtype]) if value.dtype in WIDE else value
    return [_wide(part) for part in value] if isinstance(value, list) else value
