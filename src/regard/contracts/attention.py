"""What every kind of attention owes, at the size of one mixer, over random configurations.

Kinds that declare less (no cache, few masks) are asked less. Values are compared in float64 to
1e-12 of the largest value; in float32 to 1e-5 for fast paths and to 1e-4 where sums have another
order.
Shapes: b batch, h heads, i query, j key, w model width. Masks: True = may attend.
"""

from __future__ import annotations

import safetensors.torch
import torch
from torch import Tensor
from torch.autograd.gradcheck import GradcheckError
from torch.func import functional_call

from regard.attention.attend import AttentionOutput
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
    distance,
)
from regard.contracts.masks import random_padding, supports_masks

ATTENTION_CONTRACTS: Contracts[AttentionCase] = Contracts()


@ATTENTION_CONTRACTS.add("shape")
def shape(case: AttentionCase) -> None:
    """Gives (b,i,w) for (b,i,w), finite, in the same precision; weights are (b,h,i,j)."""
    asked = case.configuration
    for dtype in (torch.float64, torch.float32):
        mixer, x = case.mixer(dtype), case.vectors(dtype=dtype)
        mask, positions = case.mask().whole(), case.positions()
        for wanted in (False, True):
            out, weights, _ = mixer(x, mask=mask, positions=positions, need_weights=wanted)
            if out.shape != x.shape or out.dtype != dtype or not out.isfinite().all():
                raise ContractViolation(
                    f"gives {_described(out)} for {_described(x)} under {mask.name} ({case})"
                )
        full = (asked.batch, asked.shape.heads, asked.length, asked.length)
        if weights is not None and tuple(weights.shape) != full:
            raise ContractViolation(
                f"weights have shape {tuple(weights.shape)}, not {full} ({case})"
            )


@ATTENTION_CONTRACTS.add("fast-path", sizes=LONG)
def fast_path(case: AttentionCase) -> str:
    """The quick way gives what the readable one gives, in values and in every gradient."""
    x, mask, positions = case.vectors(), case.mask().whole(), case.positions()
    pull, dtype = case.like(x), case.random.choice((torch.float64, torch.float32))

    def run(dtype: torch.dtype, *, need_weights: bool) -> tuple[AttentionOutput, dict[str, Tensor]]:
        return _with_gradients(
            case.mixer(dtype),
            x.to(dtype),
            mask,
            positions,
            pull.to(dtype),
            need_weights=need_weights,
        )

    _, expected = run(torch.float64, need_weights=True)
    quick, got = run(dtype, need_weights=False)
    # A sum close to zero in a denominator blows rounding up on any path: where the readable path
    # is itself off in this precision, the quick one may be as far off, within reason.
    _, rounded = run(dtype, need_weights=True)
    where = f"{quick.path} under {mask.name}, {_named(dtype)}, {case}"
    for name, value in expected.items():
        check_equal(
            got[name],
            value,
            what=name,
            case=where,
            tolerance=max(TOLERANCE[dtype], min(MAX_TOLERANCE, 2 * distance(rounded[name], value))),
        )
    return quick.path


@ATTENTION_CONTRACTS.add("gradcheck", sizes=TINY)
def gradcheck(case: AttentionCase) -> None:
    """Gradients of inputs and parameters are those that small steps show."""
    mixer, x = case.mixer(), case.vectors().requires_grad_()
    mask, positions = case.mask().whole(), case.positions()
    names = [name for name, _ in mixer.named_parameters()]
    values = [parameter.detach().requires_grad_() for parameter in mixer.parameters()]

    def out(x: Tensor, *parameters: Tensor) -> Tensor:
        given = dict(zip(names, parameters, strict=True))
        attended = functional_call(mixer, given, (x,), {"mask": mask, "positions": positions})
        return torch.as_tensor(attended.out)

    try:
        torch.autograd.gradcheck(out, (x, *values), fast_mode=True)
    except GradcheckError as problem:
        words = " ".join(str(problem).split("\n\n")[0].split())
        raise ContractViolation(f"{words} ({mask.name}, {case})") from None


@ATTENTION_CONTRACTS.add("empty-rows")
def empty_rows(case: AttentionCase) -> None:
    """A query that may see nothing gets zeros, and no gradient becomes NaN."""
    b, n = case.configuration.batch, case.configuration.length
    x = case.vectors()
    if case.traits.masks == "any":
        empty = torch.rand(b, n, generator=case.generator) < 0.5
        seeing = Mask(lambda b, h, i, j: ~empty[b, i], "seeing")
        mask, positions = case.mask().whole() & seeing, case.positions()
    elif supports_masks(case.traits.masks, "padding"):
        valid = torch.rand(b, n, generator=case.generator) < 0.5
        valid[0] = False
        mask, positions = causal_or_bidirectional(case) & padding(valid), case.positions()
        empty = ~mask.dense(n, n, batch=b)[:, 0].any(dim=-1)
    else:
        raise NotApplicable("it follows no mask that could leave a query without keys")
    mixer = case.mixer(biases=False)  # the bias of the last matrix is added to zeros as well
    _, found = _with_gradients(mixer, x, mask, positions, case.like(x), need_weights=False)
    out = found["outputs"][empty]
    if not (out == 0).all():
        largest = float(out.abs().max())
        raise ContractViolation(f"a query with no allowed key gets {largest:.2g}, not 0 ({case})")
    for name, values in found.items():
        if not values.isfinite().all():
            raise ContractViolation(f"{name} are not finite ({case})")


@ATTENTION_CONTRACTS.add("forbidden-keys")
def forbidden_keys(case: AttentionCase) -> None:
    """A key outside the mask has no influence, neither on values nor through gradients."""
    b, n, mode = case.configuration.batch, case.configuration.length, case.mode()
    mixer, x = case.mixer_in(mode), case.vectors(dtype=mode.dtype)
    mask, positions = case.mask().whole(), case.positions()
    allowed = mask.dense(n, n, batch=b, heads=case.configuration.shape.heads).any(dim=1)
    # What stands at a query's own place shapes the query itself, whether or not it is a key.
    hidden = ~(allowed | torch.eye(n, dtype=torch.bool)).expand(b, n, n)
    key, query = case.random.randrange(n), case.random.randrange(n)
    changed = x.clone()
    changed[:, key] = 3 * case.like(x)[:, key]
    wanted = case.random.random() < 0.5
    before = mixer(x, mask=mask, positions=positions, need_weights=wanted).out
    after = mixer(changed, mask=mask, positions=positions, need_weights=wanted).out
    blind, where = hidden[:, :, key], f"{mask.name}, {mode}, {case}"
    what = f"outputs blind to place {key}"
    check_equal(after[blind], before[blind], what=what, case=where, tolerance=mode.tolerance)

    x.requires_grad_()
    out = mixer(x, mask=mask, positions=positions).out[:, query]
    (gradient,) = torch.autograd.grad(out, x, case.like(out))
    leaked = gradient[hidden[:, query]]
    what = f"gradients from query {query} to places it may not see"
    check_equal(leaked, torch.zeros_like(leaked), what=what, case=where, tolerance=mode.tolerance)
    if case.traits.cross:
        _check_forbidden_source(case, mixer, mode)


def _check_forbidden_source(case: AttentionCase, mixer: Mixer, mode: Mode) -> None:
    keys, dtype, positions = case.random.randint(1, 9), mode.dtype, case.positions()
    x, memory = case.vectors(dtype=dtype), case.vectors(length=keys, dtype=dtype)
    valid = random_padding(case.random, batch=x.shape[0], length=keys)
    changed = torch.where(valid[..., None], memory, case.like(memory))
    expected = mixer(x, mask=cross(valid), positions=positions, memory=memory).out
    got = mixer(x, mask=cross(valid), positions=positions, memory=changed).out
    what, where = "outputs for another padding of the source", f"{mode}, {case}"
    check_equal(got, expected, what=what, case=where, tolerance=mode.tolerance)


@ATTENTION_CONTRACTS.add("padding")
def padded(case: AttentionCase) -> None:
    """A row padded on either side gives what the row alone gives."""
    if not supports_masks(case.traits.masks, "padding"):
        raise NotApplicable("it does not declare the mask padding")
    b, n, mode = case.configuration.batch, case.configuration.length, case.mode()
    valid = random_padding(case.random, batch=b, length=n)
    x, mixer, positions = case.vectors(dtype=mode.dtype), case.mixer_in(mode), case.positions(valid)
    direction = causal_or_bidirectional(case)
    out = mixer(x, mask=direction & padding(valid), positions=positions).out
    for row, real in enumerate(valid):
        alone = TokenPositions.of_row(
            int(real.sum()),
            segments=_of(positions.segments, row, real),
            modalities=_of(positions.modalities, row, real),
        )
        expected = mixer(x[row, real][None], mask=direction, positions=alone).out[0]
        side = "right" if real[0] else "left"
        what = f"outputs of a row of {alone.ids.shape[1]} padded on the {side}"
        where = f"{direction.name}, {mode}, {case}"
        check_equal(out[row, real], expected, what=what, case=where, tolerance=mode.tolerance)


@ATTENTION_CONTRACTS.add("batch")
def batch(case: AttentionCase) -> None:
    """A row alone gives what it gives in a batch."""
    mode, drawn, positions = case.mode(), case.mask(), case.positions()
    mixer, x = case.mixer_in(mode), case.vectors(dtype=mode.dtype)
    together = mixer(x, mask=drawn.whole(), positions=positions).out
    for row in range(x.shape[0]):
        rows = slice(row, row + 1)
        alone = mixer(
            x[rows], mask=drawn.over(rows), positions=slice_positions(positions, rows, slice(None))
        ).out
        what, where = f"outputs of row {row} in a batch", f"{drawn.whole().name}, {mode}, {case}"
        check_equal(together[rows], alone, what=what, case=where, tolerance=mode.tolerance)


@ATTENTION_CONTRACTS.add("saved")
def saved(case: AttentionCase) -> None:
    """Saved as safetensors and loaded into a new one, it gives the same bits."""
    mixer, x, mask, positions = case.mixer(), case.vectors(), case.mask().whole(), case.positions()
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
    """The same input gives the same bits, and only training draws random numbers, by its seed."""
    x, mask, positions = case.vectors(), case.mask().whole(), case.positions()
    mixer, pull = case.mixer(), case.like(x)
    before = torch.random.get_rng_state()
    _, once = _with_gradients(mixer, x, mask, positions, pull, need_weights=False)
    if not torch.equal(torch.random.get_rng_state(), before):
        raise ContractViolation(f"draws random numbers outside of training ({case})")
    _, again = _with_gradients(case.mixer(), x, mask, positions, pull, need_weights=False)
    for name, value in once.items():
        if not torch.equal(value, again[name]):
            raise ContractViolation(f"{name} have other bits the second time ({case})")
    training = case.mixer(dropout=0.5).train()
    outs = []
    with torch.random.fork_rng(devices=[]):
        for _ in range(2):
            torch.manual_seed(case.configuration.length)
            outs.append(training(x, mask=mask, positions=positions).out)
    if not torch.equal(*outs):
        raise ContractViolation(f"dropout does not follow the seed ({case})")


def _with_gradients(
    mixer: Mixer,
    x: Tensor,
    mask: Mask,
    positions: TokenPositions,
    pull: Tensor,
    *,
    need_weights: bool,
) -> tuple[AttentionOutput, dict[str, Tensor]]:
    """What the mixer gives; its outputs and the gradients of Σ out · pull, by name."""
    x = x.detach().requires_grad_()
    named = {"x": x, **dict(mixer.named_parameters())}
    attended = mixer(x, mask=mask, positions=positions, need_weights=need_weights)
    found = torch.autograd.grad(attended.out, list(named.values()), pull, materialize_grads=True)
    places_in_all = x.shape[0] * x.shape[1]
    # A parameter's gradient is a sum over all places. Where it is 0 in truth, as for the bias of
    # keys, what remains is their rounding, which grows with the root of their number.
    shares = [1.0, *(places_in_all**-0.5 for _ in mixer.parameters())]
    gradients = {
        f"gradients of {name}": share * gradient
        for name, share, gradient in zip(named, shares, found, strict=True)
    }
    return attended, {"outputs": attended.out.detach(), **gradients}


def causal_or_bidirectional(case: AttentionCase) -> Mask:
    """Causal or bidirectional, whichever the kind follows."""
    able = [
        mask
        for mask in (causal(), bidirectional())
        if supports_masks(case.traits.masks, *mask.components)
    ]
    if not able:
        raise NotApplicable("it follows neither the mask causal nor bidirectional")
    return case.random.choice(able)


def _of(table: Tensor | None, row: int, real: Tensor) -> Tensor | None:
    return None if table is None else table[row, real][None]


def _named(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _described(x: Tensor) -> str:
    finite = "" if x.isfinite().all() else ", not all finite"
    return f"{tuple(x.shape)} {_named(x.dtype)}{finite}"
