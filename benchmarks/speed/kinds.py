"""Kinds of attention against each other: training time, and its scaling with length."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from statistics import median

import torch
from benchmarks.speed.ours import our_step
from benchmarks.speed.sizes import Size
from benchmarks.speed.timing import (
    Ratio,
    Row,
    in_process_turns,
    interleaved_times,
    ratio_by_round,
    scaling_exponent,
)
from benchmarks.speed.worker_process import (
    WorkerProcess,
    interleaved_process_times,
    serve_turns,
)
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard.attention.attend import attend
from regard.attention.function import AttentionFunction, HeadShape
from regard.attention.kinds import AttentionKind
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
DOT_IS_KERNEL = library.LIBRARY is not None and library.REPLACES_MATMUL
DOT_PATH = "kernel" if DOT_IS_KERNEL else "fused-causal"
KINDS: dict[str, Callable[[], AttentionKind]] = {"additive": Additive, "dot": Dot}
DEMO = Size("recipes/small-gpt.toml", 48, 3, 3, 4_400, rows=16, positions=64)
DEMO_STEPS = 12
"In a turn: a step takes some 20 ms."
STUDY_WORKER = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
"As a study starts its workers."
WITH_AND_WITHOUT_KERNELS = {"CPU kernels": {}, "torch's operations": {"REGARD_KERNELS": "off"}}
BLOCK_PATH = "kernel" if DOT_IS_KERNEL else "query-blocks"


def rows(*, rounds: int = 7) -> Iterator[Row]:
    yield from additive_rows(rounds)
    yield from linear_rows(rounds)
    yield from group_rows(rounds)


def additive_rows(rounds: int) -> Iterator[Row]:
    """As the demo trains: each training in a worker of one thread."""
    for kernels, environment in WITH_AND_WITHOUT_KERNELS.items():
        workers = {
            kind: WorkerProcess(
                "benchmarks.speed.kinds", kind, environment={**STUDY_WORKER, **environment}
            )
            for kind in KINDS
        }
        times = interleaved_process_times(workers, rounds=rounds)
        yield Row(
            GROUP,
            f"one step as the demo trains, one thread, {kernels}: additive vs. dot",
            "ms",
            {name: 1e3 * median(seconds) for name, seconds in times.items()},
            ratio_by_round(times["additive"], times["dot"]),
            "additive ÷ dot",
            1.5,
            better="lower",
            same_work="the same decoder but for the scores, the same batch",
        )


def serve_kind(name: str) -> None:
    """In the worker."""
    step = our_step(DEMO, dropout=0.0, attention=KINDS[name]())
    torch.set_num_threads(1)
    serve_turns(step, repeats=DEMO_STEPS)


def attention_pass(
    function: AttentionFunction,
    mask: Mask,
    length: int,
    *,
    path: str,
    context: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Callable[[], None]:
    """Forward and backward of one attention layer, batch size 1; raises unless it takes `path`."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, HEADS, length, WIDTH, generator=generator) for _ in range(3))
    for tensor in (q, k, v):
        tensor.requires_grad_()

    def run() -> None:
        with context():
            output = attend(q, k, v, mask, function)
            if output.path != path:
                raise RuntimeError(f"took the path {output.path}, not {path}")
            torch.autograd.grad(output.out, (q, k, v), torch.ones_like(output.out))

    return run


def head_shape(length: int) -> HeadShape:
    return HeadShape(width=WIDTH, heads=HEADS, context=length)


def linear_rows(rounds: int) -> list[Row]:
    times: dict[str, dict[int, list[float]]] = {"linear": {}, "dot": {}}
    for length in LENGTHS:
        shape = head_shape(length)
        runs = {
            "linear": attention_pass(
                LinearAttention().build(shape), causal(), length, path="linear-causal"
            ),
            "dot": attention_pass(as_function(Dot().build(shape)), causal(), length, path=DOT_PATH),
        }
        # Short passes are repeated within a turn.
        repeats = max(1, 16384 // length)
        repeated = {name: repeat(run, repeats) for name, run in runs.items()}
        for name, seconds in interleaved_times(in_process_turns(repeated), rounds=rounds).items():
            times[name][length] = [s / repeats for s in seconds]
    medians = {
        name: {n: median(seconds) for n, seconds in lengths.items()}
        for name, lengths in times.items()
    }
    exponents = {
        name: scaling_exponent(list(lengths), list(lengths.values()))
        for name, lengths in medians.items()
    }
    milliseconds = {
        f"{name}, n = {n:,}": 1e3 * seconds
        for name, lengths in medians.items()
        for n, seconds in lengths.items()
    }
    by_round = [
        scaling_exponent(LENGTHS, [times["linear"][n][round_] for n in LENGTHS])
        for round_ in range(rounds)
    ]
    work = f"causal attention forward and backward, {HEADS} heads of {WIDTH}, one row"
    return [
        Row(
            GROUP,
            f"{work}, 1k to 16k positions: scaling of linear attention",
            "ms",
            milliseconds,
            Ratio(exponents["linear"], min(by_round), max(by_round)),
            "exponent of n",
            1.15,
            better="lower",
            notes=[f"dot: {exponents['dot']:.2f}"],
        ),
        Row(
            GROUP,
            f"{work}, 4k positions: linear vs. dot",
            "ms",
            {name: 1e3 * lengths[4096] for name, lengths in medians.items()},
            ratio_by_round(times["dot"][4096], times["linear"][4096]),
            "time of dot ÷ linear",
            1.0,
        ),
    ]


def group_rows(rounds: int) -> list[Row]:
    n = GROUPED_LENGTH
    shape = head_shape(n)
    grouped = as_function(Group(groups=8).build(shape))
    dot = as_function(Dot().build(shape))
    mask = grouped.restrict_mask(causal(), TokenPositions.of_row(n))
    runs = {
        "group, 8 groups": attention_pass(grouped, mask, n, path=f"blocks, {BLOCK_PATH}"),
        "dot, fused": attention_pass(dot, causal(), n, path=DOT_PATH),
        "dot, explicit": attention_pass(
            dot, causal(), n, path="fused-causal", context=lambda: sdpa_kernel(SDPBackend.MATH)
        ),
    }
    times = interleaved_times(in_process_turns(runs), rounds=rounds)
    rows = []
    for other in ("dot, fused", "dot, explicit"):
        rows.append(
            Row(
                GROUP,
                f"causal attention forward and backward, {n:,} positions, 8 groups vs. {other}",
                "ms",
                {name: 1e3 * median(times[name]) for name in ("group, 8 groups", other)},
                ratio_by_round(times[other], times["group, 8 groups"]),
                f"time of {other} ÷ group",
                4.0,
            )
        )
    return rows


def as_function(part: object) -> AttentionFunction:
    assert isinstance(part, AttentionFunction)
    return part


def repeat(run: Callable[[], None], times: int) -> Callable[[], None]:
    def run_repeatedly() -> None:
        for _ in range(times):
            run()

    return run_repeatedly


if __name__ == "__main__":
    serve_kind(sys.argv[1])
