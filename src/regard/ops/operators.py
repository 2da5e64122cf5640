"""Kernels as operators of torch: `torch.ops.regard.*`, defined here and nowhere else.

Profilers, FLOP counters, fake tensors and `torch.compile` see an operator, and neither the ctypes
call inside it nor its autograd function. Dispatch takes longer than many a decision on the way to a
kernel, and is left out where nobody sees it: the same functions then call each other directly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.flop_counter import register_flop_formula

from regard.ops.cpu import library

OPERATORS: Any = torch.library.Library("regard", "DEF")  # type: ignore[no-untyped-call]
Implementation = Callable[..., Any]


class Operator:
    """An operator that was defined; its callers have checked that the tensors fit."""

    def __init__(
        self, registered: Any, *, cpu: Implementation, autograd: Implementation | None
    ) -> None:
        self.registered = registered
        "The overload, which checks its tensors itself."
        self._cpu, self._differentiable = cpu, autograd or cpu

    def __call__(self, *arguments: Any) -> Any:
        if library.is_observed():
            return self.registered(*arguments)
        return self._differentiable(*arguments)

    def compute(self, *arguments: Any) -> Any:
        """Below autograd: for the operator's own autograd function."""
        if library.is_observed():
            with torch._C._AutoDispatchBelowAutograd():
                return self.registered(*arguments)
        return self._cpu(*arguments)


def define(
    schema: str,
    *,
    cpu: Implementation,
    fits: Callable[..., bool],
    fake: Implementation,
    flops: Callable[..., int],
    autograd: Implementation | None = None,
) -> Operator:
    """Define an operator by its schema, "name(Tensor x, …) -> …".

    `cpu` computes it from arguments that `fits` accepts; shapes are checked there, not in C. `fake`
    gives empty outputs of the same shapes and strides. `flops` are those of its matrix products,
    from shapes, by the convention of torch's counter. `autograd` is `apply` of an autograd
    function, where the operator is differentiable."""
    name = OPERATORS.define(schema)

    OPERATORS.impl(name, _checked(name, fits, cpu), "CPU")
    if autograd is not None:
        OPERATORS.impl(name, _checked(name, fits, autograd), "Autograd")
    torch.library.register_fake(f"regard::{name}", fake, lib=OPERATORS)
    packet = getattr(torch.ops.regard, name)
    register_flop_formula(packet)(flops)
    return Operator(packet.default, cpu=cpu, autograd=autograd)


def _checked(name: str, fits: Callable[..., bool], run: Implementation) -> Implementation:
    def checked(*arguments: Any) -> Any:
        check(name, fits(*arguments))
        return run(*arguments)

    return checked


def check(name: str, fits: bool) -> None:
    """Raise where a kernel would read or write outside of its tensors."""
    if not fits:
        raise RuntimeError(
            f"regard::{name}: devices, dtypes or shapes do not fit; "
            "has a weight been replaced since the forward pass?"
        )
