"""The logit lens: what a model would predict if it ended after each layer.

    p_l = softmax(head(norm(x_l)))        x_l: the residual stream after block l, x_0 the embedding

nostalgebraist, 2020. The final norm and the head were trained for the last layer alone, so early
layers may know more than they show (Belrose et al., 2023). The last row is the model's own answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from regard.core.errors import UserError
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.generation.decoding_setup import suppressed_ids
from regard.generation.row_states import row_inputs
from regard.models.blocks.residual_stream import record_residual_stream
from regard.models.model import Model
from regard.runs.inspection.continuation import DecodedRow
from regard.runs.inspection.token_texts import token_texts

MAX_POSITIONS = 256


@dataclass(frozen=True)
class LensCell:
    """What a layer would predict after a position."""

    top: str
    "The most probable token that can be drawn; a dot stands for a space."
    top_probability: float
    next_probability: float | None
    "Of the token that follows; None after the last."
    next_rank: int | None


@dataclass(frozen=True)
class LogitLens:
    """Layers by positions."""

    tokens: tuple[str, ...]
    "The row's tokens at these positions."
    following: tuple[str, ...]
    "The token that follows each; empty after the last."
    first: int
    "Position in the row of the first."
    layers: tuple[str, ...]
    cells: tuple[tuple[LensCell, ...], ...]


@torch.inference_mode()
def logit_lens(model: Model, tokenizer: Tokenizer, row: DecodedRow, *, positions: int) -> LogitLens:
    """The last `positions` of a row that the context holds, layer by layer."""
    stacks = list(model.body.stacks.values())
    if not stacks:
        raise UserError(
            "this model has no stack of blocks, so there are no layers to read between",
            topic="inspect",
            hint="Take a Transformer.",
        )
    has_ended = row.ids[-1] == tokenizer.require("stop")
    read = row.ids[: len(row.ids) - has_ended][-model.context :]  # nothing follows the stop token
    shown = min(max(positions, 1), MAX_POSITIONS, len(read))
    with record_residual_stream(stacks[-1]) as states:
        model.body.hidden_states(row_inputs(model, read, source=row.source))
    first = len(row.ids) - has_ended - shown
    following = torch.tensor(row.ids[first + 1 :])
    never_drawn = torch.tensor(suppressed_ids(tokenizer), dtype=torch.long)
    cells = []
    for state in states:
        logits = model.body.head(stacks[-1].norm(state[:, -shown:]))[0].float().cpu()
        p = torch.softmax(logits.double(), dim=-1)
        top = logits.index_fill(-1, never_drawn, -torch.inf).argmax(dim=-1)
        labels = token_texts(tokenizer, top.numpy())
        cells.append(
            tuple(
                LensCell(label, float(p[n, top[n]]), *_next(logits[n], p[n], following[n : n + 1]))
                for n, label in enumerate(labels)
            )
        )
    names = token_texts(tokenizer, np.array(row.ids[first:]))
    return LogitLens(
        tokens=tuple(names[:shown]),
        following=(*names[1:], *[""] * (not has_ended)),
        first=first,
        layers=("embedding", *(f"block {n}" for n in range(len(states) - 1))),
        cells=tuple(cells),
    )


def _next(
    logits: torch.Tensor, p: torch.Tensor, following: torch.Tensor
) -> tuple[float, int] | tuple[None, None]:
    if not len(following):
        return None, None
    token = int(following[0])
    return float(p[token]), 1 + int((logits > logits[token]).sum())
