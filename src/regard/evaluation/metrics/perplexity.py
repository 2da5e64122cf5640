"""Perplexity of a language model, from the negative log-likelihood of each document.

    perplexity           exp(ΣL / ΣT)          L nats of a document, T tokens predicted in it
    perplexity_per_byte  exp(ΣL / ΣB)          B bytes of its UTF-8 text
    bits_per_byte        ΣL / (ΣB · ln 2)
    loss_per_document    mean of L / T

The first three sum over all documents before dividing, so long documents weigh more; the last
weighs documents equally. Scores per token compare only models with the same tokenizer; scores per
byte compare any models whose tokens cover all of the text (an <unk> covers bytes that are never
predicted). The stop token that ends a document is predicted: it counts in L and in T and has no
bytes. Intervals resample whole documents, for tokens of one document are not independent, or whole
groups of documents where they have them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.core.errors import DivergenceError, UserError
from regard.evaluation.statistics.estimate import Estimate
from regard.evaluation.statistics.intervals import Bootstrap, ItemStatistics, at_least_t
from regard.evaluation.statistics.item_groups import (
    GroupNumbers,
    count_groups,
    effective_groups,
    group_numbers,
    sum_by_group,
)

SCORE_UNITS = {
    "perplexity": "token",
    "perplexity_per_byte": "byte",
    "bits_per_byte": "byte",
    "loss_per_document": "document",
}
"What each score is per."

MAX_NATS = 700.0
"Maximum nats per token or byte: exp of more overflows."


@dataclass(frozen=True)
class Losses:
    """Per document: nats, predicted tokens, bytes of text, nats per token, and its group."""

    nll: NDArray[np.float64]
    tokens: NDArray[np.int64]
    bytes: NDArray[np.int64]
    loss: NDArray[np.float64]
    groups: GroupNumbers | None = None

    def __len__(self) -> int:
        return len(self.nll)

    def select(self, documents: NDArray[np.bool_]) -> Losses:
        """The losses of some of the documents."""
        return Losses(
            nll=self.nll[documents],
            tokens=self.tokens[documents],
            bytes=self.bytes[documents],
            loss=self.loss[documents],
            groups=None if self.groups is None else group_numbers(self.groups[documents].tolist()),
        )

    @property
    def statistics(self) -> ItemStatistics:
        """nats, tokens, bytes, nats per token and one, of each document or group of documents."""
        ones = np.ones(len(self))
        table = np.stack([self.nll, self.tokens, self.bytes, self.loss, ones]).astype(np.float64)
        return sum_by_group(table, self.groups)


@dataclass(frozen=True, kw_only=True)
class Perplexity:
    """Scores one split of a corpus, for a model and its baselines alike."""

    split: str
    "Name and fingerprint of the split, as in dev:77abf00d."
    tokenizer: str
    "The tokenizer's fingerprint."
    objective: str = "causal"
    "The objective: which tokens are predicted, and from which context."
    items: str = "documents"
    bootstrap: Bootstrap = field(default_factory=Bootstrap)

    def statistics(
        self,
        nll: ArrayLike,
        *,
        tokens: ArrayLike,
        bytes: ArrayLike,
        groups: GroupNumbers | None = None,
    ) -> Losses:
        """Validated per-document losses, from each document's nats and sizes."""
        nats = np.asarray(nll, dtype=np.float64)
        sizes = {"tokens": np.asarray(tokens), "bytes": np.asarray(bytes)}
        if nats.ndim != 1 or not len(nats):
            raise self._error("there is nothing to score", hint="Give at least one document.")
        for unit, size in sizes.items():
            if size.shape != nats.shape:
                raise self._error(
                    f"{len(nats):,} losses came with {size.size:,} counts of {unit}",
                    hint="Both must describe the same documents.",
                )
            if (size < 1).any():
                raise self._error(
                    f"{self._first_item(size < 1)} has no {unit}",
                    hint="Drop empty documents first.",
                )
        if not np.isfinite(nats).all():
            bad = ~np.isfinite(nats)
            raise self._diverged(
                f"the loss of {self._first_item(bad)} is {nats[bad][0]} "
                f"({bad.sum():,} such in all)",
                hint="No score is computed from them: look for a model that diverged, or that "
                "gives an observed token probability zero.",
            )
        counts = {unit: size.astype(np.int64) for unit, size in sizes.items()}
        return Losses(nll=nats, loss=nats / counts["tokens"], groups=groups, **counts)

    def score(self, table: Losses) -> dict[str, Estimate]:
        """The four scores by name, all bootstrapped from the same resamples."""
        for unit, size in {"token": table.tokens, "byte": table.bytes}.items():
            nats = table.nll.sum() / size.sum()
            if nats > MAX_NATS:
                raise self._diverged(f"{nats:,.0f} nats a {unit} are too many for a perplexity")
        values = _scores(table.statistics)
        intervals = self.bootstrap.intervals(
            table.statistics, _scores, effective_groups=effective_groups(table.groups)
        )
        return {
            name: self._estimate(name, unit, value=value, interval=interval, table=table)
            for (name, unit), value, interval in zip(
                SCORE_UNITS.items(), values, intervals, strict=True
            )
        }

    def paired_difference(self, model: Losses, baseline: Losses) -> Estimate:
        """Perplexity per token of the model minus the baseline's, by a paired bootstrap."""
        if not np.array_equal(model.tokens, baseline.tokens):
            raise self._error(
                "model and baseline were not evaluated on the same documents",
                hint="Score both on the same split with the same tokenizer.",
            )
        statistics = np.stack([model.nll, baseline.nll, model.tokens]).astype(np.float64)
        [value] = _difference(statistics)
        units, equal_groups = (
            sum_by_group(statistics, model.groups),
            effective_groups(model.groups),
        )
        [interval] = self.bootstrap.intervals(units, _difference, effective_groups=equal_groups)
        if equal_groups is not None:
            others = units.sum(axis=1, keepdims=True) - units
            interval = at_least_t(
                interval,
                float(value),
                _difference(others[..., None])[0],
                effective_groups=equal_groups,
                confidence=self.bootstrap.confidence,
            )
        return self._estimate(
            "perplexity_difference", "token", value=value, interval=interval, table=model
        )

    def _estimate(
        self,
        name: str,
        unit: str,
        *,
        value: float,
        interval: tuple[float, float] | None,
        table: Losses,
    ) -> Estimate:
        return Estimate.over_items(
            name,
            value,
            interval,
            n=len(table),
            items=self.items,
            groups=count_groups(table.groups),
            method=self.bootstrap,
            facts={
                "per": unit,
                "tokenizer": self.tokenizer,
                "split": self.split,
                "objective": self.objective,
            },
        )

    def _first_item(self, selected: NDArray[np.bool_]) -> str:
        return f"{self.items.removesuffix('s')} {int(selected.argmax()) + 1:,}"

    def _diverged(self, what: str, *, hint: str = "") -> DivergenceError:
        return DivergenceError(what, topic="evaluation", where=self.split, hint=hint)

    def _error(self, what: str, *, hint: str = "") -> UserError:
        return UserError(what, topic="evaluation", where=self.split, hint=hint)


def _scores(statistics: ItemStatistics) -> NDArray[np.float64]:
    nll, tokens, text_bytes, loss, documents = statistics.sum(axis=-1)
    nats_per_byte = nll / text_bytes
    return np.stack(
        [
            _perplexity(nll / tokens),
            _perplexity(nats_per_byte),
            nats_per_byte / np.log(2),
            loss / documents,
        ]
    )


def _difference(statistics: ItemStatistics) -> NDArray[np.float64]:
    model, baseline, tokens = statistics.sum(axis=-1)
    with np.errstate(invalid="ignore"):  # documents without tokens alone have no perplexity
        return np.asarray((_perplexity(model / tokens) - _perplexity(baseline / tokens))[None])


def _perplexity(nats: NDArray[np.float64]) -> NDArray[np.float64]:
    # A resample of outliers alone may overflow where all documents together do not.
    return np.exp(np.minimum(nats, MAX_NATS))
