"""The hidden states from which a row was decoded, each window in one forward pass.

    prompt of P tokens, then one token after another: the window slides as in `DecodingWindow`,
    whose steps are the oracle

For each token but the first: what the model predicted in its place. Tokens that left the window
before they were predicted from, as the beginning of a prompt that is too long, have no states.
Shapes: t position in the window, s source position, w model width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.generation.decoding_window import model_device
from regard.models.inputs import ModelInputs
from regard.models.model import Model


class DecodingSpan(NamedTuple):
    """Positions first … end − 1 of a row, decoded in a window that begins at `begin`."""

    begin: int
    first: int
    end: int


def decoding_spans(*, prompt: int, length: int, context: int) -> list[DecodingSpan]:
    """The spans of a row of `length` tokens of which the first `prompt` were given."""
    kept = max(1, context // 2)
    begin = first = prompt - kept if prompt > context else 0
    spans = []
    while begin + context < length:
        # The next token does not fit: with it, the last `kept` tokens begin a new window.
        end = begin + context
        spans.append(DecodingSpan(begin, first, end))
        begin, first = end + 1 - kept, end
    return [*spans, DecodingSpan(begin, first, length)]


@torch.inference_mode()
def row_states(
    model: Model, row: Sequence[int], *, prompt: int, source: Sequence[int] | None = None
) -> Iterator[tuple[DecodingSpan, Tensor]]:
    """The hidden states (end − first, w) of each span; `source` is that of a seq2seq model."""
    for span in decoding_spans(prompt=prompt, length=len(row), context=model.context):
        inputs = row_inputs(model, row[span.begin : span.end], source=source)
        states = model.body.hidden_states(inputs)[0]
        yield span, states[span.first - span.begin :]


def row_inputs(
    model: Model, row: Sequence[int], *, source: Sequence[int] | None = None
) -> ModelInputs:
    """One row as the model's input; a source that is too long keeps its end."""
    device = model_device(model)
    ids = torch.tensor([list(row)], device=device)
    if source is None:
        return ModelInputs(ids)
    source_ids = torch.tensor([list(source[-model.context :])], device=device)
    valid = torch.ones_like(source_ids, dtype=torch.bool)
    return ModelInputs(ids, source=source_ids, source_valid=valid)
