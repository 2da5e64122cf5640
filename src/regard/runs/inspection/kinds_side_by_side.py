"""One row of tokens read by several kinds of attention, under any mask.

Each kind has a model of its own, which differs from the others in its attention alone: parameters
of one name have the same values, so queries, keys and values are projected by the same matrices
where the kinds have these. The weights are fresh, a function of a seed, or those of a trained
model; what a kind adds to a trained model is fresh, and said.

Shapes: h heads, i query, j key, w model width. Masks: True = may attend.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from regard.attention.kinds import ATTENTION, AttentionKind, BrokenKind
from regard.attention.masks.mask import Mask
from regard.core.errors import UserError
from regard.core.progress import no_progress
from regard.core.settings import Settings, catalog_name, read_settings, settings_class
from regard.data.tokenizers.word import Word
from regard.models.blocks.attention_recorder import AttentionRecorder
from regard.models.families import Family, build_model
from regard.models.families.decoder import Decoder
from regard.models.init_weights import named_generator
from regard.models.inputs import ModelInputs
from regard.models.model import TokenModel
from regard.runs.inspection.inspect import encode_text, single_row, token_row
from regard.runs.inspection.inspection import AttentionMap, TokenRow
from regard.runs.models.loaded_model import LoadedModel

Floats = NDArray[np.float64]
MAX_TOKENS = 512
"Of a row; further ones are left out, and that is said."
MIN_CONTEXT = 16
STANDARD_KIND = "dot"


class FreshWeights(Settings):
    """A decoder that was never trained."""

    seed: int = Field(default=0, ge=0, le=999_999)
    "Of the initial weights."
    width: int = Field(default=48, ge=1, le=512)
    "Hidden size."
    heads: int = Field(default=4, ge=1, le=16)
    "Attention heads in each layer."
    layers: int = Field(default=2, ge=1, le=6)
    "Layers."
    positions: Literal["learned", "sinusoidal", "rotary", "relative", "alibi", "none"] = "learned"
    "Position encoding."
    std: float = Field(default=0.0, ge=0.0, le=1.0)
    """Standard deviation of the weights; 0: 1/√width, where scores have a deviation of about 1.
    Trainings start from 0.02, where attention is nearly uniform."""


@dataclass(frozen=True)
class KindModel:
    """A model whose attention is of one kind."""

    kind: str
    model: TokenModel
    fresh: tuple[str, ...] = ()
    "Parameters that a trained model did not have."


@dataclass(frozen=True, eq=False)
class KindModels(ABC):
    """A row of tokens, and models that read it, one for each kind; each is built once."""

    row: TokenRow
    remarks: tuple[str, ...]
    built: dict[str, KindModel] = field(default_factory=dict, kw_only=True)
    "By kind."

    @property
    def kind(self) -> str:
        """Its own kind of attention."""
        return STANDARD_KIND

    @property
    def visibility(self) -> str:
        """Its own mask, by name."""
        return "causal"

    def model(self, kind: str) -> KindModel:
        """The model with another kind, or its own."""
        if kind not in self.built:
            self.built[kind] = self._build(kind)
        return self.built[kind]

    @abstractmethod
    def _build(self, kind: str) -> KindModel: ...

    @property
    def ids(self) -> Tensor:
        """(1,i)"""
        return torch.tensor([self.row.ids])


@dataclass(frozen=True, eq=False)
class FreshModels(KindModels):
    settings: FreshWeights
    vocabulary: int

    @classmethod
    def of_text(cls, text: str, settings: FreshWeights) -> FreshModels:
        """Its tokens are words and punctuation; a word has the same vector in every text."""
        _check_text(text)
        tokenizer = Word(minimum_count=1).learn(iter([text]), on_progress=no_progress)
        ids = encode_text(tokenizer, text, "text")
        row, remarks = _limited(TokenRow(tuple(ids), tuple(tokenizer.tokens(ids))))
        return cls(row, remarks, settings, tokenizer.size)

    def _build(self, kind: str) -> KindModel:
        given, std = self.settings, self.settings.std or self.settings.width**-0.5
        # A power of two, so that few things change while somebody types.
        context = max(MIN_CONTEXT, 1 << (len(self.row.ids) - 1).bit_length())
        table = {
            **given.model_dump(include={"width", "heads", "layers", "positions"}),
            "attention": kind_settings(kind),
            "context": context,
            "init_std": std,
        }
        model = _read_family(Decoder, table).build(vocabulary=self.vocabulary, seed=given.seed)
        words = model.get_submodule(model.token_table)
        assert isinstance(words, nn.Embedding)
        with torch.no_grad():
            for token, text in set(zip(self.row.ids, self.row.tokens, strict=True)):
                vector = words.weight[token]
                generator = named_generator(given.seed, f"the word {text}")
                vector.copy_(std * torch.randn(vector.shape, generator=generator))
        return KindModel(kind, model.eval())


@dataclass(frozen=True, eq=False)
class TrainedModels(KindModels):
    body: TokenModel
    family: Family
    is_replaceable: bool
    "Whether another kind can stand in for its own."

    @classmethod
    def of_text(
        cls, text: str, loaded: LoadedModel, *, built: dict[str, KindModel] | None = None
    ) -> TrainedModels:
        """The row as `regard inspect` reads it, with start and end tokens; `built` are models that
        were built of it before."""
        _check_text(text)
        body, saved = loaded.model.body, loaded.saved
        if body.reads != "row" or not body.attends or body.patch_dim:
            raise UserError(
                "this model does not read one text by self-attention alone",
                topic="attention",
                hint="`regard inspect` shows the attention of any model.",
            )
        prepared = single_row(body, loaded.tokenizer, encode_text(loaded.tokenizer, text, "text"))
        row, remarks = _limited(token_row(loaded.tokenizer, prepared.example.inputs))
        is_replaceable = not saved.adapter.virtual_tokens and hasattr(saved.family, "attention")
        if is_replaceable and not built:
            saved.plain_body()  # adapters are merged into the weights
        return cls(
            row,
            (*prepared.remarks, *remarks),
            body.eval(),
            saved.family,
            is_replaceable,
            built={} if built is None else built,
        )

    @property
    def kind(self) -> str:
        attention: AttentionKind = self.family.attention  # type: ignore[attr-defined]
        return catalog_name(attention, ATTENTION)

    @property
    def visibility(self) -> str:
        return self.body.visibility

    def model(self, kind: str) -> KindModel:
        # Not kept in `built`, which may be kept as long as the body is.
        return KindModel(kind, self.body) if kind == self.kind else super().model(kind)

    def _build(self, kind: str) -> KindModel:
        if not self.is_replaceable:
            raise UserError(
                f"its virtual tokens were trained with {self.kind}, and stay with it",
                topic="attention",
            )
        names = type(self.family).model_fields
        table = {name: getattr(self.family, name) for name in names}
        family = _read_family(type(self.family), {**table, "attention": kind_settings(kind)})
        model = build_model(family, vocabulary=self.body.vocabulary, seed=0).eval()
        own, trained = model.state_dict(), self.body.state_dict()
        shared = {
            name: value
            for name, value in trained.items()
            if name in own and own[name].shape == value.shape
        }
        model.load_state_dict(shared, strict=False)
        fresh = [name for name, _ in model.named_parameters() if name not in shared]
        return KindModel(kind, model, tuple(fresh))


@dataclass(frozen=True)
class KindReading:
    """The row as the models of one kind read it."""

    kind: str
    fresh: tuple[str, ...]
    attention: tuple[AttentionMap, ...]
    "Of each layer."

    @cached_property
    def rollouts(self) -> tuple[Floats, ...]:
        """Who reaches whom through the first l layers, (i,j) for l = 1, 2, …: the product of
        (mean over heads + I) / 2 over layers, rows normalised (attention rollout, Abnar and
        Zuidema, 2020)."""
        size = len(self.attention[0].weights[0])
        through, found = np.eye(size), []
        for layer in self.attention:
            mixed = layer.weights.mean(axis=0) + np.eye(size)
            through = (mixed / mixed.sum(axis=1, keepdims=True)) @ through
            found.append(through)
        return tuple(found)


def available_kinds() -> dict[str, str]:
    """A sentence for each kind that may be shown, the standard one first: none that is broken on
    purpose."""
    return {
        entry.name: entry.summary
        for entry in sorted(ATTENTION, key=lambda one: one.name != STANDARD_KIND)
        if not issubclass(settings_class(ATTENTION, entry.name), BrokenKind)
    }


def kind_settings(name: str) -> AttentionKind:
    """A kind with its defaults."""
    cls = settings_class(ATTENTION, name)
    if issubclass(cls, BrokenKind):
        raise UserError(
            f"{name} is broken on purpose",
            topic="attention",
            hint="It is shown by lessons and by `regard check`.",
        )
    assert issubclass(cls, AttentionKind)
    return cls()


@torch.inference_mode()
def read_row(built: KindModel, ids: Tensor, mask: Mask) -> KindReading:
    """The attention weights of every layer under `mask`, which stands for the model's own."""
    recorder = AttentionRecorder()
    built.model.hidden_states(ModelInputs(ids, mask=mask), recorder=recorder)
    if recorder.missing or not recorder.weights:
        raise UserError(f"{built.kind} makes no weights to show", topic="attention")
    maps = []
    for name, weights in recorder.weights.items():
        if not bool(weights.isfinite().all()):
            raise UserError(f"the weights of {name} are not all finite", topic="attention")
        values = weights[0].double().numpy()
        maps.append(AttentionMap(name=name, queries="row", keys="row", weights=values))
    return KindReading(built.kind, built.fresh, tuple(maps))


def layers_to_reach(allowed: Tensor, layers: int) -> NDArray[np.uint8]:
    """(i,j): through how many layers of the mask (i,j) a query first sees a key, 0 for itself and
    255 where `layers` are too few."""
    size = len(allowed)
    step = (allowed | torch.eye(size, dtype=torch.bool)).float()
    found = torch.full((size, size), 255, dtype=torch.uint8)
    together = torch.eye(size)
    for depth in range(layers + 1):
        new = (together > 0) & (found == 255)
        if not bool(new.any()):
            break  # more layers reach nothing else
        found[new] = depth
        together = ((step @ together) > 0).float()
    values: NDArray[np.uint8] = found.numpy()
    return values


def _check_text(text: str) -> None:
    if not text.strip():
        raise UserError("there is no text yet", topic="attention", hint="Type a sentence.")


def _read_family(cls: type[Family], table: dict[str, object]) -> Family:
    try:
        return read_settings(cls, table)
    except UserError as problem:
        raise UserError(problem.what, topic="attention", hint=problem.hint) from None


def _limited(row: TokenRow) -> tuple[TokenRow, tuple[str, ...]]:
    count = len(row.ids)
    if count <= MAX_TOKENS:
        return row, ()
    remark = f"the text has {count:,} tokens: the first {MAX_TOKENS} are shown"
    return TokenRow(row.ids[:MAX_TOKENS], row.tokens[:MAX_TOKENS]), (remark,)
