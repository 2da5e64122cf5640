"""From whatever a person hands over to a `Subject`: a Hugging Face model, a module, a callable.

Vocabulary, output and abilities are found by asking the object and by one trial run; where that is
not enough the person is asked for a sample.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.audits.forward.forward_mode import as_it_was, first_line, seeded
from regard.audits.hugging_face import hugging_face_subject, is_hugging_face
from regard.audits.subject import Subject, rows_of
from regard.core.cpu import bf16_products_work
from regard.core.errors import UserError

TRIAL_LENGTHS = (12, 16, 8, 32, 64, 10, 100, 128, 4, 3, 2)
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
    if is_hugging_face(target):
        subject = hugging_face_subject(target)
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
            hint="Give a module, or a function from token ids (b,t) to outputs (b,t,…).",
        )
    _refuse_products_that_crash(subject.module)
    return _tried(subject if sample is None else _sampled(subject, sample))


def _refuse_products_that_crash(module: nn.Module | None) -> None:
    """Before anything is run: an illegal instruction would end the whole process."""
    dtypes = {(p.device.type, p.dtype) for p in module.parameters()} if module else set()
    if ("cpu", torch.bfloat16) in dtypes and not bf16_products_work():
        raise UserError(
            "the model's parameters are bfloat16, whose products crash on this CPU",
            topic="audit",
            hint="Audit it in float32: model.float().",
        )


def known_vocabulary(target: Any) -> int:
    """How many token ids it has, as far as it shows itself; 0 where a person has to say."""
    try:
        subject = subject_of(target)
    except UserError:  # it shows nothing of it: the very case that a sample is for
        return 0
    return subject.vocabulary


def _name(target: Any) -> str:
    return getattr(target, "__qualname__", None) or type(target).__name__


def _sampled(subject: Subject, sample: Tensor) -> Subject:
    """The subject, with the person's inputs."""
    sample = sample.detach()
    if sample.is_floating_point():
        if sample.dim() != 3:
            what = f"a sample of vectors has shape {tuple(sample.shape)}"
            raise UserError(what, topic="audit", hint="Give vectors as (b,t,w).")
        return replace(subject, sample=sample, width=sample.shape[2], vocabulary=0, embedding="")
    if sample.dim() != 2 or bool((sample < 0).any()):
        what = f"a sample of ids has shape {tuple(sample.shape)}, least id {int(sample.min())}"
        raise UserError(what, topic="audit", hint="Give ids as (b,t), none below 0.")
    known = 0 if subject.vocabulary == UNKNOWN and not subject.embedding else subject.vocabulary
    if known:
        _refuse_other_ids(sample, known, subject.name)
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
    problem: BaseException | None = None
    for length in lengths:
        if subject.longest is not None and length > subject.longest:
            continue
        if given is not None:
            inputs = given.to(subject.device)
        else:
            inputs = subject.draw(2, length, torch.Generator().manual_seed(0))
        tables: list[tuple[str, nn.Embedding]] = []
        try:
            output = _trial(subject, inputs, tables)
        except (Exception, SystemExit) as raised:  # a model may raise anything: it is told
            for _, table in tables:
                _refuse_other_ids(inputs, table.num_embeddings, subject.name)
            problem = problem or raised
            continue
        rows_of(output, batch=len(inputs), places=length, name=subject.name)
        found = _found(subject, tables)
        if given is None and length != TRIAL_LENGTHS[0]:
            found = replace(found, sample=inputs)
        return found
    says = "it takes no length" if problem is None else first_line(problem)
    raise UserError(
        f"it did not run on {'the sample' if given is not None else 'token ids (b,t)'}: {says}",
        topic="audit",
        where=subject.name,
        hint="Give a sample it takes, ids (b,t) or vectors (b,t,w), or a function around it.",
    ) from problem


def _refuse_other_ids(sample: Tensor, vocabulary: int, name: str) -> None:
    if int(sample.max()) >= vocabulary:
        raise UserError(
            f"the sample's id {int(sample.max())} is out of range: its vocabulary has "
            f"{vocabulary} ids",
            topic="audit",
            where=name,
            hint=f"Give ids from 0 to {vocabulary - 1}.",
        )


def _trial(subject: Subject, inputs: Tensor, tables: list[tuple[str, nn.Embedding]]) -> Any:
    """One run; `tables` gets the embeddings that were given the very ids, in their order."""
    hooks = []
    if subject.module is not None and subject.vocabulary:
        for name, part in subject.module.named_modules():
            if isinstance(part, nn.Embedding):

                def hook(part: nn.Module, args: tuple[Any, ...], name: str = name) -> None:
                    ids = args[0] if args else None
                    if isinstance(ids, Tensor) and torch.equal(ids, inputs):
                        assert isinstance(part, nn.Embedding)
                        tables.append((name, part))

                hooks.append(part.register_forward_pre_hook(hook))
    try:
        with torch.no_grad(), seeded(0), as_it_was(subject.module, training=False):
            return subject.run(subject.module, inputs, None)
    finally:
        for handle in hooks:
            handle.remove()


def _found(subject: Subject, tables: list[tuple[str, nn.Embedding]]) -> Subject:
    if not subject.vocabulary or subject.embedding:
        return subject
    if tables:
        name, table = tables[0]
        return replace(subject, embedding=name, vocabulary=table.num_embeddings)
    if subject.sample is None and subject.vocabulary == UNKNOWN:
        raise UserError(
            "its vocabulary is not known: no nn.Embedding is given the ids",
            topic="audit",
            where=subject.name,
            hint="Give a sample: token ids (b,t), or vectors (b,t,w) where it reads vectors.",
        )
    return subject
