"""The recurrent baseline: a GRU reads the source, another writes the target (Cho et al., 2014).

    memory, last = GRU(source)        h_t = GRU(y_<t, starting from last)
    without attention: scores from h_t;  with it: from tanh(W [h_t; attend(h_t, memory)])

Without attention all of the source has to pass through one vector: the bottleneck that attention
was invented for (Bahdanau et al., 2015; the form used here, which looks after the step and not
before it, is that of Luong et al., 2015). Shapes: b batch, s source place, t target place, w model
width, v vocabulary. `valid`: True = a token.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.cache import BlockCache, ModelCache, RecurrentState
from regard.attention.masks.mask import cross
from regard.attention.mixer import Mixer
from regard.attention.token_positions import TokenPositions
from regard.audits.subject import Subject
from regard.models.architectures.seq2seq_model import Seq2SeqModel
from regard.models.architectures.source_bound import audited_writer
from regard.models.blocks.recorder import AttentionRecorder
from regard.models.heads.heads import LanguageModelHead
from regard.nn.dropout import Dropout
from regard.nn.linear import Linear


class RecurrentModel(Seq2SeqModel):
    def __init__(
        self,
        vocabulary: int,
        *,
        width: int,
        layers: int,
        attention: Mixer | None,
        dropout: float,
        context: int,
    ) -> None:
        super().__init__()
        self.context = context
        self.tokens = nn.Embedding(vocabulary, width)
        self.source_tokens = nn.Embedding(vocabulary, width)
        self.source_tokens.weight = self.tokens.weight
        between = dropout if layers > 1 else 0.0
        self.encoder = nn.GRU(width, width, layers, batch_first=True, dropout=between)
        self.decoder = nn.GRU(width, width, layers, batch_first=True, dropout=between)
        self.attention = attention
        self.join = None if attention is None else Linear(2 * width, width)
        self.dropout = Dropout(dropout)
        self.head = LanguageModelHead(vocabulary, width=width)
        for module in self.modules():
            # No norm lifts small values here: at a Transformer's 0.02 what is looked up and the
            # tokens themselves drown beside the state, and attention learns later than none.
            if isinstance(module, nn.Linear | nn.Embedding):
                module.init_std = module.weight.shape[1] ** -0.5

    def target(
        self,
        ids: Tensor,
        *,
        source: Tensor,
        source_valid: Tensor,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        memory, last = self.encode(source, source_valid)
        states, _ = self.decoder(self.dropout(self.tokens(ids)), last)
        return self._looked(states, memory, source_valid, recorder=recorder)

    def encode(self, source: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
        """(b,s) -> (b,s,w) and the state after each row's last token, (layers,b,w)."""
        lengths = valid.sum(dim=1).cpu()
        packed = nn.utils.rnn.pack_padded_sequence(
            self.dropout(self.source_tokens(source)),
            lengths,
            batch_first=True,
            enforce_sorted=False,
        )
        states, last = self.encoder(packed)
        memory, _ = nn.utils.rnn.pad_packed_sequence(
            states, batch_first=True, total_length=source.shape[1]
        )
        return memory, last

    def new_cache_for(self, source: Tensor, valid: Tensor) -> ModelCache:
        cache = ModelCache([BlockCache(_Origin())])
        cache.source, last = self.encode(source, valid)
        cache.source_valid = valid
        own = cache.blocks[0].own
        assert isinstance(own, _Origin)
        own.begin_from(last.transpose(0, 1))
        return cache

    def step(self, ids: Tensor, *, valid: Tensor, cache: ModelCache) -> Tensor:
        """Read new target tokens (b,i) after those in the cache; scores at each, (b,i,v)."""
        own = cache.blocks[0].own
        assert isinstance(own, _Origin)
        assert cache.source is not None
        assert cache.source_valid is not None
        x = self.tokens(ids)
        new = valid[:, valid.shape[1] - ids.shape[1] :]
        state = own.state[0].transpose(0, 1).contiguous()
        if bool(new.all()):
            states, state = self.decoder(x, state)
        else:  # padding on the left of a row must leave its state alone
            each = []
            for place in range(ids.shape[1]):
                out, moved = self.decoder(x[:, place : place + 1], state)
                state = torch.where(new[None, :, place, None], moved, state)
                each.append(out)
            states = torch.cat(each, dim=1)
        own.take([state.transpose(0, 1)], positions=ids.shape[1])
        y: Tensor = self.head(self._looked(states, cache.source, cache.source_valid))
        return y

    def audit_subject(self) -> Subject:
        return audited_writer(
            self,
            name="recurrent",
            vocabulary=self.tokens.num_embeddings,
            embedding="tokens",
            weights=None if self.attention is None else {"recorder": AttentionRecorder},
        )

    def _looked(
        self,
        states: Tensor,
        memory: Tensor,
        valid: Tensor,
        *,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        """What the head scores: the states, or the states joined with what they look at."""
        if self.attention is None or self.join is None:
            y: Tensor = self.dropout(states)
            return y
        positions = TokenPositions.of_row(states.shape[1], device=states.device)
        looked = self.attention(
            states,
            mask=cross(valid),
            positions=positions,
            memory=memory,
            want_weights=recorder is not None,
        )
        if recorder is not None:
            recorder.take("attention", looked.weights)
        both = torch.cat((states, looked.out), dim=-1)
        joined: Tensor = self.dropout(torch.tanh(self.join(both)))
        return joined


class _Origin(RecurrentState):
    """A state that goes back to where the source left it, when what was written is forgotten."""

    def begin_from(self, state: Tensor) -> None:
        self._first = state
        self.clear()

    def reorder(self, rows: Tensor) -> None:
        super().reorder(rows)
        self._first = self._first[rows]

    def clear(self) -> None:
        self.length = 0
        self.state = (self._first,)
