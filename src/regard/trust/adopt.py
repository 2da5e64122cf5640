"""From whatever a person hands over to a `Subject`: a Hugging Face model, a module, a callable.

Vocabulary, output and abilities are found by asking the object and by one trial run; where that is
not enough the person is asked for a sample.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.trust.subject import Subject, rows_of
from regard.trust.view import as_it_was, first_line, seeded

TRIAL_LENGTHS = (12, 16, 8, 32, 64, 10, 100, 128, 4)
UNKNOWN = 2
"Two ids every vocabulary has: what a trial run uses while the vocabulary is not known."


def subject_of(target: Any, sample: Tensor | None = None) -> Subject:
    """What an audit needs to know of `target`.

    `sample` is token ids (b,t) or vectors (b,t,w) that it takes; the largest id tells of the
    vocabulary where nothing else does.
    """
    if isinstance(target, Subject):
        return target if sample is None else _sampled(target, sample)
    if callable(own := getattr(target, "audit_subject", None)):
        subject = own()
        assert isinstance(subject, Subject)
        return subject if sample is None else _sampled(subject, sample)
    if _is_hugging_face(target):
        subject = _hugging_face(target)
    elif isinstance(target, nn.Module):
        subject = _plain(target, lambda module, inputs, valid: module(inputs), _name(target))
    elif isinstance(owner := getattr(target, "__self__", None), nn.Module):
        # A bound method: its own module can be copied and put into another mode.
        function = target.__func__
        subject = _plain(owner, lambda module, x, valid: function(module, x), target.__qualname__)
    elif callable(target):
        subject = _plain(None, lambda module, inputs, valid: target(inputs), _name(target))
    else:
        raise UserError(
            f"a {type(target).__name__} cannot be audited",
            topic="audit",
            mend="Give a module, or a function from token ids (b,t) to outputs (b,t,…).",
        )
    return _tried(subject if sample is None else _sampled(subject, sample))


def _name(target: Any) -> str:
    return getattr(target, "__qualname__", None) or type(target).__name__


def _sampled(subject: Subject, sample: Tensor) -> Subject:
    """The subject, with the person's inputs."""
    sample = sample.detach()
    if sample.is_floating_point():
        if sample.dim() != 3:
            what = f"a sample of vectors has shape {tuple(sample.shape)}"
            raise UserError(what, topic="audit", mend="Give vectors as (b,t,w).")
        return replace(subject, sample=sample, width=sample.shape[2], vocabulary=0, embedding="")
    if sample.dim() != 2 or bool((sample < 0).any()):
        what = f"a sample of ids has shape {tuple(sample.shape)}, least id {int(sample.min())}"
        raise UserError(what, topic="audit", mend="Give ids as (b,t), none below 0.")
    known = subject.vocabulary if subject.vocabulary != UNKNOWN else 0
    return replace(
        subject, sample=sample, vocabulary=known or max(2, int(sample.max()) + 1), width=0
    )


def _plain(
    module: nn.Module | None, run: Callable[[Any, Tensor, Tensor | None], Any], name: str
) -> Subject:
    return Subject(name, run, module, vocabulary=UNKNOWN)


def _tried(subject: Subject) -> Subject:
    """The subject after a trial run, with the vocabulary and embedding that the run showed."""
    given = subject.sample
    lengths = TRIAL_LENGTHS if given is None else (given.shape[1],)
    problem: Exception | None = None
    for length in lengths:
        if subject.longest is not None and length > subject.longest:
            continue
        if given is not None:
            inputs = given.to(subject.device)
        else:
            inputs = subject.draw(2, length, torch.Generator().manual_seed(0))
        try:
            output, embedding = _trial(subject, inputs)
        except UserError:
            raise
        except Exception as raised:  # whatever a model may raise: it is the person's to read
            problem = problem or raised
            continue
        rows_of(output, batch=len(inputs), places=length, name=subject.name)
        found = _found(subject, embedding)
        if given is None and length != TRIAL_LENGTHS[0]:
            found = replace(found, sample=inputs)
        return found
    says = "it takes no length" if problem is None else first_line(problem)
    raise UserError(
        f"it did not run on {'the sample' if given is not None else 'token ids (b,t)'}: {says}",
        topic="audit",
        where=subject.name,
        mend="Give a sample it takes, ids (b,t) or vectors (b,t,w), or a function around it.",
    ) from problem


def _trial(subject: Subject, inputs: Tensor) -> tuple[Any, tuple[str, nn.Embedding] | None]:
    """One run, and the first embedding that was given the very ids."""
    seen: list[tuple[str, nn.Embedding]] = []
    hooks = []
    if subject.module is not None and subject.vocabulary:
        for name, part in subject.module.named_modules():
            if isinstance(part, nn.Embedding):

                def hook(
                    part: nn.Module, args: tuple[Any, ...], output: Any, name: str = name
                ) -> None:
                    ids = args[0] if args else None
                    if isinstance(ids, Tensor) and torch.equal(ids, inputs):
                        assert isinstance(part, nn.Embedding)
                        seen.append((name, part))

                hooks.append(part.register_forward_hook(hook))
    try:
        with torch.no_grad(), seeded(0), as_it_was(subject.module, training=False):
            output = subject.run(subject.module, inputs, None)
    finally:
        for handle in hooks:
            handle.remove()
    return output, (seen[0] if seen else None)


def _found(subject: Subject, embedding: tuple[str, nn.Embedding] | None) -> Subject:
    if not subject.vocabulary or subject.embedding:
        return subject
    if embedding is not None:
        name, table = embedding
        return replace(subject, embedding=name, vocabulary=table.num_embeddings)
    if subject.sample is None:
        raise UserError(
            "its vocabulary is not known: no nn.Embedding is given the ids",
            topic="audit",
            where=subject.name,
            mend="Give a sample: token ids (b,t), or vectors (b,t,w) where it reads vectors.",
        )
    return subject


def _is_hugging_face(target: Any) -> bool:
    return hasattr(target, "config") and callable(getattr(target, "get_input_embeddings", None))


def _hugging_face(model: Any) -> Subject:
    config = (
        model.config.get_text_config() if _has(model.config, "get_text_config") else model.config
    )
    table = model.get_input_embeddings()
    names = [name for name, part in model.named_modules() if part is table]
    takes = inspect.signature(model.forward).parameters
    caches = "past_key_values" in takes and "use_cache" in takes
    lengths = (getattr(config, name, None) for name in ("n_positions", "max_position_embeddings"))
    vocabulary = getattr(config, "vocab_size", None) or getattr(table, "num_embeddings", 0)
    subject = Subject(
        _name(model),
        _hugging_face_run if "attention_mask" in takes else _hugging_face_bare,
        model,
        vocabulary=int(vocabulary or 0),
        longest=next((int(n) for n in lengths if isinstance(n, int) and n > 0), None),
        embedding=names[0] if names else "",
        takes_valid="attention_mask" in takes,
        run_with_weights=_hugging_face_weights if "output_attentions" in takes or caches else None,
    )
    if caches and _keeps_cache(subject):
        subject = replace(subject, run_cached=_hugging_face_cached)
    return subject


def _has(thing: Any, method: str) -> bool:
    return callable(getattr(thing, method, None))


def _hugging_face_run(model: Any, ids: Tensor, valid: Tensor | None) -> Any:
    return model(input_ids=ids, attention_mask=None if valid is None else valid.long())


def _hugging_face_bare(model: Any, ids: Tensor, valid: Tensor | None) -> Any:
    return model(input_ids=ids)


def _hugging_face_weights(model: Any, ids: Tensor) -> Any:
    # Fused attention cannot give weights, so these models have to be switched and switched back.
    before = getattr(model.config, "_attn_implementation", None)
    switch = getattr(model, "set_attn_implementation", None)
    if before is None or before == "eager" or switch is None:
        return model(input_ids=ids, output_attentions=True)
    switch("eager")
    try:
        return model(input_ids=ids, output_attentions=True)
    finally:
        switch(before)


def _hugging_face_cached(model: Any, ids: Tensor, cuts: Sequence[int]) -> Tensor:
    past, outputs = None, []
    for begin, end in zip((0, *cuts), (*cuts, ids.shape[1]), strict=True):
        piece = ids[:, begin:end]
        output = model(input_ids=piece, past_key_values=past, use_cache=True)
        past = output.past_key_values
        outputs.append(rows_of(output, batch=len(ids), places=end - begin, name=_name(model)))
    return torch.cat(outputs, dim=1)


def _keeps_cache(subject: Subject) -> bool:
    ids = torch.zeros(1, 4, dtype=torch.long, device=subject.device)
    try:
        with torch.no_grad(), seeded(0), as_it_was(subject.module, training=False):
            output = subject.module(input_ids=ids, use_cache=True)  # type: ignore[misc]
    except Exception:  # a model may refuse in any way; the trial run that follows says why
        return False
    return getattr(output, "past_key_values", None) is not None
