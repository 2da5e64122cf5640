"""Build a `Subject` from a Hugging Face model, a module or a callable.

Vocabulary, outputs and capabilities come from the object's attributes and one trial run; where
those are not enough, the user has to give a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.audits.arguments import (
    MASK,
    MASK_DTYPES,
    TRUE_VALUES,
    accepted_arguments,
    call_with_arguments,
    other_arguments,
    required_arguments,
)
from regard.audits.forward.forward_mode import error_summary, restored_after, seeded
from regard.audits.hugging_face import hugging_face_subject, is_hugging_face
from regard.audits.subject import Subject, output_tensors, position_outputs
from regard.core.errors import UserError
from regard.core.process.cpu import bf16_matmul_works

TRIAL_LENGTHS = (12, 16, 8, 32, 64, 10, 100, 128, 4, 3, 2)
UNKNOWN_VOCABULARY = 2
"Ids 0 and 1 are in every vocabulary: a trial run uses them while its size is not known."


def build_subject(target: Any, sample: Tensor | None = None) -> Subject:
    """The audit interface of `target`.

    `sample` is token ids (b,t) or embeddings (b,t,w) that it accepts; where nothing else says the
    vocabulary size, it is taken from the largest id.
    """
    if isinstance(target, Subject):
        return target if sample is None else _with_sample(target, sample)
    if callable(own := getattr(target, "audit_subject", None)):
        subject = own()
        assert isinstance(subject, Subject)
        return subject if sample is None else _with_sample(subject, sample)
    if is_hugging_face(target):
        subject = hugging_face_subject(target)
    elif isinstance(target, nn.Module):
        subject = _foreign_module(target)
    elif isinstance(owner := getattr(target, "__self__", None), nn.Module):
        # A bound method: its module can be copied and switched between modes.
        function = target.__func__
        subject = _plain(owner, lambda module, x, valid: function(module, x), target.__qualname__)
    elif callable(target):
        subject = _plain(None, lambda module, inputs, valid: target(inputs), _name(target))
    else:
        raise UserError(
            f"an object of type {type(target).__name__} cannot be audited",
            topic="audit",
            hint="Give a module, or a function from token ids (b,t) to outputs (b,t,…).",
        )
    _refuse_bf16_crash(subject.module)
    return _after_trial_run(subject if sample is None else _with_sample(subject, sample))


def _refuse_bf16_crash(module: nn.Module | None) -> None:
    """Before anything runs: an illegal instruction would kill the process."""
    dtypes = {(p.device.type, p.dtype) for p in module.parameters()} if module else set()
    if ("cpu", torch.bfloat16) in dtypes and not bf16_matmul_works():
        raise UserError(
            "the model's parameters are bfloat16, whose matmul crashes on this CPU",
            topic="audit",
            hint="Audit it in float32: model.float().",
        )


def known_vocabulary(target: Any) -> int:
    """Vocabulary size, as far as the object shows it; 0 where the user has to give it."""
    try:
        subject = build_subject(target)
    except UserError:  # nothing shows it: the case that a sample is for
        return 0
    return subject.vocabulary


def _name(target: Any) -> str:
    return getattr(target, "__qualname__", None) or type(target).__name__


def _with_sample(subject: Subject, sample: Tensor) -> Subject:
    """The subject, with the user's inputs."""
    sample = sample.detach()
    if sample.is_floating_point():
        if sample.dim() != 3:
            what = f"a sample of embeddings has shape {tuple(sample.shape)}"
            raise UserError(what, topic="audit", hint="Give embeddings as (b,t,w).")
        return replace(subject, sample=sample, width=sample.shape[2], vocabulary=0, embedding="")
    if sample.dim() != 2 or bool((sample < 0).any()):
        what = f"a sample of ids has shape {tuple(sample.shape)}, smallest id {int(sample.min())}"
        raise UserError(what, topic="audit", hint="Give ids as (b,t), none below 0.")
    unknown = subject.vocabulary == UNKNOWN_VOCABULARY and not subject.embedding
    vocabulary = 0 if unknown else subject.vocabulary
    if vocabulary:
        _refuse_ids_out_of_range(sample, vocabulary, subject.name)
    return replace(
        subject, sample=sample, vocabulary=vocabulary or max(2, int(sample.max()) + 1), width=0
    )


def _plain(
    module: nn.Module | None, run: Callable[[Any, Tensor, Tensor | None], Any], name: str
) -> Subject:
    return Subject(name, run, module, vocabulary=UNKNOWN_VOCABULARY)


def _foreign_module(module: nn.Module) -> Subject:
    """A module, with those arguments of its forward that an audit knows how to fill."""
    subject = _plain(module, lambda module, inputs, valid: module(inputs), _name(module))
    if others := other_arguments(module):
        sentence = f"arguments of its forward that keep their defaults: {', '.join(others)}"
        subject = replace(subject, untested=(sentence,))
    return _with_mask_of(subject, torch.long) if accepted_arguments(module) else subject


def _with_mask_of(subject: Subject, dtype: torch.dtype) -> Subject:
    """The subject, run with the arguments it takes and an attention mask of this dtype."""

    def run_with(module: Any, inputs: Tensor, given: Mapping[str, Tensor]) -> Any:
        return call_with_arguments(module, inputs, given, mask_dtype=dtype)

    def run(module: Any, inputs: Tensor, valid: Tensor | None) -> Any:
        return run_with(module, inputs, {} if valid is None else {MASK: valid})

    return replace(subject, run=run, run_with_arguments=run_with)


def _with_arguments(subject: Subject, inputs: Tensor) -> Subject:
    """The subject, with the arguments it ran with and those it refused."""
    module = subject.module
    if module is None or subject.run_with_arguments is None or subject.arguments:
        return subject
    taken, refused = [], []
    for name in accepted_arguments(module):
        dtypes = MASK_DTYPES if name == MASK else (torch.long,)
        problems = []
        for dtype in dtypes:
            tried = _with_mask_of(subject, dtype) if name == MASK else subject
            run_with = tried.run_with_arguments
            assert run_with is not None
            given = {name: TRUE_VALUES[name](inputs)}
            try:
                with torch.no_grad(), seeded(0), restored_after(module, training=False):
                    run_with(module, inputs.clone(), given)
            except (Exception, SystemExit) as problem:  # a model may raise anything
                problems.append(error_summary(problem))
                continue
            subject = tried
            taken.append(name)
            break
        if len(problems) == len(dtypes):
            refused.append(f"{name}: it is taken, but not as (b,t): {problems[0]}")
    return replace(
        subject,
        arguments=tuple(taken),
        refused_arguments=tuple(refused),
        accepts_padding_mask=MASK in taken,
    )


def _after_trial_run(subject: Subject) -> Subject:
    """The subject, with the vocabulary and embedding that a trial run showed."""
    sample = subject.sample
    lengths = TRIAL_LENGTHS if sample is None else (sample.shape[1],)
    problem: BaseException | None = None
    for length in lengths:
        if subject.max_length is not None and length > subject.max_length:
            continue
        if sample is not None:
            inputs = sample.to(subject.device)
        else:
            inputs = subject.draw(2, length, torch.Generator().manual_seed(0))
        tables: list[tuple[str, nn.Embedding]] = []
        try:
            subject, output = _first_that_runs(subject, inputs, tables)
        except (Exception, SystemExit) as raised:  # a model may raise anything: it is reported
            for _, table in tables:
                _refuse_ids_out_of_range(inputs, table.num_embeddings, subject.name)
            problem = problem or raised
            continue
        position_outputs(output, batch=len(inputs), length=length, name=subject.name)
        found = _with_arguments(_with_embedding(subject, tables), inputs)
        if count := _other_outputs(subject, output, inputs):
            sentence = f"outputs beside the first: {count} that have a value at each position"
            found = replace(found, untested=(*found.untested, sentence))
        if sample is None and length != TRIAL_LENGTHS[0]:
            found = replace(found, sample=inputs)
        return found
    reason = "it accepts no length" if problem is None else error_summary(problem)
    raise UserError(
        f"it did not run on {'the sample' if sample is not None else 'token ids (b,t)'}: {reason}",
        topic="audit",
        where=subject.name,
        hint="Give a sample it accepts, ids (b,t) or embeddings (b,t,w), or a function around it.",
    ) from problem


def _other_outputs(subject: Subject, output: Any, inputs: Tensor) -> int:
    if is_hugging_face(subject.module):
        return 0  # attention weights, caches and hidden states beside the logits
    shape = inputs.shape[:2]
    return max(0, sum(one.shape[:2] == shape for one in output_tensors(output)) - 1)


def _first_that_runs(
    subject: Subject, inputs: Tensor, tables: list[tuple[str, nn.Embedding]]
) -> tuple[Subject, Any]:
    """The subject with the first dtype of a required mask that runs, and its output."""
    module = subject.module
    if module is None or is_hugging_face(module) or MASK not in required_arguments(module):
        return subject, _trial_run(subject, inputs, tables)
    for dtype in MASK_DTYPES[:-1]:
        try:
            tried = _with_mask_of(subject, dtype)
            return tried, _trial_run(tried, inputs, tables)
        except (Exception, SystemExit):  # the last one's error is reported
            tables.clear()
    tried = _with_mask_of(subject, MASK_DTYPES[-1])
    return tried, _trial_run(tried, inputs, tables)


def _refuse_ids_out_of_range(sample: Tensor, vocabulary: int, name: str) -> None:
    if int(sample.max()) >= vocabulary:
        raise UserError(
            f"the sample's id {int(sample.max())} is out of range: its vocabulary has "
            f"{vocabulary} ids",
            topic="audit",
            where=name,
            hint=f"Give ids from 0 to {vocabulary - 1}.",
        )


def _trial_run(subject: Subject, inputs: Tensor, tables: list[tuple[str, nn.Embedding]]) -> Any:
    """One run; collects in `tables` the embeddings that were called with these ids, in order."""
    hooks = []
    if subject.module is not None and subject.vocabulary:
        for name, module in subject.module.named_modules():
            if isinstance(module, nn.Embedding):

                def hook(module: nn.Module, args: tuple[Any, ...], name: str = name) -> None:
                    ids = args[0] if args else None
                    if isinstance(ids, Tensor) and torch.equal(ids, inputs):
                        assert isinstance(module, nn.Embedding)
                        tables.append((name, module))

                hooks.append(module.register_forward_pre_hook(hook))
    try:
        with torch.no_grad(), seeded(0), restored_after(subject.module, training=False):
            return subject.run(subject.module, inputs, None)
    finally:
        for handle in hooks:
            handle.remove()


def _with_embedding(subject: Subject, tables: list[tuple[str, nn.Embedding]]) -> Subject:
    if not subject.vocabulary or subject.embedding:
        return subject
    if tables:
        name, table = tables[0]
        return replace(subject, embedding=name, vocabulary=table.num_embeddings)
    if subject.sample is None and subject.vocabulary == UNKNOWN_VOCABULARY:
        raise UserError(
            "its vocabulary is not known: no nn.Embedding is called with the ids",
            topic="audit",
            where=subject.name,
            hint="Give a sample: token ids (b,t), or embeddings (b,t,w) where it takes those.",
        )
    return subject
