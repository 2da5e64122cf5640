"""Task heads and pooling: hidden states to labels, answer spans or one embedding per sequence.

Shapes: b batch, t position, w model width, c labels. `valid`: True = a token.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.ledger import ParameterCount, linear_parameters
from regard.nn.linear import Linear

Pooling = Literal["first", "mean", "last"]


class Pooler(nn.Module):
    """BERT's pooler between the first position and a head: linear, tanh; w·w + w parameters."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.linear(x))


class TokenHead(nn.Module):
    """Token classification, (b,t,w) -> (b,t,c): w·c + c parameters."""

    def __init__(self, width: int, *, labels: int) -> None:
        super().__init__()
        self.labels = Linear(width, labels)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.labels(x)
        return y

    def count_parameters(self) -> list[ParameterCount]:
        return [_label_parameters(self.labels)]


class SpanLogits(NamedTuple):
    """Logits of each position as the start and as the end of an answer, (b,t) each."""

    start: Tensor
    end: Tensor


class SpanHead(nn.Module):
    """Start and end logits of an answer: S·T_i and E·T_j, −∞ on padding; 2w parameters.

    Without biases, which would add the same to every span (Devlin et al., 2019).
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.boundaries = Linear(width, 2, bias=False)

    def forward(self, x: Tensor, valid: Tensor) -> SpanLogits:
        logits = self.boundaries(x).masked_fill(~valid[..., None], -torch.inf)
        return SpanLogits(logits[..., 0], logits[..., 1])

    def count_parameters(self) -> list[ParameterCount]:
        return [ParameterCount("head, span boundaries", "2·w", 2 * self.boundaries.in_features)]


class SequenceHead(nn.Module, ABC):
    """A head with one output per sequence, from its hidden states pooled to one vector."""

    def __init__(self, *, pooling: Pooling) -> None:
        super().__init__()
        self.pooling = pooling

    @abstractmethod
    def forward(self, x: Tensor, valid: Tensor) -> Tensor: ...

    def pool(self, x: Tensor, valid: Tensor) -> Tensor:
        """(b,t,w) -> (b,w)"""
        return pool(x, valid, self.pooling)


class ClassificationHead(SequenceHead):
    """Sequence classification, (b,t,w) -> (b,c): w·c + c parameters, 2w + 2 for two labels."""

    def __init__(self, width: int, *, labels: int, pooling: Pooling = "first") -> None:
        super().__init__(pooling=pooling)
        self.labels = Linear(width, labels)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        y: Tensor = self.labels(self.pool(x, valid))
        return y

    def count_parameters(self) -> list[ParameterCount]:
        return [_label_parameters(self.labels)]


class ValueHead(SequenceHead):
    """A number for each sequence, (b,t,w) -> (b,): w + 1 parameters."""

    def __init__(self, width: int, *, pooling: Pooling = "first") -> None:
        super().__init__(pooling=pooling)
        self.value = Linear(width, 1)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        y: Tensor = self.value(self.pool(x, valid)).squeeze(-1)
        return y

    def count_parameters(self) -> list[ParameterCount]:
        return [ParameterCount("head, value", "w + 1", self.value.in_features + 1)]


class PooledHead(SequenceHead):
    """The pooled hidden state of each sequence, (b,t,w) -> (b,w)."""

    def __init__(self, *, pooling: Pooling = "mean") -> None:
        super().__init__(pooling=pooling)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        return self.pool(x, valid)

    def count_parameters(self) -> list[ParameterCount]:
        return []


class SentenceHead(PooledHead):
    """The sentence embedding: the pooled hidden state with L2 norm 1, so dot products are
    cosines."""

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        return F.normalize(super().forward(x, valid), dim=-1)


def _label_parameters(labels: nn.Linear) -> ParameterCount:
    inputs, outputs = labels.in_features, labels.out_features
    return linear_parameters("head, labels", inputs, outputs, biases=True, letters="w·c")


def pool(x: Tensor, valid: Tensor, pooling: Pooling) -> Tensor:
    """(b,t,w) -> (b,w): each row's hidden state at its first or last token, or the mean over its
    tokens.

    In a decoder the first token has attended to nothing but itself; the last to the whole row."""
    if pooling != "mean":
        is_token = valid.int()
        position = is_token.argmax(dim=1) if pooling == "first" else _last_one(is_token)
        return x[torch.arange(len(x), device=x.device), position]
    weights = valid.to(x.dtype)[..., None]
    return (x * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)


def _last_one(flags: Tensor) -> Tensor:
    """(b,t) of zeros and ones -> (b): the index of the last one."""
    return flags.shape[1] - 1 - flags.flip(1).argmax(dim=1)
