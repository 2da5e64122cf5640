"""A Hugging Face model as an audit sees it: its vocabulary, mask, cache and weights by their names.

Of an encoder-decoder the decoder is looked at, while it writes from one and the same source.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.audits.forward.forward_mode import as_it_was, seeded
from regard.audits.subject import Subject, rows_of

SOURCE_PLACES = 7


def is_hugging_face(target: Any) -> bool:
    return hasattr(target, "config") and callable(getattr(target, "get_input_embeddings", None))


def hugging_face_subject(model: Any) -> Subject:
    config = model.config
    if callable(getattr(config, "get_text_config", None)):
        config = config.get_text_config()
    table = model.get_input_embeddings()
    names = [name for name, part in model.named_modules() if part is table]
    takes = inspect.signature(model.forward).parameters
    caches = "past_key_values" in takes and "use_cache" in takes
    padding = "decoder_attention_mask" if _writes_from_source(model) else "attention_mask"
    lengths = (getattr(config, name, None) for name in ("n_positions", "max_position_embeddings"))
    vocabulary = getattr(config, "vocab_size", None) or getattr(table, "num_embeddings", 0)
    subject = Subject(
        type(model).__name__,
        _run,
        model,
        vocabulary=int(vocabulary or 0),
        longest=next((int(n) for n in lengths if isinstance(n, int) and n > 0), None),
        # The table that a decoder reads may be another one: the trial run finds it.
        embedding=names[0] if names and not _writes_from_source(model) else "",
        takes_valid=padding in takes,
        run_with_weights=_with_weights if "output_attentions" in takes or caches else None,
    )
    if caches and _keeps_cache(subject):
        subject = replace(subject, run_cached=_cached)
    return subject


def _writes_from_source(model: Any) -> bool:
    if not getattr(model.config, "is_encoder_decoder", False):
        return False
    return "decoder_input_ids" in inspect.signature(model.forward).parameters


def _call(model: Any, ids: Tensor, **how: Any) -> Any:
    if not _writes_from_source(model):
        return model(input_ids=ids, **how)
    if "attention_mask" in how:
        how["decoder_attention_mask"] = how.pop("attention_mask")
    # One place more, masked, where the source would be as long as the row: its token vectors
    # could not be told from the row's own.
    length = SOURCE_PLACES + (ids.shape[1] == SOURCE_PLACES)
    source = torch.arange(length, device=ids.device).remainder(2).expand(len(ids), -1)
    valid = (torch.arange(length, device=ids.device) < SOURCE_PLACES).long().expand(len(ids), -1)
    return model(input_ids=source, attention_mask=valid, decoder_input_ids=ids, **how)


def _run(model: Any, ids: Tensor, valid: Tensor | None) -> Any:
    return _call(model, ids) if valid is None else _call(model, ids, attention_mask=valid.long())


def _with_weights(model: Any, ids: Tensor) -> Any:
    # Fused attention cannot give weights, so these models have to be switched and switched back.
    before = getattr(model.config, "_attn_implementation", None)
    switch = getattr(model, "set_attn_implementation", None)
    if before is None or before == "eager" or switch is None:
        return _call(model, ids, output_attentions=True)
    switch("eager")
    try:
        return _call(model, ids, output_attentions=True)
    finally:
        switch(before)


def _cached(model: Any, ids: Tensor, cuts: Sequence[int]) -> Tensor:
    past, outputs, name = None, [], type(model).__name__
    for begin, end in zip((0, *cuts), (*cuts, ids.shape[1]), strict=True):
        output = _call(model, ids[:, begin:end], past_key_values=past, use_cache=True)
        past = output.past_key_values
        outputs.append(rows_of(output, batch=len(ids), places=end - begin, name=name))
    return torch.cat(outputs, dim=1)


def _keeps_cache(subject: Subject) -> bool:
    ids = torch.zeros(1, 4, dtype=torch.long, device=subject.device)
    try:
        with torch.no_grad(), seeded(0), as_it_was(subject.module, training=False):
            output = _call(subject.module, ids, use_cache=True)
    except Exception:  # a model may refuse in any way; the trial run that follows says why
        return False
    return getattr(output, "past_key_values", None) is not None
