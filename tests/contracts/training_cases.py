"""Trainings that cover every legal pair of kind, position, family, objective, adapter and head.

A case is a model, small enough for a step in milliseconds, and batches for it: rows of different
length, packed rows, sources, patches. Cases are chosen so that any two values of different factors
that may stand together in a recipe do so in some case.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
from tests.objectives.toy_data import biographies, encode_row, vocabulary

from regard.adapters import ADAPTERS, Adapter
from regard.attention.kinds import ATTENTION
from regard.attention.positions import POSITIONS
from regard.batch import Batch, Example, collate
from regard.core.errors import UserError
from regard.core.settings import read_settings
from regard.data.chunks import Document
from regard.models.families import FAMILIES, Family
from regard.models.heads.task_heads import (
    ClassificationHead,
    SentenceHead,
    SpanHead,
    TokenHead,
    ValueHead,
)
from regard.models.model import Model, TokenModel
from regard.models.task_models.patch_model import MaskedPatchModel, PatchHead
from regard.models.task_models.sentence_model import ContrastiveModel, SimilarityModel
from regard.models.task_models.span_model import SpanModel
from regard.models.task_models.task_model import (
    SequenceClassifier,
    SequenceRegressor,
    TokenTagger,
)
from regard.objectives import OBJECTIVES

CONTEXT, WIDTH, PATCHES, PATCH_DIM = 32, 32, 4, 4
ROWS = 4
TOKENS = "tokens"
"The head that predicts tokens: no task."


class Case(NamedTuple):
    family: str
    kind: str
    position: str
    objective: str
    adapter: str
    head: str

    @property
    def id(self) -> str:
        return "/".join(self)


KINDS: dict[str, dict[str, object]] = {
    **{name: {"kind": name} for name in ATTENTION.names()},
    "group, fused": {"kind": "group", "groups": 2, "fusion_every": 2},
    "group by segments": {"kind": "group", "by": "segments"},
    "linear, random": {"kind": "linear", "feature_map": "random"},
    "synthesizer, factorised": {"kind": "synthesizer-random", "rank": 2},
}
POSITION_TABLES: dict[str, dict[str, object]] = {
    **{name: {"kind": name} for name in POSITIONS.names()},
    "relative, clipped": {"kind": "relative", "clip": 5},
    "concatenated": {"kind": "learned", "combine": "concatenate"},
}
FAMILY_TABLES: dict[str, dict[str, object]] = {
    "decoder": {},
    "decoder, documents apart": {"across_documents": False, "dropout": 0.1},
    "decoder, like llama": {
        "norm": "rms",
        "activation": "swiglu",
        "biases": False,
        "key_value_heads": 1,
        "tied": False,
    },
    "decoder, shared projections": {"projections": "shared-qk"},
    "encoder": {"dropout": 0.1},
    "encoder, like bert": {
        "segments": 2,
        "embedding_norm": True,
        "head_transform": True,
        "pooler": True,
        "norm_placement": "post",
        "boundary": True,
        "across_documents": False,
    },
    "encoder-decoder": {"dropout": 0.1},
    "recurrent": {"layers": 2},
}


HEADS: dict[str, Callable[[TokenModel], Model]] = {
    TOKENS: lambda body: body,
    "label of the first": lambda body: SequenceClassifier(
        body, ClassificationHead(WIDTH, labels=3, pooling="first"), seed=0
    ),
    "label of the last": lambda body: SequenceClassifier(
        body, ClassificationHead(WIDTH, labels=3, pooling="last"), seed=0
    ),
    "value": lambda body: SequenceRegressor(body, ValueHead(WIDTH, pooling="mean"), seed=0),
    "tags": lambda body: TokenTagger(body, TokenHead(WIDTH, labels=4), seed=0),
    "span": lambda body: SpanModel(body, SpanHead(WIDTH), seed=0),
    "contrastive": lambda body: ContrastiveModel(
        body, SentenceHead(pooling="mean"), temperature=0.1, seed=0
    ),
    "similarity": lambda body: SimilarityModel(body, SentenceHead(pooling="mean"), seed=0),
    "patches": lambda body: MaskedPatchModel(body, PatchHead(WIDTH, patch_dim=PATCH_DIM), seed=0),
}
OBJECTIVE_NAMES, ADAPTER_NAMES = tuple(OBJECTIVES.names()), tuple(ADAPTERS.names())
ENCODER_HEADS = ("tags", "span", "patches")


@cache
def _family_of(family: str, kind: str, position: str, patches: bool) -> Family | None:
    name = family.partition(",")[0]
    table: dict[str, object] = {"context": CONTEXT, "width": WIDTH, **FAMILY_TABLES[family]}
    attention = dict(KINDS[kind])
    if ATTENTION.get(str(attention["kind"])).properties["broken"]:
        attention["on_purpose"] = True
    table["attention"] = attention
    if name == "recurrent":
        if position != "none":  # a GRU has no positions to choose
            return None
    else:
        positions = POSITION_TABLES[position]
        if positions.get("combine") == "concatenate":
            table["tied"] = False
        table |= {"heads": 2, "layers": 2, "positions": positions}
    if patches:
        table["patch_dim"] = PATCH_DIM
    try:
        return read_settings(FAMILIES.get(name).part, table)
    except UserError:
        return None


def family_of(case: Case) -> Family | None:
    """None where settings refuse each other."""
    return _family_of(case.family, case.kind, case.position, case.head == "patches")


def _is_trained_by(family: str, objective: str, head: str) -> bool:
    name = family.partition(",")[0]
    objectives = FAMILIES.get(name).properties["objectives"]
    if head != TOKENS:  # the head of a task takes the place of the objective
        is_fitting = name == "encoder" or (name == "decoder" and head not in ENCODER_HEADS)
        return is_fitting and objective == objectives[0]
    has_boundary = "boundary" in FAMILY_TABLES[family]
    return objective in objectives and (has_boundary or objective != "spanbert")


def _trains(adapter: str, head: str) -> bool:
    """Whether the adapter leaves anything to train."""
    has_parameters = head not in (TOKENS, "contrastive", "similarity")
    return adapter != "none" and (adapter != "head" or has_parameters)


@cache
def _is_adaptable(family: str, kind: str, adapter: str) -> bool:
    positions = (name for name in POSITION_TABLES if _family_of(family, kind, name, False))
    position = next(positions, None)
    if position is None:
        return False
    case = Case(family, kind, position, "", adapter, "value")
    settings = family_of(case)
    assert settings is not None
    try:
        adapter_of(case).apply(HEADS["value"](settings.build(vocabulary=9, seed=0)), seed=0)
    except UserError:
        return False
    return True


def adapter_of(case: Case) -> Adapter:
    part = ADAPTERS.get(case.adapter).part
    table: dict[str, object] = {"length": 3} if "length" in part.model_fields else {}
    if case.adapter == "lora":
        table = {"rank": 2, "dropout": 0.1, "targets": ("*",)}
    return read_settings(part, table)


def model_of(case: Case) -> Model:
    family = family_of(case)
    assert family is not None
    model = HEADS[case.head](family.build(vocabulary=vocabulary("bpe").size, seed=1))
    adapter_of(case).apply(model, seed=0)
    return model


def batches_of(case: Case, *, count: int = 2) -> list[Batch]:
    """Rows of different length first, then packed ones where the objective packs."""
    generator = np.random.default_rng(0)
    build = _objective_examples if case.head == TOKENS else _task_examples
    batches = []
    for number in range(count):
        examples = build(case, number, generator)
        batches.append(collate(examples, pad_id=0, rows=range(len(examples))))
    return batches


def _objective_examples(
    case: Case, number: int, generator: np.random.Generator
) -> Sequence[Example]:
    objective = OBJECTIVES.get(case.objective).part()
    roles, context = vocabulary("bpe"), CONTEXT - 8
    one_document = case.objective in ("infill", "salient", "spans-in-row")
    texts = biographies()[number * ROWS :]
    examples = []
    for row in range(ROWS):
        if number % 2 == 0 or one_document:
            # Rows of different length.
            cut = context - row
            document = encode_row(texts[row], "bpe", context=CONTEXT)
            document = Document(
                np.concatenate((document.ids[: cut - 1], [roles.stop])), context=CONTEXT
            )
        else:
            ids = np.concatenate([encode_row(text, "bpe").ids for text in texts[row : row + 4]])
            document = Document(ids[:context], context=CONTEXT)
        examples.append(objective.example(document, generator, vocabulary=roles))
    return examples


def _task_examples(case: Case, number: int, generator: np.random.Generator) -> Sequence[Example]:
    examples = []
    for row in range(ROWS):
        length = CONTEXT - 10 - 3 * row - number
        ids = generator.integers(7, 60, size=length)
        weights = np.zeros(length, dtype=np.float32)
        weights[0] = 1.0
        segments = (np.arange(length) > length // 3).astype(np.int64)
        example = Example(ids, ids, weights, segments)
        changes: dict[str, object] = {"labels": np.array([row % 3])}
        if case.head == "tags":
            weights = (np.arange(length) % 3 == 0).astype(np.float32)
            changes = {"targets": ids % 4, "weights": weights}
        elif case.head == "span":
            changes = {"labels": np.array([length // 2, length // 2 + 2])}
        elif case.head == "value":
            changes = {"labels": np.array([row - 1.5], dtype=np.float32)}
        elif case.head in ("contrastive", "similarity"):
            labels = np.array([row, 7 * row + 1])
            if case.head == "similarity":
                labels = np.array([0.2 * row], dtype=np.float32)
            changes = {"source": generator.integers(7, 60, size=5 + row), "labels": labels}
            changes["segments"] = None
        elif case.head == "patches":
            changes = _patches(example, generator)
        examples.append(Example(**{**vars(example), **changes}))
    return examples


def _patches(example: Example, generator: np.random.Generator) -> dict[str, object]:
    """Patches after the words, two of them masked."""
    zeros = np.zeros(PATCHES, dtype=np.int64)
    patches = generator.random((PATCHES, PATCH_DIM), dtype=np.float32)
    masked = np.array([1, 3])
    weights = np.zeros(len(example.inputs) + PATCHES, dtype=np.float32)
    weights[len(example.inputs) + masked] = 1.0
    labels = patches[masked].reshape(-1).copy()
    patches[masked] = 0.0
    assert example.segments is not None
    return {
        "inputs": np.concatenate((example.inputs, zeros)),
        "targets": np.concatenate((example.targets, zeros)),
        "weights": weights,
        "segments": np.concatenate((example.segments, zeros + 1)),
        "modalities": np.concatenate((np.zeros_like(example.inputs), zeros + 1)),
        "patches": patches,
        "labels": labels,
    }


def pairs_of(case: Case) -> set[tuple[int, str, int, str]]:
    return {(a, case[a], b, case[b]) for a, b in combinations(range(len(case)), 2)}


@cache
def covering_cases() -> tuple[Case, ...]:
    """Few cases that contain every pair of values that is part of a legal case."""
    legal = [(case, pairs_of(case)) for case in _legal_cases()]
    random.Random(0).shuffle(legal)
    covered: set[tuple[int, str, int, str]] = set()
    cases: list[Case] = []
    for new_pairs in (9, 5, 3, 1):  # greedily: first those that cover the most
        for case, pairs in legal:
            if len(pairs - covered) >= new_pairs:
                covered |= pairs
                cases.append(case)
    return tuple(cases)


def _legal_cases() -> Iterator[Case]:
    for family, (objective, head) in product(FAMILY_TABLES, product(OBJECTIVE_NAMES, HEADS)):
        if not _is_trained_by(family, objective, head):
            continue
        for kind, adapter in product(KINDS, ADAPTER_NAMES):
            # What an adapter refuses, it refuses by the family, or by the kind of attention.
            fits = _is_adaptable(family, "dot", adapter) and _is_adaptable("encoder", kind, adapter)
            if not (fits and _trains(adapter, head)):
                continue
            for position in POSITION_TABLES:
                if _family_of(family, kind, position, head == "patches") is not None:
                    yield Case(family, kind, position, objective, adapter, head)
