"""Heads turn the vectors of a Transformer into answers.

Shapes: b batch, t place, w model width, v vocabulary, c labels. `valid`: True = a token.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.count import Term, linear
from regard.models.loss import LossTerm, token_term
from regard.nn.linear import Linear
from regard.ops.cross_entropy import token_losses

Pooling = Literal["first", "mean", "last"]


class LanguageModelHead(nn.Module):
    """Scores for every token of the vocabulary, (b,t,w) -> (b,t,v).

    With a network before the table, as BERT has, the table also adds a bias to each token.
    """

    def __init__(self, vocabulary: int, *, width: int, network: nn.Module | None = None) -> None:
        super().__init__()
        self.network = network
        self.tokens = Linear(width, vocabulary, bias=network is not None)

    @property
    def width(self) -> int:
        return self.tokens.in_features

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.tokens(self._made_ready(x))
        return y

    def tie(self, embedding: nn.Embedding) -> None:
        """Score with the very table that embeds the tokens (Press and Wolf, 2017)."""
        self.tokens.weight = embedding.weight

    def losses(self, x: Tensor, *, targets: Tensor) -> Tensor:
        """−log p(target) at each place, in nats; x (…,w), targets (…)."""
        return token_losses(*self._scored_by(self._made_ready(x)), targets=targets)

    def term(
        self, x: Tensor, *, targets: Tensor, weights: Tensor, smoothing: float = 0.0
    ) -> LossTerm:
        """The weighted loss of all places; x (…,w), targets and weights (…)."""
        return self.table_term(
            self._made_ready(x), targets=targets, weights=weights, smoothing=smoothing
        )

    def table_term(
        self, y: Tensor, *, targets: Tensor, weights: Tensor, smoothing: float = 0.0
    ) -> LossTerm:
        """The same of vectors that another network made ready for the table."""
        vectors, table = self._scored_by(y)
        return token_term(vectors, table, targets=targets, weights=weights, smoothing=smoothing)

    def _made_ready(self, x: Tensor) -> Tensor:
        return x if self.network is None else self.network(x)

    def _scored_by(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors and a table whose products are the scores: a bias is one more column."""
        table, bias = self.tokens.weight, self.tokens.bias
        if bias is None:
            return y, table
        return F.pad(y, (0, 1), value=1.0), torch.cat((table, bias[:, None]), dim=1)


class HeadTransform(nn.Module):
    """What BERT has before its output layer: linear, gelu, norm; w·w + 3w parameters."""

    def __init__(self, width: int, *, norm: nn.Module) -> None:
        super().__init__()
        self.linear = Linear(width, width)
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(F.gelu(self.linear(x)))
        return y


class Pooler(nn.Module):
    """What BERT has between the first place and a head: linear, tanh; w·w + w parameters."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.linear(x))


class TokenHead(nn.Module):
    """A label for each place, (b,t,w) -> (b,t,c): w·c + c parameters."""

    def __init__(self, width: int, *, labels: int) -> None:
        super().__init__()
        self.labels = Linear(width, labels)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.labels(x)
        return y

    def terms(self) -> list[Term]:
        return [_label_term(self.labels)]


class SpanLogits(NamedTuple):
    """Scores of each place as the beginning and as the end of an answer, (b,t) each."""

    start: Tensor
    end: Tensor


class SpanHead(nn.Module):
    """Where an answer begins and ends: S·T_i and E·T_j, −∞ on padding; 2w parameters.

    Without biases, which would add the same to every span (Devlin et al., 2019).
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.boundaries = Linear(width, 2, bias=False)

    def forward(self, x: Tensor, valid: Tensor) -> SpanLogits:
        scores = self.boundaries(x).masked_fill(~valid[..., None], -torch.inf)
        return SpanLogits(scores[..., 0], scores[..., 1])

    def terms(self) -> list[Term]:
        return [Term("head, ends of a span", "2·w", 2 * self.boundaries.in_features)]


class SequenceHead(nn.Module, ABC):
    """A head that answers once for each row, from its places pooled to one vector."""

    def __init__(self, *, pooling: Pooling) -> None:
        super().__init__()
        self.pooling = pooling

    @abstractmethod
    def forward(self, x: Tensor, valid: Tensor) -> Tensor: ...

    def pooled(self, x: Tensor, valid: Tensor) -> Tensor:
        """(b,t,w) -> (b,w)"""
        return pool(x, valid, self.pooling)


class ClassificationHead(SequenceHead):
    """A label for each row, (b,t,w) -> (b,c): w·c + c parameters, 2w + 2 for two labels."""

    def __init__(self, width: int, *, labels: int, pooling: Pooling = "first") -> None:
        super().__init__(pooling=pooling)
        self.labels = Linear(width, labels)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        y: Tensor = self.labels(self.pooled(x, valid))
        return y

    def terms(self) -> list[Term]:
        return [_label_term(self.labels)]


class YesNoHead(SequenceHead):
    """Whether the second text of a pair follows from the first, (b,t,w) -> (b,): w + 1 parameters.

    One score, positive for yes: two would only add a number that cancels in the softmax.
    """

    def __init__(self, width: int, *, pooling: Pooling = "first") -> None:
        super().__init__(pooling=pooling)
        self.yes = Linear(width, 1)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        y: Tensor = self.yes(self.pooled(x, valid)).squeeze(-1)
        return y

    def terms(self) -> list[Term]:
        return [Term("head, yes or no", "w + 1", self.yes.in_features + 1)]


class PooledHead(SequenceHead):
    """One vector for each row as it is pooled, (b,t,w) -> (b,w)."""

    def __init__(self, *, pooling: Pooling = "mean") -> None:
        super().__init__(pooling=pooling)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        return self.pooled(x, valid)

    def terms(self) -> list[Term]:
        return []


class SentenceHead(PooledHead):
    """The same with length 1, so that products are cosines."""

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        return F.normalize(super().forward(x, valid), dim=-1)


def _label_term(labels: nn.Linear) -> Term:
    inputs, outputs = labels.in_features, labels.out_features
    return linear("head, labels", inputs, outputs, biases=True, letters="w·c")


def pool(x: Tensor, valid: Tensor, pooling: Pooling) -> Tensor:
    """(b,t,w) -> (b,w): the first or last real place of each row, or the mean of all real ones.

    In a decoder the first place has seen nothing but itself; the last has seen the whole row."""
    if pooling != "mean":
        real = valid.int()
        place = real.argmax(dim=1) if pooling == "first" else _last(real)
        return x[torch.arange(len(x), device=x.device), place]
    kept = valid.to(x.dtype)[..., None]
    return (x * kept).sum(dim=1) / kept.sum(dim=1).clamp(min=1)


def _last(real: Tensor) -> Tensor:
    """(b,t) of noughts and ones -> (b): where the last one stands."""
    return real.shape[1] - 1 - real.flip(1).argmax(dim=1)
