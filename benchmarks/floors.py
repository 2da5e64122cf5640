"""What the goals that are missed are up against: the work that nobody gets around, timed alone.

    .venv-bench/bin/python -m benchmarks.floors

A step has to make its products, the exponentials of its scores and their sums, and its attention,
whoever writes it. They are timed here by torch's operations with nothing between them, in turn with
the whole step and with a peer in a process of its own; the ratio of the peer to such a bare step is
the most that can be won without kernels of one's own (`regard/kernels`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
import torch.nn.functional as F
from benchmarks.speed import generation, training
from benchmarks.speed.contest import OURS, ratio_by_round, times_in_turn, turns_here
from benchmarks.speed.generation import (
    FAMILY,
    NEW,
    VOCABULARY,
    drawn_prompts,
    twin,
    writers,
)
from benchmarks.speed.own_process import OwnProcess
from benchmarks.speed.sizes import SIZES, Size
from torch import Tensor

from regard.attention.attend import attend
from regard.attention.bends import GELU_TANH, STRAIGHT
from regard.attention.linear_layer import Linear
from regard.attention.mask import causal
from regard.attention.products import product_of
from regard.kernels import library
from regard.model.table_products import rows_at_once, table_products

Run = Callable[[], object]
PEER, BARE = "plain GPT, compiled", "both"
COMPARED = (OURS, BARE, "written out")


def main() -> None:
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    library.PAYS = False  # here; whole steps are taken in processes of their own
    for size in SIZES:
        for dropout in (0.0, 0.1):
            others = [training.process_of(name, size, dropout=dropout) for name in (OURS, PEER)]
            runs = training_runs(size, dropout)
            told(f"one step, {size.name}, dropout {dropout:g}", runs, *others)
    others = [generation.process_of(name, 16, "greedy") for name in (OURS, generation.PEER)]
    told("128 tokens behind 16 prompts, greedy", writing_runs(16), *others)


def told(work: str, runs: dict[str, Run], ours: OwnProcess, peer: OwnProcess) -> None:
    taken = times_in_turn({OURS: ours, **turns_here(runs), "peer": peer}, rounds=9)
    ours.end()
    peer.end()
    figures = ", ".join(f"{name} {1e3 * median(one):.4g} ms" for name, one in taken.items())
    ratios = ", ".join(
        f"÷ {name} {ratio_by_round(taken['peer'], taken[name]).value:.2f}"
        for name in taken
        if name in COMPARED
    )
    print(f"{work}: {figures}; peer {ratios}", flush=True)


def training_runs(size: Size, dropout: float) -> dict[str, Run]:
    products = partial(each, [linear_products(size), output_products(size)])
    return bare_runs(products, attention(size, dropout))


def bare_runs(products: Run, attention: Run, *, often: int = 1) -> dict[str, Run]:
    """Each alone and both in turn, where each finds the caches full of the other's numbers."""
    return {
        "products": partial(each, [products] * often),
        "attention": partial(each, [attention] * often),
        BARE: partial(each, [products, attention] * often),
    }


def linear_products(size: Size) -> Run:
    """Forward and backward of every linear layer of every block, on vectors that lie ready."""
    w = size.width
    layers = [Linear(w, w) for _ in range(4)] + [Linear(w, 4 * w), Linear(4 * w, w)]
    given = [torch.randn(size.tokens, one.in_features, requires_grad=True) for one in layers]
    back = [torch.randn(size.tokens, one.out_features) for one in layers]

    def run() -> None:
        for _ in range(size.layers):
            for layer, x, d_y in zip(layers, given, back, strict=True):
                torch.autograd.grad(layer(x), (x, *layer.parameters()), d_y)

    return run


def output_products(size: Size) -> Run:
    """The three products of the output layer, a chunk of places at a time; between them scores are
    raised and summed."""
    x, table = torch.randn(size.tokens, size.width), torch.randn(size.vocabulary, size.width) / 9
    rows = rows_at_once(size.vocabulary)

    def run() -> None:
        products = table_products(x, table, rows=rows)
        for chunk in x.split(rows):
            scores = products.scores(chunk).exp2_()
            scores.sum(dim=-1)
            products.mixed(scores)
            products.gather(scores, chunk)
            del scores
        products.gathered()

    return run


def attention(size: Size, dropout: float) -> Run:
    """Forward and backward of the attention of every block, without its products of weights."""
    shape = (size.rows, size.places, size.heads, size.width // size.heads)
    q, k, v, pull = (torch.randn(shape).transpose(1, 2) for _ in range(4))
    for tensor in (q, k, v):
        tensor.requires_grad_()

    def run() -> None:
        for _ in range(size.layers):
            out = attend(q, k, v, causal(), dropout=dropout).out
            torch.autograd.grad(out, (q, k, v), pull)

    return run


def writing_runs(count: int) -> dict[str, Run]:
    ours = FAMILY.build(vocabulary=VOCABULARY, seed=0).eval()
    prompts = drawn_prompts(count)
    theirs = twin(ours)
    read, _ = writers(ours, theirs, prompts, choice="greedy", new=1)
    keys = max(map(len, prompts)) + NEW // 2  # on average
    runs = {
        **bare_runs(written_products(count), written_attention(count, keys=keys), often=NEW),
        "written out": partial(each, [read, written_out(count, keys=keys)]),
    }
    return {name: torch.inference_mode()(run) for name, run in runs.items()}


@torch.inference_mode()
def written_products(count: int) -> Run:
    """Those of one token a row, each layer with weights of its own."""
    w = FAMILY.width
    sizes = [(w, 3 * w), (w, w), (w, 4 * w), (4 * w, w)] * FAMILY.layers + [(w, VOCABULARY)]
    made = [product_of([Linear(*size)], laid_out_for=count) for size in sizes]
    given = [torch.randn(count, inputs) for inputs, _ in sizes]
    return lambda: [product(x) for product, x in zip(made, given, strict=True)]


@torch.inference_mode()
def written_attention(count: int, *, keys: int) -> Run:
    """That of one token a row over its past, each layer with a past of its own."""
    heads, width = FAMILY.heads, FAMILY.width // FAMILY.heads
    q, added = torch.randn(count, heads, 1, width), torch.zeros(count, 1, 1, keys)
    room = (count, heads, FAMILY.context, width)
    pasts = [[torch.randn(room).narrow(2, 0, keys) for _ in "kv"] for _ in range(FAMILY.layers)]
    return lambda: [F.scaled_dot_product_attention(q, k, v, attn_mask=added) for k, v in pasts]


@torch.inference_mode()
def written_out(count: int, *, keys: int) -> Run:
    """All that the other steps have to do, one line after another, with nothing asked or checked,
    and with no word on how likely a token was."""
    w, heads = FAMILY.width, FAMILY.heads
    sizes = [(w, 3 * w, STRAIGHT), (w, w, STRAIGHT), (w, 4 * w, GELU_TANH), (4 * w, w, STRAIGHT)]
    blocks = [
        [product_of([Linear(a, b)], laid_out_for=count, bend=bend) for a, b, bend in sizes]
        for _ in range(FAMILY.layers)
    ]
    room = (count, heads, FAMILY.context, w // heads)
    pasts = [(torch.zeros(room), torch.zeros(room)) for _ in blocks]
    table, gain, shift = torch.randn(VOCABULARY, w), torch.ones(w), torch.zeros(w)
    score = product_of([torch.nn.Linear(w, VOCABULARY, bias=False)], laid_out_for=count)
    added = torch.zeros(count, 1, 1, keys)

    def norm(x: Tensor) -> Tensor:
        return torch.layer_norm(x, (w,), gain, shift)

    def run() -> None:
        ids = torch.zeros(count, dtype=torch.int64)
        for _ in range(NEW - 1):
            x = torch.embedding(table, ids)
            for (project, join, widen, narrow), (ks, vs) in zip(blocks, pasts, strict=True):
                made = project(norm(x)).view(count, 3 * heads, 1, -1)
                q, k, v = torch.split_with_sizes(made, [heads] * 3, dim=1)
                ks.narrow(2, keys - 1, 1).copy_(k)
                vs.narrow(2, keys - 1, 1).copy_(v)
                seen = (past.narrow(2, 0, keys) for past in (ks, vs))
                out = F.scaled_dot_product_attention(q, *seen, attn_mask=added)
                x = x + join(out.reshape(count, w))
                x = x + narrow(widen(norm(x)))
            ids = torch.from_numpy(score(norm(x)).numpy().argmax(axis=-1))

    return run


def each(runs: list[Run]) -> None:
    for run in runs:
        run()


if __name__ == "__main__":
    main()
