"""Validation loss of either contestant by one definition: nats per character of the same text.

The validation text is one stream, cut into windows of a context that overlap by one token, so that
every character is predicted once, from the start of its window on; a window's first characters have
little before them, as in the windows that nanoGPT draws. The stream of regard spells the two line
ends between speeches as <stop> <start>: the nats of <stop> count, <start> is never predicted, and
both together stand for two characters of the text.

    python -m benchmarks.as_typed.shakespeare_loss regard runs/shakespeare dev.txt test.txt
    python -m benchmarks.as_typed.shakespeare_loss "nanoGPT's way" out/checkpoint.safetensors \
        train.txt val.txt
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from benchmarks.speed.timing import OURS
from torch import Tensor

WINDOWS = 64
"Windows in a batch."
SPEECHES_APART = "\n\n"
Losses = Callable[[Tensor, Tensor], Tensor]
"Ids and targets (b,t) to −log p in nats (b,t)."


def nats_per_character(
    losses: Losses, stream: np.ndarray, *, context: int, characters: int, never: int = -1
) -> float:
    """Summed loss of the stream over its characters; the token `never` is not predicted."""
    windows = (len(stream) - 1) // context
    if windows < 1:
        raise ValueError("the text does not fill a window")
    used = stream[: windows * context + 1]
    ids = torch.from_numpy(used[:-1].reshape(windows, context))
    targets = torch.from_numpy(used[1:].reshape(windows, context))
    total = 0.0
    with torch.inference_mode():
        for batch, wanted in zip(ids.split(WINDOWS), targets.split(WINDOWS), strict=True):
            total += float(losses(batch, wanted).double()[wanted != never].sum())
    return total / (characters * (windows * context) / (len(stream) - 1))


def of_regard(run: Path, *files: Path) -> float:
    from regard import api
    from regard.batch import Batch
    from regard.data.readers.lines import paragraphs
    from regard.models.model import token_losses

    loaded = api.load(run)
    tokenizer, model = loaded.tokenizer, loaded.model.eval()
    start, stop = tokenizer.require("start"), tokenizer.require("stop")
    speeches = [
        speech for file in files for speech in paragraphs(file.read_text("utf-8").splitlines())
    ]
    encoded = tokenizer.encode_many(speeches)
    stream = np.array([i for ids in encoded for i in (start, *ids, stop)], dtype=np.int64)

    def losses(ids: Tensor, targets: Tensor) -> Tensor:
        ones = torch.ones(ids.shape)
        # A speech attends to those before it: model.across_documents.
        batch = Batch(ids, targets, ones, ones.bool(), torch.zeros_like(ids), rows=())
        return token_losses(model, batch)

    characters = len(SPEECHES_APART.join(speeches)) + len(SPEECHES_APART)
    return nats_per_character(
        losses, stream, context=model.context, characters=characters, never=start
    )


def of_plain_script(checkpoint: Path, train: Path, val: Path) -> float:
    from benchmarks.as_typed.scripts.nano_gpt import Config, Gpt, encode
    from safetensors.torch import load_file

    texts = [file.read_text("utf-8") for file in (train, val)]
    characters = "".join(sorted(set("".join(texts))))
    config = Config(len(characters))
    model = Gpt(config).eval()
    state = load_file(checkpoint)
    model.load_state_dict({n: t for n, t in state.items() if not n.startswith("optimizer.")})

    def losses(ids: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(model(ids).transpose(1, 2), targets, reduction="none")

    stream = encode(texts[1], characters).astype(np.int64)
    return nats_per_character(losses, stream, context=config.context, characters=len(stream) - 1)


if __name__ == "__main__":
    name, model, *files = sys.argv[1:]
    paths = [Path(file) for file in files]
    of_model = of_regard if name == OURS else of_plain_script
    print(json.dumps(of_model(Path(model), *map(Path, files))))
