"""Calls every kernel of a library with random shapes: a child process under sanitizers.

    python -m tests.ops.cpu.random_calls avx2 LIBRARY random SEED
    python -m tests.ops.cpu.random_calls avx2 LIBRARY overflow
    python -m tests.ops.cpu.random_calls avx2 LIBRARY serve     a call for each seed on stdin

Tensors have exactly the size that a kernel may touch, so a sanitizer sees each step beyond it.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable
from pathlib import Path

import torch

from regard.ops import attention, cross_entropy, linear
from regard.ops.cpu import decode, library

CALLS = 25
"Of each kernel."


def call_linear(draw):
    rows, inputs, outputs = draw.randint(64, 600), _width(draw), _width(draw)
    x, weight, bias = torch.randn(rows, inputs), torch.randn(outputs, inputs), torch.randn(outputs)
    y = linear.LINEAR.registered(x, weight, draw.choice([bias, None]))
    needed = _needed(draw, 3)
    linear.LINEAR_BACKWARD.registered(y, x if needed[1] else None, weight, needed)


def call_logits_pass(draw):
    rows, w, vocabulary = draw.randint(1, 600), _width(draw), draw.randint(1, 700)
    x, table = torch.randn(rows, w), torch.randn(vocabulary, w) / w
    cross_entropy.LOGITS_PASS.registered(x, table, torch.rand(rows), _needed(draw, 2))


def call_attention(draw):
    b, h, m, d = draw.randint(1, 3), draw.randint(1, 3), _width(draw), _width(draw)
    i, j, causal = draw.randint(1, 200), draw.randint(1, 200), draw.random() < 0.5
    if causal:
        j = i
    q, k, v = (torch.randn(b, n, h, width).transpose(1, 2) for n, width in ((i, m), (j, m), (j, d)))
    draws = torch.randint(-(2**15), 2**15, (b, h, i, j), dtype=torch.int16)
    settings = (draw.choice([draws, None]), causal, -9_000, 0.8)
    out, denominator = attention.DOT.registered(q, k, v, *settings, 0.2)
    saved = (torch.randn(b, h, i, d), q, k, v, out, denominator)
    attention.DOT_BACKWARD.registered(*saved, *settings, 0.2)
    weight = torch.randn(h, m)
    out, denominator = attention.ADDITIVE.registered(q, k, v, weight, *settings)
    saved = (torch.randn(b, h, i, d), q, k, v, out, denominator)
    attention.ADDITIVE_BACKWARD.registered(*saved, weight, *settings)


def call_decode(draw):
    rows, inputs, outputs = draw.randint(1, 20), draw.randint(1, 90), draw.randint(1, 150)
    weight, bias = torch.randn(outputs, inputs), draw.choice([torch.randn(outputs), None])
    layer = decode.packed_linear(weight, bias, activation_id=draw.randint(0, 3))
    layer(torch.randn(rows, inputs))
    layer(torch.randn(inputs))
    groups, group, d, capacity = draw.randint(1, 3), draw.randint(1, 3), _width(draw), 40
    length = draw.randint(0, capacity - 1)
    keys, values = (torch.randn(rows, groups, capacity, d) for _ in "kv")
    qkv = torch.randn(rows, groups * (group + 2), 1, d)
    bias = draw.choice([torch.randn(rows, 1, 1, length + 1), None])
    decode.decode_attention(qkv, keys, values, length=length, bias=bias)


def overflow() -> None:
    """One row more than there is memory for: what a sanitizer has to find."""
    assert library.LIBRARY is not None
    width = library.LIBRARY.lanes
    x, weight, y = torch.randn(65, width), torch.randn(width, width), torch.randn(64, width)
    library.run("regard_linear_forward", x, weight, None, y, 65, width, width, 1)


def _width(draw: random.Random) -> int:
    assert library.LIBRARY is not None
    return draw.randint(1, 7) * library.LIBRARY.lanes


def _needed(draw: random.Random, count: int) -> list[bool]:
    return [draw.random() < 0.7 for _ in range(count)]


def serve(seeds: Iterable[str]) -> None:
    """One kernel with one shape for each line; the answer is its name."""
    for seed in seeds:
        draw = random.Random(seed)
        torch.set_num_threads(draw.randint(1, 3))
        call = draw.choice(KERNELS)
        call(draw)
        print(call.__name__, flush=True)


KERNELS = (call_linear, call_logits_pass, call_attention, call_decode)


def main() -> None:
    name, file, what, *seed = sys.argv[1:]
    library.LIBRARY = library.Library(name, Path(file))
    if what == "overflow":
        return overflow()
    if what == "serve":
        return serve(line.strip() for line in sys.stdin)
    draw = random.Random(int(seed[0]))
    for call in KERNELS:
        for _ in range(CALLS):
            torch.set_num_threads(draw.randint(1, 3))
            call(draw)
        print(call.__name__, "done")


if __name__ == "__main__":
    main()
