"""`train.compile`: torch compiles each Transformer block as a whole, for training steps alone.

Evaluation, sampling, decoding and audits run eagerly, as do the embedding and the head, whose loss
never holds all logits. Compiled blocks take torch's fused attention instead of regard's kernels,
which look at values on the way, and torch's dropout: sums are rounded, and dropout is drawn, in
another way, so a compiled run has bits of its own. Shapes are static: one graph for rows of one
number and length.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch

from regard.core.errors import UserError
from regard.data.token_cache.cache import cache_home
from regard.models.model import Model
from regard.training.settings import Train

COMPILED_REMARK = (
    "train: blocks are compiled (train.compile): results differ from those of an uncompiled run in "
    "rounding, and with dropout in its draws"
)
LIBRARY_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
LIBRARIES = os.environ.get(LIBRARY_VARIABLE)
"What the user has set; torch sets the variable itself once its compiler is loaded."
CPU_COMPILERS = ("c++", "g++", "clang++")
"Looked for in this order after the variable CXX; on Windows it is cl."


def check_compilable(settings: Train, model: Model, *, device: str, ranks: int = 1) -> None:
    """Refuse in one sentence what cannot be compiled here."""
    if not settings.compile:
        return
    kind = torch.device(device).type
    if settings.batches != "packed":
        raise _refused(
            f'train.batches = "{settings.batches}" has rows of many lengths, and each is compiled',
            'Set train.batches = "packed".',
        )
    if ranks > 1 and settings.parallel == "fsdp":
        raise _refused(
            'train.parallel = "fsdp" gathers blocks on the way', 'Set train.parallel = "ddp".'
        )
    if not model.body.stacks:
        raise _refused("this family has no Transformer blocks")
    if not torch._dynamo.is_dynamo_supported():
        raise _refused("torch cannot compile with this version of Python")
    if kind == "mps":
        raise _refused("Apple's GPUs are not supported")
    if kind == "cpu" and not has_cpu_compiler():
        raise _refused("there is no C++ compiler", "Install g++ or clang++ (Windows: cl).")
    if kind == "cuda":
        from torch.utils._triton import has_triton

        if not has_triton():
            raise _refused("Triton is missing")


def has_cpu_compiler() -> bool:
    names = ("cl",) if sys.platform == "win32" else CPU_COMPILERS
    return any(shutil.which(name) for name in (os.environ.get("CXX", ""), *names) if name)


@contextmanager
def compiled_training(model: Model, settings: Train) -> Iterator[None]:
    """Within, training steps run compiled blocks if `settings` ask for it; what the compiler cannot
    do is one sentence. Libraries are kept in regard's cache, and graphs, which torch would pickle,
    nowhere."""
    if not settings.compile:
        yield
        return
    with ExitStack() as stack:
        stack.enter_context(_libraries_in(cache_home() / "inductor"))  # before torch chooses one
        from torch._functorch import config as graphs  # seconds of imports
        from torch._inductor import config as inductor

        stack.enter_context(inductor.patch(fx_graph_cache=False, compile_threads=1))
        stack.enter_context(graphs.patch(enable_autograd_cache=False))
        torch._dynamo.reset()  # of another training in this process
        compile_blocks(model)
        stack.callback(_run_eagerly, model)
        stack.enter_context(compile_errors_named())
        yield


def compile_blocks(model: Model, *, backend: str = "inductor") -> None:
    """Training steps run compiled blocks from now on; parameters and their names stay."""
    for stack in model.body.stacks.values():
        stack.training_blocks = [
            torch.compile(block, backend=backend, fullgraph=True, dynamic=False)
            for block in stack.blocks
        ]


@contextmanager
def compile_errors_named() -> Iterator[None]:
    """What the compiler cannot do is one sentence."""
    try:
        yield
    except Exception as problem:
        if not type(problem).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise
        reason = next(line for line in str(problem).splitlines() if line.strip())
        raise _refused(f"a block of this model cannot be compiled ({reason.strip()})") from None


def _run_eagerly(model: Model) -> None:
    for stack in model.body.stacks.values():
        stack.training_blocks = None


@contextmanager
def _libraries_in(folder: Path) -> Iterator[None]:
    """By default they are in a folder that all users of the machine share."""
    before = os.environ.get(LIBRARY_VARIABLE)
    os.environ[LIBRARY_VARIABLE] = LIBRARIES or str(folder)
    try:
        yield
    finally:
        del os.environ[LIBRARY_VARIABLE]
        if before is not None:
            os.environ[LIBRARY_VARIABLE] = before


def _refused(what: str, hint: str = "") -> UserError:
    return UserError(
        f"train.compile = true is not possible here: {what}",
        topic="recipe",
        hint=hint or "Set train.compile = false.",
    )
