"""The recurrent baseline: a GRU encoder and a GRU decoder (Cho et al., 2014).

    memory, last = GRU(source)        h_t = GRU(y_<t, initial state last)
    without attention: logits from h_t;  with it: from tanh(W [h_t; attend(h_t, memory)])

Without attention the whole source has to pass through one vector: the bottleneck that attention
was invented for (Bahdanau et al., 2015; the form used here, which attends after the GRU step and
not before it, is that of Luong et al., 2015). Shapes: b batch, s source position, t target
position, w model width, v vocabulary. `valid`: True = a token.
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
from regard.models.architectures.source_bound_decoder import seq2seq_audit_subject
from regard.models.blocks.attention_recorder import AttentionRecorder
from regard.models.heads.language_model_head import LanguageModelHead
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
            # No norm rescales small values here: at a Transformer's std of 0.02 attention outputs
            # and token embeddings are negligible beside the state, and the model with attention
            # learns later than the one without.
            if isinstance(module, nn.Linear | nn.Embedding):
                module.init_std = module.weight.shape[1] ** -0.5

    def hidden_states(
        self,
        ids: Tensor,
        *,
        source: Tensor,
        source_valid: Tensor,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        memory, last = self.encode(source, source_valid)
        states, _ = self.decoder(self.dropout(self.tokens(ids)), last)
        return self._attend(states, memory, source_valid, recorder=recorder)

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
        cache = ModelCache([BlockCache(_DecoderState())])
        cache.memory, last = self.encode(source, valid)
        cache.memory_valid = valid
        decoder_state = cache.blocks[0].self_attention
        assert isinstance(decoder_state, _DecoderState)
        decoder_state.set_initial(last.transpose(0, 1))
        return cache

    def step(self, ids: Tensor, *, valid: Tensor, cache: ModelCache) -> Tensor:
        decoder_state = cache.blocks[0].self_attention
        assert isinstance(decoder_state, _DecoderState)
        assert cache.memory is not None
        assert cache.memory_valid is not None
        x = self.tokens(ids)
        new_valid = valid[:, valid.shape[1] - ids.shape[1] :]
        state = decoder_state.state[0].transpose(0, 1).contiguous()
        if bool(new_valid.all()):
            states, state = self.decoder(x, state)
        else:  # padding on the left of a row leaves its state unchanged
            outputs = []
            for t in range(ids.shape[1]):
                output, new_state = self.decoder(x[:, t : t + 1], state)
                state = torch.where(new_valid[None, :, t, None], new_state, state)
                outputs.append(output)
            states = torch.cat(outputs, dim=1)
        decoder_state.update([state.transpose(0, 1)], positions=ids.shape[1])
        y: Tensor = self.head(self._attend(states, cache.memory, cache.memory_valid))
        return y

    def audit_subject(self) -> Subject:
        return seq2seq_audit_subject(
            self,
            name="recurrent",
            vocabulary=self.tokens.num_embeddings,
            embedding="tokens",
            weights=None if self.attention is None else {"recorder": AttentionRecorder},
        )

    def _attend(
        self,
        states: Tensor,
        memory: Tensor,
        valid: Tensor,
        *,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        """The head's input: the decoder states, joined with their attention outputs if there is
        attention."""
        if self.attention is None or self.join is None:
            y: Tensor = self.dropout(states)
            return y
        positions = TokenPositions.of_row(states.shape[1], device=states.device)
        attended = self.attention(
            states,
            mask=cross(valid),
            positions=positions,
            memory=memory,
            need_weights=recorder is not None,
        )
        if recorder is not None:
            recorder.record("attention", attended.weights)
        states_and_context = torch.cat((states, attended.out), dim=-1)
        joined: Tensor = self.dropout(torch.tanh(self.join(states_and_context)))
        return joined


class _DecoderState(RecurrentState):
    """The GRU state of the decoder; clearing resets it to the encoder's last state."""

    def set_initial(self, state: Tensor) -> None:
        self._initial = state
        self.clear()

    def reorder(self, rows: Tensor) -> None:
        super().reorder(rows)
        self._initial = self._initial[rows]

    def clear(self) -> None:
        self.length = 0
        self.state = (self._initial,)
