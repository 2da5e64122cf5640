"""What the playground computes, in a worker: each method takes parameters and answers with JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from math import log
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.generation.decoding_setup import decodes_rows
from regard.models.architectures.source_bound_decoder import decodes_source
from regard.models.blocks.head_ablation import Head, ablate_heads, attention_layers
from regard.runs.inspection.continuation import (
    DecodedRow,
    TokenProbability,
    token_probabilities,
)
from regard.runs.inspection.head_effects import head_effects, mean_row_loss
from regard.runs.inspection.logit_lens import logit_lens
from regard.runs.inspection.token_texts import text_pieces
from regard.runs.models.loaded_model import LoadedModel
from regard.runs.samples import choose_strategy
from regard.runs.training_audit import invalid_reasons
from regard.web.playground.answers import answer_row
from regard.web.playground.drafts import Draft, Drafts, Origin, Writing
from regard.web.playground.files import make_file
from regard.web.playground.models import Key, LoadedModels

Params = Mapping[str, Any]
ALTERNATIVES = 10

_models, _drafts = LoadedModels(), Drafts()


def text(params: Params) -> dict[str, Any]:
    """The text of a chain of branches, token by token, with what the model expected."""
    key, loaded = _load(params)
    off, writing = _heads_off(params, loaded), _writing(params)
    with ablate_heads(loaded.model, off):
        draft = _write(params, key, loaded, off)
        tokens, following = token_probabilities(
            loaded.model,
            loaded.tokenizer,
            _with_stop(draft, loaded),
            strategy=writing.strategy,
            alternatives=ALTERNATIVES,
        )
    origins = (*draft.origins, "written") if draft.stopped else draft.origins
    source = draft.row.source
    return {
        "tokens": [
            {**asdict(token), "alternatives": _tables(token.alternatives), "origin": origin}
            for token, origin in zip(tokens, origins, strict=True)
        ],
        "next": [] if draft.stopped else _tables(following),
        "stopped": draft.stopped,
        "source": None if source is None else text_pieces(loaded.tokenizer, source)[1:],
        "loss": _losses(tokens, origins),
        "context": loaded.model.context,
        "layers": dict(attention_layers(loaded.model)),
        "off": [list(one) for one in off],
        "whole": _whole_model(params, key, loaded, off, draft) if off else None,
        "invalid": list(invalid_reasons(loaded.folder)),
    }


def lens(params: Params) -> dict[str, Any]:
    """What each layer would predict, over the last positions of the text."""
    key, loaded = _load(params)
    off = _heads_off(params, loaded)
    with ablate_heads(loaded.model, off):
        row = _with_stop(_write(params, key, loaded, off), loaded)
        found = logit_lens(loaded.model, loaded.tokenizer, row, positions=params["positions"])
    return asdict(found)


def heads(params: Params) -> dict[str, Any]:
    """The loss of the text, as the whole model writes it, without each head."""
    key, loaded = _load(params)
    off = _heads_off(params, loaded)
    row = _with_stop(_write(params, key, loaded, ()), loaded)
    effects = head_effects(loaded.model, row, off=off)
    return {**asdict(effects), "off": [list(one) for one in off]}


def file(params: Params) -> dict[str, Any]:
    """A view of a text as a file, in hexadecimal."""
    found = TEXT_VIEWS[params["view"]](params)
    made = make_file(params["view"], found, format=params["format"], options=params["options"])
    return {"body": made.hex()}


def answer(params: Params) -> dict[str, Any]:
    """The answer of a task's model to a row."""
    run = Path(params["folder"])
    key, loaded = _models.get(run, root=Path(params["root"]))
    return answer_row(key, loaded, run, fields=params["fields"], item=params["item"])


TEXT_VIEWS = {"text": text, "lens": lens, "heads": heads}

METHODS: dict[str, Callable[[Params], dict[str, Any]]] = {
    "playground-text": text,
    "playground-lens": lens,
    "playground-heads": heads,
    "playground-file": file,
    "playground-answer": answer,
}


def _whole_model(
    params: Params, key: Key, loaded: LoadedModel, off: Sequence[Head], ablated: Draft
) -> dict[str, Any]:
    """What all heads together write, and the loss of that one text with and without the heads."""
    whole = _write(params, key, loaded, ())
    row = _with_stop(whole, loaded)
    loss, n = mean_row_loss(loaded.model, row)
    with ablate_heads(loaded.model, off):
        loss_without, _ = mean_row_loss(loaded.model, row)
    return {
        "pieces": text_pieces(loaded.tokenizer, whole.row.ids)[1:],
        "departs_at": _departure(whole, ablated),
        "loss": loss,
        "loss_without": loss_without,
        "n": n,
    }


def _departure(whole: Draft, other: Draft) -> int | None:
    """The position of the first token that differs; None if both texts are the same."""
    pairs = zip(whole.row.ids[1:], other.row.ids[1:], strict=False)
    position = next((n for n, (one, another) in enumerate(pairs) if one != another), None)
    if position is None and (whole.row.ids, whole.stopped) != (other.row.ids, other.stopped):
        return min(len(whole.row.ids), len(other.row.ids)) - 1
    return position


def _load(params: Params) -> tuple[Key, LoadedModel]:
    key, loaded = _models.get(Path(params["folder"]), root=Path(params["root"]))
    if not (decodes_rows(loaded.model) or decodes_source(loaded.model)):
        raise UserError(f"{Path(params['folder']).name} writes no text", topic="playground")
    return key, loaded


def _writing(params: Params) -> Writing:
    names = ("beam", "temperature", "top_k", "top_p")
    strategy = choose_strategy(**{name: params[name] for name in names})
    return Writing(params["prompt"], strategy, params["max_new_tokens"], params["seed"])


def _write(params: Params, key: Key, loaded: LoadedModel, off: Sequence[Head]) -> Draft:
    branches = [(position, token) for position, token in params["branches"]]
    return _drafts.write(loaded, _writing(params), branches, key=key, off=off)


def _heads_off(params: Params, loaded: LoadedModel) -> tuple[Head, ...]:
    """The heads of a call, each given by the number of its layer and its own."""
    layers = list(attention_layers(loaded.model))
    for layer, _ in params["off"]:
        if layer >= len(layers):
            raise UserError(
                f"there is no attention layer {layer}: the model has {len(layers)}",
                topic="playground",
            )
    return tuple(Head(layers[layer], head) for layer, head in params["off"])


def _with_stop(draft: Draft, loaded: LoadedModel) -> DecodedRow:
    """The row with the stop token that ended it, which the model predicted too."""
    if not draft.stopped:
        return draft.row
    return draft.row._replace(ids=(*draft.row.ids, loaded.tokenizer.require("stop")))


def _tables(alternatives: Sequence[Any]) -> list[dict[str, Any]]:
    return [one._asdict() for one in alternatives]


def _losses(tokens: Sequence[TokenProbability], origins: Sequence[Origin]) -> dict[str, Any]:
    """Mean −log p in nats, and over how many tokens: of the prompt, and of what follows it."""
    losses: dict[str, list[float]] = {"prompt": [], "continuation": []}
    for token, origin in zip(tokens, origins, strict=True):
        if token.probability:
            part = "prompt" if origin == "prompt" else "continuation"
            losses[part].append(-log(token.probability))
    return {
        part: {"mean": sum(values) / len(values) if values else None, "n": len(values)}
        for part, values in losses.items()
    }
