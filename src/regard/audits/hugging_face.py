"""The audit interface of Hugging Face models: vocabulary, padding mask, KV cache, weights.

Of an encoder-decoder the decoder is audited, conditioned on one fixed source.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.audits.arguments import accepted_arguments
from regard.audits.forward.forward_mode import restored_after, seeded
from regard.audits.subject import Subject, position_outputs

SOURCE_LENGTH = 7
SPECIAL = ("pad", "bos", "eos", "cls", "sep", "mask", "decoder_start")


def is_hugging_face(target: Any) -> bool:
    return hasattr(target, "config") and callable(getattr(target, "get_input_embeddings", None))


def hugging_face_subject(model: Any) -> Subject:
    config = model.config
    if callable(getattr(config, "get_text_config", None)):
        config = config.get_text_config()
    table = model.get_input_embeddings()
    names = [name for name, module in model.named_modules() if module is table]
    arguments = inspect.signature(model.forward).parameters
    caches = "past_key_values" in arguments and "use_cache" in arguments
    padding = "decoder_attention_mask" if _is_encoder_decoder(model) else "attention_mask"
    lengths = (getattr(config, name, None) for name in ("n_positions", "max_position_embeddings"))
    vocabulary = getattr(config, "vocab_size", None) or getattr(table, "num_embeddings", 0)
    subject = Subject(
        type(model).__name__,
        _run,
        model,
        vocabulary=int(vocabulary or 0),
        max_length=next((int(n) for n in lengths if isinstance(n, int) and n > 0), None),
        # A decoder may have another embedding: the trial run finds it.
        embedding=names[0] if names and not _is_encoder_decoder(model) else "",
        accepts_padding_mask=padding in arguments,
        special_ids=_special_ids(config, int(vocabulary or 0)),
        run_with_weights=_run_with_weights if "output_attentions" in arguments or caches else None,
    )
    if not _is_encoder_decoder(model):
        taken = accepted_arguments(model)
        subject = replace(subject, arguments=taken, run_with_arguments=_run_with_arguments)
    if caches and _returns_cache(subject):
        subject = replace(subject, run_cached=_run_cached)
    return subject


def _special_ids(config: Any, vocabulary: int) -> tuple[int, ...]:
    """Those that the config names; none where it names none."""
    ids = {getattr(config, f"{role}_token_id", None) for role in SPECIAL}
    return tuple(sorted(i for i in ids if isinstance(i, int) and 0 <= i < vocabulary))


def _is_encoder_decoder(model: Any) -> bool:
    if not getattr(model.config, "is_encoder_decoder", False):
        return False
    return "decoder_input_ids" in inspect.signature(model.forward).parameters


def _call(model: Any, ids: Tensor, **arguments: Any) -> Any:
    if not _is_encoder_decoder(model):
        return model(input_ids=ids, **arguments)
    if "attention_mask" in arguments:
        arguments["decoder_attention_mask"] = arguments.pop("attention_mask")
    # One masked position more where source and row would be equally long: gradients at a shared
    # embedding are assigned by length.
    length = SOURCE_LENGTH + (ids.shape[1] == SOURCE_LENGTH)
    source = torch.arange(length, device=ids.device).remainder(2).expand(len(ids), -1)
    valid = (torch.arange(length, device=ids.device) < SOURCE_LENGTH).long().expand(len(ids), -1)
    return model(input_ids=source, attention_mask=valid, decoder_input_ids=ids, **arguments)


def _run(model: Any, ids: Tensor, valid: Tensor | None) -> Any:
    return _call(model, ids) if valid is None else _call(model, ids, attention_mask=valid.long())


def _run_with_arguments(model: Any, ids: Tensor, arguments: Mapping[str, Tensor]) -> Any:
    return _call(model, ids, **arguments)


def _run_with_weights(model: Any, ids: Tensor) -> Any:
    # Fused attention returns no weights: switch to eager attention, and back.
    before = getattr(model.config, "_attn_implementation", None)
    switch = getattr(model, "set_attn_implementation", None)
    if before is None or before == "eager" or switch is None:
        return _call(model, ids, output_attentions=True)
    switch("eager")
    try:
        return _call(model, ids, output_attentions=True)
    finally:
        switch(before)


def _run_cached(model: Any, ids: Tensor, cuts: Sequence[int]) -> Tensor:
    past, outputs, name = None, [], type(model).__name__
    for begin, end in zip((0, *cuts), (*cuts, ids.shape[1]), strict=True):
        output = _call(model, ids[:, begin:end], past_key_values=past, use_cache=True)
        past = output.past_key_values
        outputs.append(position_outputs(output, batch=len(ids), length=end - begin, name=name))
    return torch.cat(outputs, dim=1)


def _returns_cache(subject: Subject) -> bool:
    ids = torch.zeros(1, 4, dtype=torch.long, device=subject.device)
    try:
        with torch.no_grad(), seeded(0), restored_after(subject.module, training=False):
            output = _call(subject.module, ids, use_cache=True)
    except Exception:  # a model may raise anything; the trial run that follows reports it
        return False
    return getattr(output, "past_key_values", None) is not None
