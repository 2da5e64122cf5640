"""A model as the audits call it: they see tensors and callables, and never a model class.

Shapes: b batch, t position, s source position, p patches, k values in a patch. `valid`: True = a
token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from regard.attention.cache import ModelCache
from regard.attention.token_positions import TokenPositions
from regard.audits.subject import Subject
from regard.generation.decoding_setup import decodes_rows
from regard.models.architectures.source_bound_decoder import decodes_source
from regard.models.blocks.attention_recorder import AttentionRecorder
from regard.models.inputs import ModelInputs
from regard.models.model import Model, TokenModel
from regard.models.task_models.patch_model import PATCH
from regard.runs.models.loaded_model import LoadedModel

SOURCE_LENGTH = 7
"Length of the source sequence in audits; any length would do."
DOCUMENT_LENGTH = 3
"Length of each document in the packed rows of an audit."

TEXT = """The model reads a text, the text is short, and then it reads it again. "Again, again?"
asked one; nobody answered (nobody ever did). One, two, three, three hundred and 33."""
"Read by a model's own tokenizer, for rows of real text."

BuildInputs = Callable[[Tensor, Tensor | None], ModelInputs]
"(ids (b,t), valid (b,t) or None) -> the inputs of a model"


def auditable(target: Any) -> Any:
    """A model of regard's as a `Subject`; anything else as it is."""
    loaded = target if isinstance(target, LoadedModel) else None
    model = target if loaded is None else loaded.model
    if not isinstance(model, Model):
        return model
    subject = model_subject(model)
    if loaded is None:
        return subject
    text = torch.tensor(loaded.tokenizer.encode(TEXT)) % subject.vocabulary
    return replace(subject, text=text, special_ids=loaded.tokenizer.special_ids)


def model_subject(model: Model) -> Subject:
    """Outputs position by position. Below the head of a task these are the body's; gradients are
    checked for the whole model, by the task's loss."""
    body = model.body
    source = _draw_source(body) if body.reads == "source and target" else None

    def inputs(ids: Tensor, valid: Tensor | None) -> ModelInputs:
        if body.patch_dim:
            return mixed_inputs(ids, valid, patch_dim=body.patch_dim)
        if source is None:
            return ModelInputs(ids, valid)
        sources = source.to(ids.device).expand(len(ids), -1)
        every = torch.ones_like(sources, dtype=torch.bool)
        # A padded target is no input of a seq2seq model: its padding is never attended to.
        return ModelInputs(ids, source=sources, source_valid=every)

    subject = _subject(body, inputs)
    if body.patch_dim:
        subject = replace(subject, name=f"{subject.name}, words and patches")
    if body.attends:
        subject = replace(subject, run_with_weights=_run_with_weights(inputs))
    if body.generates:
        subject = replace(subject, run_cached=_run_cached(inputs))
    if model.task_head is None:
        return subject
    return replace(subject, name=f"{subject.name}, below the task head", trained_module=model)


def packed_subject(body: TokenModel) -> Subject:
    """The model over packed rows, whose documents are those of `document_ids`."""

    def inputs(ids: Tensor, valid: Tensor | None) -> ModelInputs:
        length, device = ids.shape[1], ids.device
        documents = document_ids(length).to(device).expand(len(ids), -1)
        positions = TokenPositions.of_row(length, device=device, segments=documents)
        return ModelInputs(ids, positions=positions)

    subject = _subject(body, inputs)
    name = f"{subject.name}, documents kept apart"
    return replace(subject, name=name, accepts_padding_mask=False)


def document_ids(length: int) -> Tensor:
    """(t): the document of each position in a packed row of an audit."""
    return torch.arange(length) // DOCUMENT_LENGTH


def mixed_inputs(ids: Tensor, valid: Tensor | None, *, patch_dim: int) -> ModelInputs:
    """Rows whose ids of the second half become patches, different ids different patches; all rows
    have the same number of tokens."""
    is_token = torch.ones_like(ids, dtype=torch.bool) if valid is None else valid
    count = is_token.sum(dim=1, keepdim=True)
    is_patch = is_token & (is_token.cumsum(dim=1) > (count + 1) // 2)
    frequencies = torch.arange(1, patch_dim + 1, device=ids.device)
    values = 0.5 + 0.5 * (ids[is_patch][:, None] * frequencies).double().cos()
    positions = TokenPositions.of_row(
        ids.shape[1], device=ids.device, modalities=is_patch.long() * PATCH
    )
    return ModelInputs(ids, valid, positions, patches=values.view(len(ids), -1, patch_dim))


def _subject(body: TokenModel, inputs: BuildInputs) -> Subject:
    def run(model: TokenModel, ids: Tensor, valid: Tensor | None) -> Tensor:
        return model.position_outputs(model.hidden_states(inputs(ids, valid)))

    return Subject(
        type(body).__name__,
        run,
        module=body,
        vocabulary=body.vocabulary,
        max_length=body.context,
        embedding=body.token_table,
        accepts_padding_mask=body.reads == "row",
        visibility=body.visibility,
    )


def _run_with_weights(inputs: BuildInputs) -> Callable[[TokenModel, Tensor], Tensor]:
    def run(model: TokenModel, ids: Tensor) -> Tensor:
        x = model.hidden_states(inputs(ids, None), recorder=AttentionRecorder())
        return model.position_outputs(x)

    return run


def _run_cached(inputs: BuildInputs) -> Callable[[TokenModel, Tensor, Sequence[int]], Tensor]:
    def run(model: TokenModel, ids: Tensor, cuts: Sequence[int]) -> Tensor:
        """Logits at every position, computed through the cache in the pieces between `cuts`."""
        cache, valid = _new_cache(model, inputs(ids, None)), torch.ones_like(ids, dtype=torch.bool)
        pieces = [
            model.logits(ModelInputs(ids[:, begin:end], valid[:, :end]), cache=cache)
            for begin, end in pairwise([0, *cuts, ids.shape[1]])
        ]
        return torch.cat(pieces, dim=1)

    return run


def _new_cache(model: TokenModel, inputs: ModelInputs) -> ModelCache:
    if decodes_rows(model):
        return model.new_cache(len(inputs.ids))
    assert decodes_source(model)
    assert inputs.source is not None
    assert inputs.source_valid is not None
    return model.encode(inputs.source, inputs.source_valid)


def _draw_source(body: TokenModel) -> Tensor:
    """(1,s): one fixed source sequence."""
    length = min(body.context, SOURCE_LENGTH)
    generator = torch.Generator().manual_seed(0)
    return torch.randint(body.vocabulary, (1, length), generator=generator)
