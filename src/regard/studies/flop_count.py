"""FLOPs of matrix products, counted while they run.

torch's own counter keeps a tree of modules besides, and its first use imports the compiler: a
second, before a study trains anything. `FlopCounterMode` is the oracle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, shape_wrapper


class FlopCount(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within: counts the FLOPs of all that is computed, forward and backward."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Skipping would import the compiler.
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        formula = _FORMULAS.get(func._overloadpacket)
        if formula is None:
            with self:  # what it is composed of may have formulas
                composed = func.decompose(*args, **named)
            if composed is not NotImplemented:
                return composed
        out = func(*args, **named)
        if formula is not None:
            self.flops += formula(*args, **named, out_val=out)
        return out


def _sdpa_flops(q: Sequence[int], k: Sequence[int], v: Sequence[int], *_: Any, **__: Any) -> int:
    """QKᵀ, then the weighted sum of values: (b,h,i,d), (b,h,j,d), (b,h,j,e)."""
    b, h, i, d = q
    return 2 * b * h * i * k[2] * (d + v[3])


def _sdpa_backward_flops(
    grad: Sequence[int], q: Sequence[int], k: Sequence[int], v: Sequence[int], *_: Any, **__: Any
) -> int:
    # Recomputed scores, then dV, dP, dQ, dK: five products where forward has two.
    return _sdpa_flops(q, k, v) * 5 // 2


CPU_FLASH = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _sdpa_flops,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: _sdpa_backward_flops,
}
"torch has formulas for the fused kernels of GPUs alone."
_FORMULAS = flop_registry | {
    operator: shape_wrapper(formula)  # type: ignore[no-untyped-call]
    for operator, formula in CPU_FLASH.items()
}
