"""What every model declares: its entry points, and the capabilities that other packages ask for.

    Model        named loss terms of a batch; a body and perhaps the head of a task
    TokenModel   hidden states and token logits: what a family builds

A capability is an attribute, so that a family in a user's own file has it by declaring it. The
entry points are all public methods that take token ids or a batch.
Shapes: b batch, t position, w model width, v vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from regard.attention.cache import ModelCache
from regard.batch import Batch
from regard.core.errors import UserError
from regard.core.process.host import widest_float
from regard.models.blocks.attention_recorder import AttentionRecorder
from regard.models.blocks.stack import Stack
from regard.models.blocks.virtual_tokens import VirtualTokens
from regard.models.heads.language_model_head import LanguageModelHead
from regard.models.heads.task_heads import Pooler
from regard.models.inputs import ModelInputs
from regard.models.loss import LossTerm


class Model(nn.Module, ABC):
    entry_points: ClassVar[tuple[str, ...]] = ()
    "The public methods that compute something of token ids or a batch, besides `forward`."
    context: int
    "Maximum sequence length in tokens."
    visibility: str = "causal"
    "The mask, by name, that says which positions an output may depend on: causal, bidirectional."
    generates: ClassVar[bool] = False
    "Whether it decodes, by `new_cache` and `step`, or by `encode` and `logits` from a source."
    embeds_texts: ClassVar[bool] = False
    "Whether its `encode` gives a sentence embedding for each row of a batch."
    saves_adapter_only: bool = False
    "Whether checkpoints hold only the trained tensors; the frozen ones stay with the base model."
    body: TokenModel
    "The pretrained model below the head of a task; without one, the model itself."

    @property
    def task_head(self) -> nn.Module | None:
        """The head of a task, whose parameters are always trained."""
        return None

    @property
    def unused_parameters(self) -> tuple[str, ...]:
        """Name prefixes of parameters that no loss of this model depends on."""
        return ()

    @abstractmethod
    def forward(self, batch: Batch) -> dict[str, LossTerm]:
        """The named loss terms of a batch."""


class TokenModel(Model):
    """A model of token sequences, without the head of a task."""

    reads: ClassVar[Literal["row", "source and target"]] = "row"
    "What a batch holds: one row of tokens, or a source sequence beside the target row."
    token_table: ClassVar[str] = "embedding.tokens"
    "Name of the token embedding, an nn.Embedding."
    head: LanguageModelHead
    pooler: Pooler | None
    "Between the hidden state at the first position and the head of a task."
    patch_dim: int = 0
    "Values per image patch, if rows may hold patches after the words."

    def __init__(self) -> None:
        super().__init__()
        self.pooler = None

    @property
    def body(self) -> TokenModel:  # type: ignore[override]  # read-only here
        return self

    @property
    def vocabulary(self) -> int:
        """Number of token ids."""
        table = dict(self.named_modules()).get(self.token_table)
        if not isinstance(table, nn.Embedding):
            raise UserError(
                f"{type(self).__name__}.token_table = {self.token_table!r} names no nn.Embedding",
                topic="model",
                hint="Give the dotted name of its token embedding.",
            )
        return table.num_embeddings

    @property
    def stacks(self) -> Mapping[str, Stack]:
        """The stacks of Transformer blocks by name, the last one below the head."""
        return {}

    @property
    def virtual_tokens(self) -> VirtualTokens | None:
        """What puts a soft prompt or a prefix before every row, if the model accepts one."""
        return None

    @property
    def keeps_documents_apart(self) -> bool:
        """Whether the documents of a packed row do not attend to each other."""
        return False

    @property
    def attends(self) -> bool:
        """Whether it has attention, whose weights a recorder collects."""
        return True

    def forward(self, batch: Batch) -> dict[str, LossTerm]:
        """Each token is predicted, from those before it."""
        x = self.hidden_states(ModelInputs.of_batch(batch))
        term = self.head.loss_term(
            batch.at_scored(x),
            targets=batch.at_scored(batch.targets),
            weights=batch.at_scored(batch.weights),
            smoothing=batch.smoothing if self.training else 0.0,
        )
        return {"token": term}

    @abstractmethod
    def hidden_states(
        self,
        inputs: ModelInputs,
        *,
        cache: ModelCache | None = None,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        """(b,t,w): the last hidden states, which heads take as input; a cache holds the tokens
        before these, a recorder collects the attention weights."""

    def logits(
        self,
        inputs: ModelInputs,
        *,
        cache: ModelCache | None = None,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        """(b,t,v): token logits at each position."""
        y: Tensor = self.head(self.hidden_states(inputs, cache=cache, recorder=recorder))
        return y

    def position_outputs(self, x: Tensor) -> Tensor:
        """(b,t,w) -> (b,t,…): all that is computed of the hidden state at each position."""
        y: Tensor = self.head(x)
        return y


def weighted_losses(model: Model, batch: Batch) -> Tensor:
    """Weight · −log p(target) at each position in nats, (b,t) in the device's widest float. A
    position of weight 0, such as padding or the first half of an overlapping window, takes no
    logits."""
    x = _hidden_states(model, batch)
    dtype = widest_float(x.device)
    losses = torch.zeros(batch.weights.shape, dtype=dtype, device=x.device)
    scored = model.body.head.losses(batch.at_scored(x), targets=batch.at_scored(batch.targets))
    weighted = scored.to(dtype) * batch.at_scored(batch.weights)
    if (positions := batch.layout.scored) is None:
        return weighted.view_as(losses)
    return losses.flatten().index_copy(0, positions, weighted).view_as(losses)


def token_losses(
    model: Model, batch: Batch, *, recorder: AttentionRecorder | None = None
) -> Tensor:
    """−log p(target) at each position in nats, (b,t); a recorder collects attention weights."""
    x = _hidden_states(model, batch, recorder=recorder)
    return model.body.head.losses(x, targets=batch.targets)


def _hidden_states(
    model: Model, batch: Batch, *, recorder: AttentionRecorder | None = None
) -> Tensor:
    if model.task_head is not None:
        raise UserError(
            "this model has the head of a task and predicts no tokens, so it has no token losses",
            topic="model",
            hint="Use the model it was initialised from.",
        )
    return model.body.hidden_states(ModelInputs.of_batch(batch), recorder=recorder)
