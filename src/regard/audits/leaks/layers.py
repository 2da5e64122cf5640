"""Each layer alone: a window is tested where it is applied, not where several have added up.

Through layers a window grows, so the outputs of a model show less than its mask forbids. Tested
here are the submodules that mix positions: the gradient of such a module's output at i to its own
input at j must be zero where the mask forbids j to i. A submodule that contains layers is itself
one where it sees more than these explain, as attention after a convolution of its keys does. One
forward pass records inputs and outputs of all submodules; one backward pass for each finds its
pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.audits.findings import Leak
from regard.audits.forward.forward_mode import ForwardError, ForwardMode
from regard.audits.forward.modes import EVALUATION, TRAINING, structural_modes
from regard.audits.forward.opening import tensors_that_open
from regard.audits.leaks.permission import through_layers
from regard.audits.leaks.search import LeakSearch
from regard.audits.notes import Notes

LENGTHS = (12, 24, 48, 96, 192, 384)
"The first of these at which several layers see more than one is tested."
MAX_QUERIES = 16
ROUNDING = 1e-12
"Of relative gradients in float64."
WHOLE = ""
"Name of the module itself among its submodules."

Dependences = dict[str, Tensor]
"Submodule -> gradient sizes (queries, keys)"


def find_wide_layers(
    search: LeakSearch, modes: Mapping[str, ForwardMode], *, max_queries: int = MAX_QUERIES
) -> list[Leak] | None:
    """What single layers see beyond the mask; None where the layers cannot be told apart. Tested
    are at most `max_queries` positions.

    Looked for in both modes; where neither shows any, with structural values, for a layer may be
    wider behind a zero.
    """
    found = _wide_layers(search, modes[EVALUATION], max_queries)
    if found is None or found:
        return found
    if TRAINING in modes and (found := _wide_layers(search, modes[TRAINING], max_queries)):
        return found
    aside = replace(search, notes=Notes())
    for mode in structural_modes(modes[EVALUATION], brief=True):
        if found := _wide_layers(search, mode, max_queries):
            names = tensors_that_open(
                mode, lambda part: bool(_wide_layers(aside, part, max_queries))
            )
            return [replace(leak, opens_with=names, opens_by="training") for leak in found]
    return []


def _wide_layers(search: LeakSearch, mode: ForwardMode, max_queries: int) -> list[Leak] | None:
    length = _testable_length(search)
    if length is None:
        return None
    where = f"{mode.name}, length {length}"
    itself = search.permission.at(length).bool().cpu() | torch.eye(length, dtype=torch.bool)
    narrow = (~itself).any(dim=1).nonzero().flatten()
    spaced = torch.linspace(0, len(narrow) - 1, min(max_queries, len(narrow)))
    queries = narrow[spaced.round().long()]
    try:
        sizes, calls = _dependences(search, mode.in_float64(), length, queries)
    except ForwardError as problem:
        search.notes.add_unchecked(f"{where}, each layer alone: {problem}")
        return None
    layers = _layers(sizes, calls, itself, queries)
    if not layers:
        return None
    leaks = []
    for name, steps in layers.items():
        forbidden = ~through_layers(itself, steps)[queries]
        leaks += _leaks(sizes[name], forbidden, queries, f"{where}, layer {name}")
    if WHOLE in sizes and not leaks:  # what is mixed outside of them
        forbidden = ~through_layers(itself, sum(map(calls.count, layers)))[queries]
        leaks = _leaks(sizes[WHOLE], forbidden, queries, f"{where}, all layers together")
    search.notes.add_checked(f"{where}: {len(layers)} layers alone, by gradient")
    return leaks


def _leaks(sizes: Tensor, forbidden: Tensor, queries: Tensor, where: str) -> list[Leak]:
    found = (sizes * forbidden > ROUNDING).nonzero().tolist()
    return [Leak(int(queries[n]), key, float(sizes[n, key]), "gradient", where) for n, key in found]


def _testable_length(search: LeakSearch) -> int | None:
    only = search.permission.only_length
    for length in LENGTHS if only is None else (only,):
        accepted = search.subject.accepts_length(length) and search.permission.covers(length)
        if accepted and length > 2 and search.permission.grows_with_depth(length):
            return length
    return None


def _dependences(
    search: LeakSearch, mode: ForwardMode, length: int, queries: Tensor
) -> tuple[Dependences, list[str]]:
    """Relative to the largest gradient of each query; and the submodules in order of their calls.

    Of the module itself the gradients are to its token embeddings.
    """
    count = len(queries) + (len(queries) == length)  # (n,t) and (t,n) must differ
    row = search.base(length)
    rows = row.expand(count, *row.shape[1:]).contiguous()
    calls: list[tuple[str, list[Tensor], Tensor]] = []

    def forward(module: Any, inputs: Tensor) -> Any:
        with _recorded(module, (count, length), calls):
            return mode.forward(module, inputs)

    sizes: Dependences = {}
    embedding = search.subject.embedding
    with mode.graph(rows, forward) as outputs:
        whole = [output for name, _, output in calls if embedding and name == embedding]
        if whole:
            sizes[WHOLE] = _gradient_sizes(whole[:1], outputs, queries, length)
        for name, inputs, output in calls:
            if inputs:
                found = _gradient_sizes(inputs, output, queries, length)
                sizes[name] = torch.maximum(sizes[name], found) if name in sizes else found
    return sizes, [name for name, inputs, _ in calls if inputs]


def _layers(
    sizes: Dependences, calls: Sequence[str], itself: Tensor, queries: Tensor
) -> dict[str, int]:
    """The submodules that mix positions, and through how many windows each sees at most: its own
    and those of the layers that it contains."""
    mixing = {name for name, one in sizes.items() if bool(((one > ROUNDING).sum(1) > 1).any())}
    layers: dict[str, int] = {}
    for name in sorted(mixing - {WHOLE}, key=lambda name: (-name.count("."), calls.index(name))):
        inside = sum(calls.count(other) for other in layers if other.startswith(f"{name}."))
        contained = -(-inside // calls.count(name))
        explained = through_layers(itself, contained)[queries]
        if not contained or bool(((sizes[name] > ROUNDING) & ~explained).any()):
            layers[name] = contained + 1
    return layers


@contextmanager
def _recorded(
    module: nn.Module, shape: tuple[int, int], calls: list[tuple[str, list[Tensor], Tensor]]
) -> Iterator[None]:
    """Within: every call of a submodule adds its floats by position, made (n,t,…)."""
    handles = []

    def by_position(values: Any) -> list[Tensor]:
        tensors = [one for one in values if isinstance(one, Tensor) and one.is_floating_point()]
        shapes = (shape, shape[::-1])
        return [one for one in tensors if one.dim() > 2 and tuple(one.shape[:2]) in shapes]

    for name, submodule in module.named_modules():
        if name == WHOLE:
            continue

        def before(own: nn.Module, args: Any, named: Any) -> Any:
            def tracked(one: Any) -> Any:
                if not by_position([one]):
                    return one
                # A view of its own: what of one input went into another is not this layer's.
                return one.view_as(one) if one.requires_grad else one.detach().requires_grad_()

            return tuple(map(tracked, args)), {key: tracked(one) for key, one in named.items()}

        def after(own: nn.Module, args: Any, named: Any, output: Any, name: str = name) -> None:
            outputs = by_position(output if isinstance(output, tuple | list) else [output])
            inputs = by_position([*args, *named.values()])
            if outputs and outputs[0].requires_grad:
                calls.append((name, inputs, outputs[0]))

        handles.append(submodule.register_forward_pre_hook(before, with_kwargs=True))
        handles.append(submodule.register_forward_hook(after, with_kwargs=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _gradient_sizes(inputs: list[Tensor], output: Tensor, queries: Tensor, length: int) -> Tensor:
    """(n,t): row n's gradient of the output at its query, relative to the row's largest."""

    def rows_first(one: Tensor) -> Tensor:
        return one if one.shape[1] == length else one.transpose(0, 1)

    own = rows_first(output)[torch.arange(len(queries)), queries].flatten(1)
    direction = 0.5 + torch.arange(own.shape[1]).to(own).cos().square()
    gradients = torch.autograd.grad(
        (own @ direction).sum(), inputs, retain_graph=True, allow_unused=True
    )
    sizes = [
        rows_first(one)[: len(queries)].abs().flatten(2).amax(dim=-1).double().cpu()
        for one in gradients
        if one is not None
    ]
    if not sizes:
        return torch.zeros(len(queries), length, dtype=torch.float64)
    total = torch.stack(sizes).amax(dim=0)
    return total / total.amax(dim=1, keepdim=True).clamp(min=1e-300)
