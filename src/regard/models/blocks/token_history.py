"""The cache of a model whose attention cannot be cached: the token ids so far.

Each step recomputes the whole row.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.cache import BlockCache, ModelCache, RecurrentState


class TokenHistory(RecurrentState):
    def extend(self, ids: Tensor) -> Tensor:
        """(b,i) -> (b,j): the whole rows, with these new tokens."""
        self.update([torch.cat((*self.state, ids), dim=1)], positions=ids.shape[1])
        return self.state[0]


def new_token_history() -> ModelCache:
    return ModelCache([BlockCache(TokenHistory())])


def extend_token_history(cache: ModelCache, ids: Tensor) -> Tensor:
    history = cache.blocks[0].self_attention
    assert isinstance(history, TokenHistory)
    return history.extend(ids)
