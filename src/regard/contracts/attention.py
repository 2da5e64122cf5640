"""Contracts of attention kinds, checked on one mixer over random configurations.

Kinds that declare less (no cache, few masks) are checked for less. Tolerances are relative to the
largest value: 1e-12 in float64; in float32 1e-5 for fast paths, 1e-4 where sums are reordered.
Shapes: b batch, h heads, i query, j key, w model width. Masks: True = may attend.
"""

from __future__ import annotations

from statistics import median

import safetensors.torch
import torch
from torch import Tensor
from torch.autograd.gradcheck import GradcheckError
from torch.func import functional_call

from regard.attention.function import AttentionOutput
from regard.attention.masks.mask import Mask, bidirectional, causal, cross, padding
from regard.attention.mixer import Mixer
from regard.attention.token_positions import TokenPositions
from regard.contracts.case import AttentionCase, Mode, randomize_parameters, slice_positions
from regard.contracts.contract import (
    LONG,
    MAX_TOLERANCE,
    TINY,
    TOLERANCE,
    Contracts,
    ContractViolation,
    NotApplicable,
    check_equal,
    relative_difference,
)
from regard.contracts.masks import random_padding, supports_masks

ATTENTION_CONTRACTS: Contracts[AttentionCase] = Contracts()


@ATTENTION_CONTRACTS.add("shape")
def shape(case: AttentionCase) -> None:
    """Maps (b,i,w) to (b,i,w), finite, in the same precision; weights are (b,h,i,j)."""
    configuration = case.configuration
    b, n, heads = configuration.batch, configuration.length, configuration.shape.heads
    for dtype in (torch.float64, torch.float32):
        mixer, x = case.mixer(dtype), case.inputs(dtype=dtype)
        mask, positions = case.random_mask().for_batch(), case.positions()
        for need_weights in (False, True):
            out, weights, _ = mixer(x, mask=mask, positions=positions, need_weights=need_weights)
            if out.shape != x.shape or out.dtype != dtype or not out.isfinite().all():
                raise ContractViolation(
                    f"returns {_describe(out)} for {_describe(x)} under {mask.name} ({case})"
                )
        expected = (b, heads, n, n)
        if weights is not None and tuple(weights.shape) != expected:
            raise ContractViolation(
                f"weights have shape {tuple(weights.shape)}, not {expected} ({case})"
            )


NEARBY_SCALES = (0.8, 0.9, 1.1, 1.2, 1.3)
"Factors of the inputs; no powers of two, which round alike."


@ATTENTION_CONTRACTS.add("fast-path", sizes=LONG)
def fast_path(case: AttentionCase) -> str:
    """The fast path equals the explicit path, in values and in every gradient."""
    x, mask, positions = case.inputs(), case.random_mask().for_batch(), case.positions()
    out_gradient, dtype = case.random_like(x), case.random.choice((torch.float64, torch.float32))

    def run(
        dtype: torch.dtype, *, need_weights: bool, scale: float = 1.0
    ) -> tuple[AttentionOutput, dict[str, Tensor]]:
        return _run_with_gradients(
            case.mixer(dtype),
            scale * x.to(dtype),
            mask,
            positions,
            out_gradient.to(dtype),
            need_weights=need_weights,
        )

    def is_rounding(name: str, tolerance: float) -> bool:
        """Whether a difference in float32 is rounding: it repeats bit for bit, the same path is
        exact in float64, and inputs nearby show none, as they would of a wrong formula."""
        if dtype != torch.float32 or relative_difference(got[name], expected[name]) > MAX_TOLERANCE:
            return False
        again = run(dtype, need_weights=False)[1][name]
        in_float64, exact = run(torch.float64, need_weights=False)
        error = relative_difference(exact[name], expected[name])
        nearby = [
            relative_difference(
                run(dtype, need_weights=False, scale=scale)[1][name],
                run(torch.float64, need_weights=True, scale=scale)[1][name],
            )
            for scale in NEARBY_SCALES
        ]
        return (
            torch.equal(again, got[name])
            and in_float64.path == fast.path
            and error <= TOLERANCE[torch.float64]
            and median(nearby) <= tolerance
        )

    _, expected = run(torch.float64, need_weights=True)
    fast, got = run(dtype, need_weights=False)
    # A denominator close to zero amplifies rounding on any path: where the explicit path is
    # imprecise in this dtype, the fast path may be twice as imprecise, up to `MAX_TOLERANCE`. And
    # the explicit path may be exact where no other is: the weight of a single key is 1.
    _, rounded = run(dtype, need_weights=True)
    where = f"{fast.path} under {mask.name}, {_dtype_name(dtype)}, {case}"
    for name, value in expected.items():
        rounding = 2 * relative_difference(rounded[name], value)
        tolerance = max(TOLERANCE[dtype], min(MAX_TOLERANCE, rounding))
        within = relative_difference(got[name], value) <= tolerance
        if not within and not is_rounding(name, tolerance):
            check_equal(got[name], value, what=name, case=where, tolerance=tolerance)
    return fast.path


@ATTENTION_CONTRACTS.add("gradcheck", sizes=TINY)
def gradcheck(case: AttentionCase) -> None:
    """Gradients of inputs and parameters equal finite differences."""
    mixer, x = case.mixer(), case.inputs().requires_grad_()
    mask, positions = case.random_mask().for_batch(), case.positions()
    names = [name for name, _ in mixer.named_parameters()]
    values = [parameter.detach().requires_grad_() for parameter in mixer.parameters()]

    def out(x: Tensor, *parameters: Tensor) -> Tensor:
        by_name = dict(zip(names, parameters, strict=True))
        attended = functional_call(mixer, by_name, (x,), {"mask": mask, "positions": positions})
        return torch.as_tensor(attended.out)

    try:
        torch.autograd.gradcheck(out, (x, *values), fast_mode=True)
    except GradcheckError as problem:
        message = " ".join(str(problem).split("\n\n")[0].split())
        raise ContractViolation(f"{message} ({mask.name}, {case})") from None


@ATTENTION_CONTRACTS.add("empty-rows")
def empty_rows(case: AttentionCase) -> None:
    """A fully masked query gets zeros, and no gradient becomes NaN."""
    b, n = case.configuration.batch, case.configuration.length
    x = case.inputs()
    if case.traits.masks == "any":
        empty = torch.rand(b, n, generator=case.generator) < 0.5
        non_empty = Mask(lambda b, h, i, j: ~empty[b, i], "non-empty")
        mask, positions = case.random_mask().for_batch() & non_empty, case.positions()
    elif supports_masks(case.traits.masks, "padding"):
        valid = torch.rand(b, n, generator=case.generator) < 0.5
        valid[0] = False
        mask, positions = causal_or_bidirectional(case) & padding(valid), case.positions()
        empty = ~mask.dense(n, n, batch=b)[:, 0].any(dim=-1)
    else:
        raise NotApplicable("it supports no mask that could leave a query without keys")
    mixer = case.mixer(biases=False)  # the bias of the output projection would be added to zeros
    out_gradient = case.random_like(x)
    _, results = _run_with_gradients(mixer, x, mask, positions, out_gradient, need_weights=False)
    out = results["outputs"][empty]
    if not (out == 0).all():
        largest = float(out.abs().max())
        raise ContractViolation(f"a query with no allowed key gets {largest:.2g}, not 0 ({case})")
    for name, values in results.items():
        if not values.isfinite().all():
            raise ContractViolation(f"{name} are not finite ({case})")


@ATTENTION_CONTRACTS.add("forbidden-keys")
def forbidden_keys(case: AttentionCase) -> None:
    """A masked key has no influence, neither on outputs nor through gradients."""
    b, n, mode = case.configuration.batch, case.configuration.length, case.random_mode()
    mixer, x = case.mixer_in(mode), case.inputs(dtype=mode.dtype)
    mask, positions = case.random_mask().for_batch(), case.positions()
    allowed = mask.dense(n, n, batch=b, heads=case.configuration.shape.heads).any(dim=1)
    # The input at a query's own position determines the query, even if it is masked as a key.
    forbidden = ~(allowed | torch.eye(n, dtype=torch.bool)).expand(b, n, n)
    key, query = case.random.randrange(n), case.random.randrange(n)
    changed = x.clone()
    changed[:, key] = 3 * case.random_like(x)[:, key]
    need_weights = case.random.random() < 0.5
    before = mixer(x, mask=mask, positions=positions, need_weights=need_weights).out
    after = mixer(changed, mask=mask, positions=positions, need_weights=need_weights).out
    queries, where = forbidden[:, :, key], f"{mask.name}, {mode}, {case}"
    what = f"outputs that may not depend on position {key}"
    check_equal(after[queries], before[queries], what=what, case=where, tolerance=mode.tolerance)

    x.requires_grad_()
    out = mixer(x, mask=mask, positions=positions).out[:, query]
    (gradient,) = torch.autograd.grad(out, x, case.random_like(out))
    leaked = gradient[forbidden[:, query]]
    what = f"gradients from query {query} to masked positions"
    check_equal(leaked, torch.zeros_like(leaked), what=what, case=where, tolerance=mode.tolerance)
    if case.traits.cross:
        _check_memory_padding(case, mixer, mode)


def _check_memory_padding(case: AttentionCase, mixer: Mixer, mode: Mode) -> None:
    """In cross-attention, padding of the memory has no influence."""
    keys, dtype, positions = case.random.randint(1, 9), mode.dtype, case.positions()
    x, memory = case.inputs(dtype=dtype), case.inputs(length=keys, dtype=dtype)
    valid = random_padding(case.random, batch=x.shape[0], length=keys)
    changed = torch.where(valid[..., None], memory, case.random_like(memory))
    expected = mixer(x, mask=cross(valid), positions=positions, memory=memory).out
    got = mixer(x, mask=cross(valid), positions=positions, memory=changed).out
    what, where = "outputs after a change of the memory's padding", f"{mode}, {case}"
    check_equal(got, expected, what=what, case=where, tolerance=mode.tolerance)


@ATTENTION_CONTRACTS.add("padding")
def padding_invariance(case: AttentionCase) -> None:
    """A row padded on either side has the outputs of the row alone."""
    if not supports_masks(case.traits.masks, "padding"):
        raise NotApplicable("it does not declare the mask padding")
    b, n, mode = case.configuration.batch, case.configuration.length, case.random_mode()
    valid = random_padding(case.random, batch=b, length=n)
    x, mixer, positions = case.inputs(dtype=mode.dtype), case.mixer_in(mode), case.positions(valid)
    direction = causal_or_bidirectional(case)
    out = mixer(x, mask=direction & padding(valid), positions=positions).out
    for row, tokens in enumerate(valid):
        alone = TokenPositions.of_row(
            int(tokens.sum()),
            segments=_select(positions.segments, row, tokens),
            modalities=_select(positions.modalities, row, tokens),
        )
        expected = mixer(x[row, tokens][None], mask=direction, positions=alone).out[0]
        side = "right" if tokens[0] else "left"
        what = f"outputs of a row of {alone.ids.shape[1]} padded on the {side}"
        where = f"{direction.name}, {mode}, {case}"
        check_equal(out[row, tokens], expected, what=what, case=where, tolerance=mode.tolerance)


@ATTENTION_CONTRACTS.add("batch")
def batch_independence(case: AttentionCase) -> None:
    """A row has the same outputs in a batch and alone."""
    mode, mask, positions = case.random_mode(), case.random_mask(), case.positions()
    mixer, x = case.mixer_in(mode), case.inputs(dtype=mode.dtype)
    together = mixer(x, mask=mask.for_batch(), positions=positions).out
    for row in range(x.shape[0]):
        rows = slice(row, row + 1)
        alone = mixer(
            x[rows],
            mask=mask.for_rows(rows),
            positions=slice_positions(positions, rows, slice(None)),
        ).out
        what, where = f"outputs of row {row} in a batch", f"{mask.for_batch().name}, {mode}, {case}"
        check_equal(together[rows], alone, what=what, case=where, tolerance=mode.tolerance)


@ATTENTION_CONTRACTS.add("saved")
def saved(case: AttentionCase) -> None:
    """Saved as safetensors and loaded into a new mixer, outputs have the same bits."""
    mixer, x = case.mixer(), case.inputs()
    mask, positions = case.random_mask().for_batch(), case.positions()
    try:
        stored = safetensors.torch.save(dict(mixer.state_dict()))
    except RuntimeError as problem:  # tensors that share memory
        raise ContractViolation(f"cannot be saved: {str(problem).strip()}") from None
    other = case.mixer()
    randomize_parameters(other, case.generator)
    other.load_state_dict(safetensors.torch.load(stored))
    expected = mixer(x, mask=mask, positions=positions).out
    if not torch.equal(other(x, mask=mask, positions=positions).out, expected):
        raise ContractViolation(f"outputs differ after saving and loading ({case})")


@ATTENTION_CONTRACTS.add("deterministic")
def deterministic(case: AttentionCase) -> None:
    """The same input gives the same bits; only training draws random numbers, by its seed."""
    x, mask, positions = case.inputs(), case.random_mask().for_batch(), case.positions()
    mixer, out_gradient = case.mixer(), case.random_like(x)
    before = torch.random.get_rng_state()
    _, first = _run_with_gradients(mixer, x, mask, positions, out_gradient, need_weights=False)
    if not torch.equal(torch.random.get_rng_state(), before):
        raise ContractViolation(f"draws random numbers outside of training ({case})")
    mixer = case.mixer()
    _, second = _run_with_gradients(mixer, x, mask, positions, out_gradient, need_weights=False)
    for name, value in first.items():
        if not torch.equal(value, second[name]):
            raise ContractViolation(f"{name} have other bits the second time ({case})")
    training = case.mixer(dropout=0.5).train()
    outs = []
    with torch.random.fork_rng(devices=[]):
        for _ in range(2):
            torch.manual_seed(case.configuration.length)
            outs.append(training(x, mask=mask, positions=positions).out)
    if not torch.equal(*outs):
        raise ContractViolation(f"dropout does not follow the seed ({case})")


def _run_with_gradients(
    mixer: Mixer,
    x: Tensor,
    mask: Mask,
    positions: TokenPositions,
    out_gradient: Tensor,
    *,
    need_weights: bool,
) -> tuple[AttentionOutput, dict[str, Tensor]]:
    """The output; and by name the output tensor and the gradients of x and each parameter."""
    x = x.detach().requires_grad_()
    leaves = {"x": x, **dict(mixer.named_parameters())}
    attended = mixer(x, mask=mask, positions=positions, need_weights=need_weights)
    gradients = torch.autograd.grad(
        attended.out, list(leaves.values()), out_gradient, materialize_grads=True
    )
    count = x.shape[0] * x.shape[1]
    # A parameter's gradient is a sum over all positions of the batch. Where it is exactly 0, as for
    # the bias of the keys, rounding remains, which grows with the root of their number.
    scales = [1.0, *(count**-0.5 for _ in mixer.parameters())]
    scaled = {
        f"gradients of {name}": scale * gradient
        for name, scale, gradient in zip(leaves, scales, gradients, strict=True)
    }
    return attended, {"outputs": attended.out.detach(), **scaled}


def causal_or_bidirectional(case: AttentionCase) -> Mask:
    """A causal or bidirectional mask, whichever the kind supports."""
    supported = [
        mask
        for mask in (causal(), bidirectional())
        if supports_masks(case.traits.masks, *mask.components)
    ]
    if not supported:
        raise NotApplicable("it supports neither the mask causal nor bidirectional")
    return case.random.choice(supported)


def _select(table: Tensor | None, row: int, tokens: Tensor) -> Tensor | None:
    return None if table is None else table[row, tokens][None]


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _describe(x: Tensor) -> str:
    finite = "" if x.isfinite().all() else ", not all finite"
    return f"{tuple(x.shape)} {_dtype_name(x.dtype)}{finite}"
