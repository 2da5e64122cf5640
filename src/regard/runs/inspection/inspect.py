"""Look into a model with one text: what it attends to, and how well it tells each token.

A decoder reads the text and tells each next token. An encoder reads it whole; for the losses each
token is then hidden alone and told from all others (Salazar et al., 2020). A model with a source
reads the text as its source and tells a target: what it would write itself, where none is given.
Shapes: t place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from regard.batch import Example, Ints, collate
from regard.core.errors import UserError
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.generation.generate import Greedy, generate
from regard.models.architectures.encoder_decoder_model import EncoderDecoderModel
from regard.models.architectures.encoder_model import EncoderModel
from regard.models.architectures.recurrent_model import RecurrentModel
from regard.models.blocks.attention_recorder import AttentionRecorder
from regard.models.model import Model
from regard.objectives import Vocabulary
from regard.runs.inspection.inspection import AttentionMap, Inspection, TokenLoss, TokenRow
from regard.runs.models.loaded_model import LoadedModel
from regard.runs.training_audit import reasons_against

MOST_WRITTEN = 60
"Tokens of a target that the model writes itself."
PLACES_AT_ONCE = 2048
OF_RECURRENT = "attention"
"A recurrent model's only one, from target to source."

Writer: TypeAlias = EncoderDecoderModel | RecurrentModel


def inspect_model(loaded: LoadedModel, text: str, *, target: str | None = None) -> Inspection:
    """What a loaded model attends to in a text, with what its run's audit says against it."""
    seen = inspect_text(loaded.model, loaded.tokenizer, text, target=target)
    return replace(seen, invalid=reasons_against(loaded.folder))


def inspect_text(
    model: Model, tokenizer: Tokenizer, text: str, *, target: str | None = None
) -> Inspection:
    """Read `text` once and keep every attention's weights; `target` is for models with a source."""
    model.eval()
    ids = _encoded(tokenizer, text, "text")
    if isinstance(model, Writer):
        wanted = None if target is None else _encoded(tokenizer, target, "target")
        passage = _with_source(model, tokenizer, ids, wanted)
    elif target is not None:
        raise UserError(
            "a target is given, and this model reads one text alone",
            topic="inspect",
            hint="Leave --target out: it is for models that write from a source.",
        )
    else:
        passage = _alone(model, tokenizer, ids)
    recorder = AttentionRecorder()
    losses = _passed(model, tokenizer, passage.example, recorder)
    row, source = _row(tokenizer, passage.example.inputs), None
    if passage.example.source is not None:
        source = _row(tokenizer, passage.example.source)
    if isinstance(model, EncoderModel):
        told, remarks = _told_when_hidden(model, tokenizer, row)
    else:
        spelled = _spelled(tokenizer, passage.example.targets)
        told, remarks = tuple(map(TokenLoss, spelled, losses.tolist())), []
    _check_numbers(recorder, told)
    return Inspection(
        text=text,
        row=row,
        source=source,
        losses=told,
        maps=_maps(recorder, row, source),
        remarks=(
            *passage.remarks,
            *remarks,
            *_unknown(tokenizer, row, source),
            *(f"{name} has no weights to show: its kind makes none" for name in recorder.missing),
        ),
    )


@dataclass(frozen=True)
class _Passage:
    example: Example
    remarks: tuple[str, ...] = ()


def _encoded(tokenizer: Tokenizer, text: str, what: str) -> list[int]:
    if text != text.encode(errors="replace").decode():
        raise UserError(f"the {what} is not valid UTF-8", topic="inspect", hint="Type it anew.")
    ids = tokenizer.encode(text) if text.strip() else []
    if not ids:
        raise UserError(
            f"the {what} is empty" if not text.strip() else f"the {what} has no tokens",
            topic="inspect",
            hint=f'Give some words: --{what} "The cat sat on the mat."',
        )
    return ids


def _alone(model: Model, tokenizer: Tokenizer, ids: list[int]) -> _Passage:
    """A row of its own: a decoder tells what follows each place, an encoder reads it whole."""
    row = [tokenizer.require("start"), *ids, tokenizer.require("stop")]
    shift = 0 if isinstance(model, EncoderModel) else 1
    inputs, targets = row[: len(row) - shift], row[shift:]
    remarks = _cut_remark("row", len(inputs), model.context, "first")
    return _Passage(_example(inputs[: model.context], targets[: model.context]), remarks)


def _with_source(
    model: Writer,
    tokenizer: Tokenizer,
    ids: list[int],
    wanted: list[int] | None,
) -> _Passage:
    start, stop = tokenizer.require("start"), tokenizer.require("stop")
    remarks = list(_cut_remark("source", len(ids) + 1, model.context, "last"))
    source = [start, *ids][-model.context :]  # as generation does: what stands nearest counts most
    if wanted is None:
        targets = _written(model, tokenizer, source)
        remarks.append("no target is given: this is what the model writes, the likeliest each time")
    else:
        targets = [*wanted, stop]
        remarks += _cut_remark("target", len(targets), model.context, "first")
        targets = targets[: model.context]
    return _Passage(_example([start, *targets[:-1]], targets, source), tuple(remarks))


def _written(model: Writer, tokenizer: Tokenizer, source: list[int]) -> list[int]:
    """The tokens that the model writes, its stop among them where it comes to one."""
    stop = tokenizer.require("stop")
    given = torch.tensor([source])
    [written] = generate(
        model.bind_source(given, torch.ones_like(given, dtype=torch.bool)),
        [[tokenizer.require("start")]],
        strategy=Greedy(),
        max_new_tokens=min(MOST_WRITTEN, model.context),
        stop=stop,
        pad=tokenizer.padding_id,
        suppress_tokens=tuple(Vocabulary.from_tokenizer(tokenizer).specials - {stop}),
    )
    return [*written.ids, stop] if written.stopped else list(written.ids)


def _example(
    inputs: Sequence[int], targets: Sequence[int], source: Sequence[int] | None = None
) -> Example:
    return Example(
        inputs=np.array(inputs, dtype=np.int64),
        targets=np.array(targets, dtype=np.int64),
        weights=np.ones(len(inputs), dtype=np.float32),
        source=None if source is None else np.array(source, dtype=np.int64),
    )


def _cut_remark(what: str, length: int, context: int, kept: str) -> tuple[str, ...]:
    if length <= context:
        return ()
    return (
        f"the {what} has {length:,} tokens and the model sees {context:,}: the {kept} are read",
    )


@torch.inference_mode()
def _passed(
    model: Model, tokenizer: Tokenizer, example: Example, recorder: AttentionRecorder | None = None
) -> Tensor:
    """The loss at each place, (t)."""
    batch = collate([example], pad_id=tokenizer.padding_id, rows=[0])
    return model.losses(batch, recorder=recorder)[0]


@torch.inference_mode()
def _told_when_hidden(
    model: Model, tokenizer: Tokenizer, row: TokenRow
) -> tuple[tuple[TokenLoss, ...], list[str]]:
    """Each token's loss where it alone is hidden: an encoder that sees a token need not tell it."""
    if tokenizer.mask is None:
        return (), ["no losses: the tokenizer has no [MASK] to hide tokens with"]
    specials = Vocabulary.from_tokenizer(tokenizer).specials
    places = [place for place, one in enumerate(row.ids) if one not in specials]
    together = max(1, PLACES_AT_ONCE // len(row.ids))
    told: list[TokenLoss] = []
    for begin in range(0, len(places), together):
        chosen = places[begin : begin + together]
        hidden = np.tile(np.array(row.ids, dtype=np.int64), (len(chosen), 1))
        hidden[np.arange(len(chosen)), chosen] = tokenizer.mask
        batch = collate(
            [_example(one.tolist(), row.ids) for one in hidden],
            pad_id=tokenizer.padding_id,
            rows=chosen,
        )
        losses = model.losses(batch)[torch.arange(len(chosen)), torch.tensor(chosen)]
        told += [TokenLoss(row.tokens[p], x) for p, x in zip(chosen, losses.tolist(), strict=True)]
    return tuple(told), ["for its loss each token is hidden alone and told from all others"]


def _check_numbers(recorder: AttentionRecorder, told: Sequence[TokenLoss]) -> None:
    if not recorder.weights and not recorder.missing:
        raise UserError(
            "this model has no attention to look at",
            topic="inspect",
            hint='Train one that has: a recurrent model with model.attention = "additive", '
            "or a Transformer.",
        )
    if not recorder.weights:
        raise UserError(
            f"this model's attention gives no weights ({', '.join(recorder.missing[:3])})",
            topic="inspect",
            hint="Its kind has to give Attended.weights when asked with want_weights=True.",
        )
    for name, weights in recorder.weights.items():
        if not bool(weights.isfinite().all()):
            raise UserError(
                f"the weights of {name} are not all numbers",
                topic="inspect",
                hint="Look for a diverged training in the run's report.",
            )
    if not all(np.isfinite(one.loss) for one in told):
        raise UserError(
            "the model's losses are not all numbers",
            topic="inspect",
            hint="Look for a diverged training in the run's report.",
        )


def _maps(
    recorder: AttentionRecorder, row: TokenRow, source: TokenRow | None
) -> tuple[AttentionMap, ...]:
    maps = []
    for name, weights in recorder.weights.items():
        queries, keys = row, row
        if source is not None and name.startswith("encoder."):
            queries, keys = source, source
        elif source is not None and (name == OF_RECURRENT or name.endswith(".cross_attention")):
            keys = source
        maps.append(AttentionMap(name, queries, keys, weights[0].double().cpu().numpy()))
    return tuple(maps)


def _unknown(tokenizer: Tokenizer, row: TokenRow, source: TokenRow | None) -> list[str]:
    ids = [*row.ids, *(source.ids if source else ())]
    count = ids.count(tokenizer.unk) if tokenizer.unk is not None else 0
    if not count:
        return []
    return [f"{count:,} of {len(ids):,} tokens are unknown to the tokenizer"]


def _row(tokenizer: Tokenizer, ids: Ints) -> TokenRow:
    return TokenRow(tuple(ids.tolist()), tuple(_spelled(tokenizer, ids)))


def _spelled(tokenizer: Tokenizer, ids: Ints) -> list[str]:
    """Each piece on its own, as text where it is text; a dot stands for a space."""
    spelled = []
    for one, piece in zip(ids.tolist(), tokenizer.tokens(ids), strict=True):
        alone = tokenizer.decode([one])
        if piece.startswith("▁") and not alone.startswith("▁"):  # how some spell a space
            alone = f" {alone.lstrip()}"
        elif not alone or "\ufffd" in alone:  # a special, or bytes that are half a character
            alone = piece
        spelled.append(alone.replace(" ", "·"))
    return spelled
