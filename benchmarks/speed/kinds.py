"""Kinds of attention against each other: what a kind costs in training, and how that grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from statistics import median

import torch
from benchmarks.speed.contest import (
    Ratio,
    Row,
    growth_exponent,
    ratio_by_round,
    times_in_turn,
    turns_here,
)
from benchmarks.speed.ours import our_step
from benchmarks.speed.sizes import NARROW
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard.attention.attend import attend
from regard.attention.function import AttentionFunction, HeadShape
from regard.attention.kinds.additive import Additive
from regard.attention.kinds.dot import Dot
from regard.attention.kinds.group import Group
from regard.attention.kinds.linear import LinearAttention
from regard.attention.masks.mask import Mask, causal
from regard.attention.token_positions import TokenPositions
from regard.ops.cpu import library

GROUP = "kinds of attention"
HEADS, WIDTH = 4, 32
LENGTHS = (1024, 2048, 4096, 8192, 16384)
GROUPED_LENGTH = 4096
DOT_PATH = "kernel" if library.LIBRARY else "fused-causal"
BLOCK_PATH = "kernel" if library.LIBRARY else "query-blocks"


def rows(*, rounds: int = 7) -> Iterator[Row]:
    yield additive_row(rounds)
    yield from linear_rows(rounds)
    yield from group_rows(rounds)


def additive_row(rounds: int) -> Row:
    runs = {
        "additive": our_step(NARROW, dropout=0.0, attention=Additive()),
        "dot": our_step(NARROW, dropout=0.0, attention=Dot()),
    }
    taken = times_in_turn(turns_here(runs), rounds=rounds)
    return Row(
        GROUP,
        f"one step, {NARROW.name}, additive vs. dot",
        "ms",
        {name: 1e3 * median(seconds) for name, seconds in taken.items()},
        ratio_by_round(taken["additive"], taken["dot"]),
        "additive ÷ dot",
        1.6,
        better="lower",
        same_work="the same decoder but for the scores, the same batch",
    )


def pass_of(
    function: AttentionFunction,
    mask: Mask,
    length: int,
    *,
    path: str,
    within: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Callable[[], None]:
    """Forward and backward of one causal attention, one row; refuses another path than told."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, HEADS, length, WIDTH, generator=generator) for _ in range(3))
    for tensor in (q, k, v):
        tensor.requires_grad_()

    def run() -> None:
        with within():
            attended = attend(q, k, v, mask, function)
            if attended.path != path:
                raise RuntimeError(f"took the path {attended.path}, not {path}")
            torch.autograd.grad(attended.out, (q, k, v), torch.ones_like(attended.out))

    return run


def shape_of(length: int) -> HeadShape:
    return HeadShape(width=WIDTH, heads=HEADS, context=length)


def linear_rows(rounds: int) -> list[Row]:
    taken: dict[str, dict[int, list[float]]] = {"linear": {}, "dot": {}}
    for length in LENGTHS:
        shape = shape_of(length)
        runs = {
            "linear": pass_of(
                LinearAttention().build(shape), causal(), length, path="linear-causal"
            ),
            "dot": pass_of(as_function(Dot().build(shape)), causal(), length, path=DOT_PATH),
        }
        # A pass of a few milliseconds is timed ten times over.
        often = max(1, 16384 // length)
        repeated = {name: repeat(run, often) for name, run in runs.items()}
        for name, seconds in times_in_turn(turns_here(repeated), rounds=rounds).items():
            taken[name][length] = [one / often for one in seconds]
    medians = {
        name: {n: median(seconds) for n, seconds in lengths.items()}
        for name, lengths in taken.items()
    }
    exponents = {
        name: growth_exponent(list(lengths), list(lengths.values()))
        for name, lengths in medians.items()
    }
    figures = {
        f"{name}, n = {n:,}": 1e3 * seconds
        for name, lengths in medians.items()
        for n, seconds in lengths.items()
    }
    spread = [
        growth_exponent(LENGTHS, [taken["linear"][n][turn] for n in LENGTHS])
        for turn in range(rounds)
    ]
    what = f"causal attention forward and backward, {HEADS} heads of {WIDTH}, one row"
    return [
        Row(
            GROUP,
            f"{what}, 1k to 16k positions: scaling of linear attention",
            "ms",
            figures,
            Ratio(exponents["linear"], min(spread), max(spread)),
            "exponent of n",
            1.15,
            better="lower",
            notes=[f"dot: {exponents['dot']:.2f}"],
        ),
        Row(
            GROUP,
            f"{what}, 4k positions: linear vs. dot",
            "ms",
            {name: 1e3 * lengths[4096] for name, lengths in medians.items()},
            ratio_by_round(taken["dot"][4096], taken["linear"][4096]),
            "time of dot ÷ linear",
            1.0,
        ),
    ]


def group_rows(rounds: int) -> list[Row]:
    n = GROUPED_LENGTH
    shape = shape_of(n)
    grouped = as_function(Group(groups=8).build(shape))
    dot = as_function(Dot().build(shape))
    mask = grouped.restrict_mask(causal(), TokenPositions.of_row(n))
    runs = {
        "group, 8 groups": pass_of(grouped, mask, n, path=f"blocks, {BLOCK_PATH}"),
        "dot, fused": pass_of(dot, causal(), n, path=DOT_PATH),
        "dot, explicit": pass_of(
            dot, causal(), n, path="fused-causal", within=lambda: sdpa_kernel(SDPBackend.MATH)
        ),
    }
    taken = times_in_turn(turns_here(runs), rounds=rounds)
    found = []
    for other in ("dot, fused", "dot, explicit"):
        found.append(
            Row(
                GROUP,
                f"causal attention forward and backward, {n:,} positions, 8 groups vs. {other}",
                "ms",
                {name: 1e3 * median(taken[name]) for name in ("group, 8 groups", other)},
                ratio_by_round(taken[other], taken["group, 8 groups"]),
                f"time of {other} ÷ group",
                4.0,
            )
        )
    return found


def as_function(part: object) -> AttentionFunction:
    assert isinstance(part, AttentionFunction)
    return part


def repeat(run: Callable[[], None], often: int) -> Callable[[], None]:
    def all_of_them() -> None:
        for _ in range(often):
            run()

    return all_of_them
