"""The recurrent baseline: a GRU encoder and a GRU decoder (Cho et al., 2014).

    memory, last = GRU(source)        h_t = GRU(y_<t, initial state last)
    without attention: logits from h_t;  with it: from tanh(W [h_t; attend(h_t, memory)])

Without attention the whole source has to pass through one vector: the bottleneck that attention
was invented for (Bahdanau et al., 2015; the form used here, which attends after the GRU step and
not before it, is that of Luong et al., 2015). Shapes: b batch, s source position, t target
position, w model width, v vocabulary. `valid`: True = a token.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from regard.attention.cache import BlockCache, ModelCache, RecurrentState
from regard.attention.masks.mask import cross
from regard.attention.mixer import Mixer
from regard.attention.token_positions import TokenPositions
from regard.batch import RowLayout
from regard.core.process.host import copy_to, is_readable
from regard.models.architectures.seq2seq_model import Seq2SeqModel, memory_of, source_of
from regard.models.blocks.attention_recorder import AttentionRecorder
from regard.models.heads.language_model_head import LanguageModelHead
from regard.models.inputs import ModelInputs
from regard.nn.dropout import Dropout
from regard.nn.linear import Linear


class RecurrentModel(Seq2SeqModel):
    token_table: ClassVar = "tokens"

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

    @property
    def attends(self) -> bool:
        return self.attention is not None

    def hidden_states(
        self,
        inputs: ModelInputs,
        *,
        cache: ModelCache | None = None,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        if cache is not None:
            memory, source_valid = memory_of(cache)
            states = self._decode(self.tokens(inputs.ids), inputs.valid, _decoder_state(cache))
        else:
            source, source_valid = source_of(inputs)
            memory, last = self._encode(source, source_valid, inputs.source_layout)
            states, _ = self.decoder(self.dropout(self.tokens(inputs.ids)), last)
        return self._attend(states, memory, source_valid, recorder=recorder)

    def encode(self, source: Tensor, valid: Tensor, layout: RowLayout | None = None) -> ModelCache:
        cache = ModelCache([BlockCache(_DecoderState())])
        cache.memory, last = self._encode(source, valid, layout)
        cache.memory_valid = valid
        _decoder_state(cache).set_initial(last.transpose(0, 1))
        return cache

    def _encode(
        self, source: Tensor, valid: Tensor, layout: RowLayout | None
    ) -> tuple[Tensor, Tensor]:
        """(b,s) -> (b,s,w) and the state after each row's last token, (layers,b,w)."""
        layout = layout or RowLayout.of(valid)  # lengths have to be known here
        lengths, order = torch.sort(torch.tensor(layout.lengths), descending=True)
        order = copy_to(order, source.device)
        x = self.dropout(self.source_tokens(source)).index_select(0, order)
        packed = pack_padded_sequence(x, lengths, batch_first=True)
        states, last = self.encoder(packed)
        unsorted = order.argsort()
        memory = _unpack(states, length=source.shape[1]).index_select(0, unsorted)
        return memory, last.index_select(1, unsorted)

    def _decode(self, x: Tensor, valid: Tensor | None, past: _DecoderState) -> Tensor:
        """(b,i,w) -> (b,i,w): the GRU's states at new tokens, after the past ones."""
        count = x.shape[1]
        state = past.state[0].transpose(0, 1).contiguous()
        new = None if valid is None else valid[:, -count:]
        if new is None or (is_readable(new) and bool(new.all())):
            states: Tensor
            states, state = self.decoder(x, state)
        else:  # padding on the left of a row leaves its state unchanged
            outputs: list[Tensor] = []
            for t, is_token in enumerate(new.unbind(dim=1)):
                output, new_state = self.decoder(x[:, t : t + 1], state)
                state = torch.where(is_token[None, :, None], new_state, state)
                outputs.append(output)
            states = torch.cat(outputs, dim=1)
        past.update([state.transpose(0, 1)], positions=count)
        return states

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


def _unpack(packed: PackedSequence, *, length: int) -> Tensor:
    """(b,s,w), 0 on padding; torch's `pad_packed_sequence` reads the device."""
    rows = int(packed.batch_sizes[0])
    flat = [
        row * length + position
        for position, count in enumerate(packed.batch_sizes.tolist())
        for row in range(count)
    ]
    index = copy_to(torch.tensor(flat), packed.data.device)
    padded = packed.data.new_zeros(rows * length, packed.data.shape[-1])
    return padded.index_copy(0, index, packed.data).view(rows, length, -1)


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


def _decoder_state(cache: ModelCache) -> _DecoderState:
    state = cache.blocks[0].self_attention
    assert isinstance(state, _DecoderState)
    return state
