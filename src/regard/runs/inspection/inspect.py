"""Inspect a model on one text: attention weights, and the loss of each token.

A decoder predicts each next token. An encoder sees the whole text; for the losses each token is
masked alone and predicted from all others (pseudo-log-likelihood, Salazar et al., 2020). A seq2seq
model takes the text as its source and predicts a target, by default its own greedy generation.
Shapes: t position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.batch import Example, Ints, collate
from regard.core.errors import UserError
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.generation.generate import Greedy, generate
from regard.models.architectures.source_bound_decoder import (
    SourceBoundDecoder,
    SourceDecoder,
    decodes_source,
)
from regard.models.blocks.attention_recorder import AttentionRecorder
from regard.models.inputs import ModelInputs
from regard.models.model import Model, token_losses
from regard.objectives import Vocabulary
from regard.runs.inspection.inspection import AttentionMap, Inspection, TokenLoss, TokenRow
from regard.runs.inspection.token_texts import token_texts
from regard.runs.models.loaded_model import LoadedModel
from regard.runs.training_audit import invalid_reasons

MAX_NEW_TOKENS = 60
"Of a target that the model generates itself."
BATCH_POSITIONS = 2048
NO_LOSSES = "no losses: the head of its task predicts no tokens"
RECURRENT_ATTENTION = "attention"
"Name of a recurrent model's only attention, from target to source."


def inspect_model(loaded: LoadedModel, text: str, *, target: str | None = None) -> Inspection:
    """Inspect a loaded model; `invalid` repeats what the audit of its run found."""
    inspection = inspect_text(loaded.model, loaded.tokenizer, text, target=target)
    return inspection.model_copy(update={"invalid": invalid_reasons(loaded.folder)})


def inspect_text(
    model: Model, tokenizer: Tokenizer, text: str, *, target: str | None = None
) -> Inspection:
    """Run `text` through the model and record all attention weights; `target` is for seq2seq."""
    model.eval()
    ids = encode_text(tokenizer, text, "text")
    if decodes_source(model):
        target_ids = None if target is None else encode_text(tokenizer, target, "target")
        prepared = _with_source(model, tokenizer, ids, target_ids)
    elif target is not None:
        raise UserError(
            "a target is given, and this model takes one text alone",
            topic="inspect",
            hint="Leave --target out: it is for seq2seq models.",
        )
    else:
        prepared = single_row(model, tokenizer, ids)
    recorder = AttentionRecorder()
    example = prepared.example
    row, source = token_row(tokenizer, example.inputs), None
    if example.source is not None:
        source = token_row(tokenizer, example.source)
    token_losses: tuple[TokenLoss, ...]
    if model.task_head is not None:
        _record_attention(model, tokenizer, example, recorder)
        token_losses, remarks = (), [NO_LOSSES]
    elif model.visibility == "bidirectional":
        _record_attention(model, tokenizer, example, recorder)
        token_losses, remarks = _masked_losses(model, tokenizer, row)
    else:
        losses = _losses(model, tokenizer, example, recorder)
        tokens = token_texts(tokenizer, example.targets)
        token_losses, remarks = tuple(map(TokenLoss, tokens, losses.tolist())), []
    _check_finite(recorder, token_losses)
    return Inspection(
        text=text,
        row=row,
        source=source,
        losses=token_losses,
        attention=_maps(recorder, has_source=source is not None),
        remarks=(
            *prepared.remarks,
            *remarks,
            *_unknown_remarks(tokenizer, row, source),
            *(f"{name} has no weights to show: its kind makes none" for name in recorder.missing),
        ),
    )


@dataclass(frozen=True)
class PreparedExample:
    """An example, and what was done to make it fit."""

    example: Example
    remarks: tuple[str, ...] = ()


def encode_text(tokenizer: Tokenizer, text: str, what: str) -> list[int]:
    """The ids of a text; `what` is its name in a refusal."""
    if text != text.encode(errors="replace").decode():
        raise UserError(f"the {what} is not valid UTF-8", topic="inspect", hint="Type it again.")
    ids = tokenizer.encode(text) if text.strip() else []
    if not ids:
        raise UserError(
            f"the {what} is empty" if not text.strip() else f"the {what} has no tokens",
            topic="inspect",
            hint=f'Give some words: --{what} "The cat sat on the mat."',
        )
    return ids


def single_row(model: Model, tokenizer: Tokenizer, ids: list[int]) -> PreparedExample:
    """The text as one row: a decoder predicts each next token, an encoder sees all of it."""
    row = [tokenizer.require("start"), *ids, tokenizer.require("stop")]
    shift = 0 if model.visibility == "bidirectional" else 1
    inputs, targets = row[: len(row) - shift], row[shift:]
    remarks = _truncation_remark("row", len(inputs), model.context, "first")
    example = _example(inputs[: model.context], targets[: model.context])
    return PreparedExample(example, remarks)


def _with_source(
    model: SourceDecoder,
    tokenizer: Tokenizer,
    ids: list[int],
    target_ids: list[int] | None,
) -> PreparedExample:
    start, stop = tokenizer.require("start"), tokenizer.require("stop")
    remarks = list(_truncation_remark("source", len(ids) + 1, model.context, "last"))
    source = [start, *ids][-model.context :]  # as in generation: the last tokens are kept
    if target_ids is None:
        targets = _generate_target(model, tokenizer, source)
        remarks.append("no target is given: this is the model's greedy generation")
    else:
        targets = [*target_ids, stop]
        remarks += _truncation_remark("target", len(targets), model.context, "first")
        targets = targets[: model.context]
    example = _example([start, *targets[:-1]], targets, source)
    return PreparedExample(example, tuple(remarks))


def _generate_target(model: SourceDecoder, tokenizer: Tokenizer, source: list[int]) -> list[int]:
    """The tokens that the model generates, with the stop token if it ends with one."""
    stop = tokenizer.require("stop")
    source_ids = torch.tensor([source])
    [generated] = generate(
        SourceBoundDecoder(model, source_ids, torch.ones_like(source_ids, dtype=torch.bool)),
        [[tokenizer.require("start")]],
        strategy=Greedy(),
        max_new_tokens=min(MAX_NEW_TOKENS, model.context),
        stop=stop,
        pad=tokenizer.padding_id,
        suppress_tokens=tuple(Vocabulary.from_tokenizer(tokenizer).specials - {stop}),
    )
    return [*generated.ids, stop] if generated.stopped else list(generated.ids)


def _example(
    inputs: Sequence[int], targets: Sequence[int], source: Sequence[int] | None = None
) -> Example:
    return Example(
        inputs=np.array(inputs, dtype=np.int64),
        targets=np.array(targets, dtype=np.int64),
        weights=np.ones(len(inputs), dtype=np.float32),
        source=None if source is None else np.array(source, dtype=np.int64),
    )


def _truncation_remark(what: str, length: int, context: int, kept: str) -> tuple[str, ...]:
    if length <= context:
        return ()
    return (
        f"the {what} has {length:,} tokens and the context is {context:,}: the {kept} are kept",
    )


@torch.inference_mode()
def _record_attention(
    model: Model, tokenizer: Tokenizer, example: Example, recorder: AttentionRecorder
) -> None:
    batch = collate([example], pad_id=tokenizer.padding_id, rows=[0])
    model.body.hidden_states(ModelInputs.of_batch(batch), recorder=recorder)


@torch.inference_mode()
def _losses(
    model: Model, tokenizer: Tokenizer, example: Example, recorder: AttentionRecorder | None = None
) -> Tensor:
    """The loss at each position, (t)."""
    batch = collate([example], pad_id=tokenizer.padding_id, rows=[0])
    return token_losses(model, batch, recorder=recorder)[0]


@torch.inference_mode()
def _masked_losses(
    model: Model, tokenizer: Tokenizer, row: TokenRow
) -> tuple[tuple[TokenLoss, ...], list[str]]:
    """Each token's loss with that token alone masked: an encoder that sees it only copies it."""
    if tokenizer.mask is None:
        return (), ["no losses: the tokenizer has no [MASK]"]
    specials = Vocabulary.from_tokenizer(tokenizer).specials
    positions = [position for position, token in enumerate(row.ids) if token not in specials]
    batch_size = max(1, BATCH_POSITIONS // len(row.ids))
    found: list[TokenLoss] = []
    for begin in range(0, len(positions), batch_size):
        chosen = positions[begin : begin + batch_size]
        masked = np.tile(np.array(row.ids, dtype=np.int64), (len(chosen), 1))
        masked[np.arange(len(chosen)), chosen] = tokenizer.mask
        batch = collate(
            [_example(ids.tolist(), row.ids) for ids in masked],
            pad_id=tokenizer.padding_id,
            rows=chosen,
        )
        losses = token_losses(model, batch)[torch.arange(len(chosen)), torch.tensor(chosen)]
        found += [TokenLoss(row.tokens[p], x) for p, x in zip(chosen, losses.tolist(), strict=True)]
    return tuple(found), ["for its loss each token is masked alone and predicted from all others"]


def _check_finite(recorder: AttentionRecorder, losses: Sequence[TokenLoss]) -> None:
    if not recorder.weights and not recorder.missing:
        raise UserError(
            "this model has no attention to inspect",
            topic="inspect",
            hint='Train one that has: a recurrent model with model.attention = "additive", '
            "or a Transformer.",
        )
    if not recorder.weights:
        raise UserError(
            f"this model's attention gives no weights ({', '.join(recorder.missing[:3])})",
            topic="inspect",
            hint="Its kind must return AttentionOutput.weights when need_weights=True.",
        )
    for name, weights in recorder.weights.items():
        if not bool(weights.isfinite().all()):
            raise UserError(
                f"the weights of {name} are not all finite",
                topic="inspect",
                hint="Look for a diverged training in the run's report.",
            )
    if not all(np.isfinite(token.loss) for token in losses):
        raise UserError(
            "the model's losses are not all finite",
            topic="inspect",
            hint="Look for a diverged training in the run's report.",
        )


def _maps(recorder: AttentionRecorder, *, has_source: bool) -> tuple[AttentionMap, ...]:
    maps = []
    for name, weights in recorder.weights.items():
        of_encoder = has_source and name.startswith("encoder.")
        across = name == RECURRENT_ATTENTION or name.endswith(".cross_attention")
        maps.append(
            AttentionMap(
                name=name,
                queries="source" if of_encoder else "row",
                keys="source" if of_encoder or (has_source and across) else "row",
                weights=weights[0].cpu().double().numpy(),
            )
        )
    return tuple(maps)


def _unknown_remarks(tokenizer: Tokenizer, row: TokenRow, source: TokenRow | None) -> list[str]:
    ids = [*row.ids, *(source.ids if source else ())]
    count = ids.count(tokenizer.unk) if tokenizer.unk is not None else 0
    if not count:
        return []
    return [f"{count:,} of {len(ids):,} tokens are unknown to the tokenizer"]


def token_row(tokenizer: Tokenizer, ids: Ints) -> TokenRow:
    """Ids with their texts."""
    return TokenRow(tuple(ids.tolist()), tuple(token_texts(tokenizer, ids)))
