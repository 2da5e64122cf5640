"""The language model head: hidden states to token logits, with its loss.

Shapes: b batch, t position, w model width (hidden size), v vocabulary.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.loss import LossTerm, token_loss_term
from regard.nn.linear import Linear
from regard.ops.cross_entropy import token_losses


class LanguageModelHead(nn.Module):
    """Token logits, (b,t,w) -> (b,t,v).

    With a transform before the output layer, as in BERT, the output layer also has a bias.
    """

    def __init__(self, vocabulary: int, *, width: int, transform: nn.Module | None = None) -> None:
        super().__init__()
        self.transform = transform
        self.tokens = Linear(width, vocabulary, bias=transform is not None)

    @property
    def width(self) -> int:
        return self.tokens.in_features

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.tokens(self._apply_transform(x))
        return y

    def tie(self, embedding: nn.Embedding) -> None:
        """Weight tying: use the token embedding as the output layer (Press and Wolf, 2017)."""
        self.tokens.weight = embedding.weight

    def losses(self, x: Tensor, *, targets: Tensor) -> Tensor:
        """−log p(target) at each position, in nats; x (…,w), targets (…)."""
        return token_losses(*self._with_bias_column(self._apply_transform(x)), targets=targets)

    def loss_term(
        self, x: Tensor, *, targets: Tensor, weights: Tensor, smoothing: float = 0.0
    ) -> LossTerm:
        """The weighted loss over all positions; x (…,w), targets and weights (…)."""
        return self.loss_term_after_transform(
            self._apply_transform(x), targets=targets, weights=weights, smoothing=smoothing
        )

    def loss_term_after_transform(
        self, y: Tensor, *, targets: Tensor, weights: Tensor, smoothing: float = 0.0
    ) -> LossTerm:
        """`loss_term` of inputs of the output layer, to which no transform is applied."""
        x, table = self._with_bias_column(y)
        return token_loss_term(x, table, targets=targets, weights=weights, smoothing=smoothing)

    def _apply_transform(self, x: Tensor) -> Tensor:
        return x if self.transform is None else self.transform(x)

    def _with_bias_column(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """x and table with logits = x · tableᵀ: the bias becomes one more column of the table."""
        table, bias = self.tokens.weight, self.tokens.bias
        if bias is None:
            return y, table
        return F.pad(y, (0, 1), value=1.0), torch.cat((table, bias[:, None]), dim=1)


class HeadTransform(nn.Module):
    """BERT's transform before the output layer: linear, gelu, norm; w·w + 3w parameters."""

    def __init__(self, width: int, *, norm: nn.Module) -> None:
        super().__init__()
        self.linear = Linear(width, width)
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(F.gelu(self.linear(x)))
        return y
