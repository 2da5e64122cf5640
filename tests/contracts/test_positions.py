"""Properties of every position kind of the catalogue."""

from itertools import accumulate

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save
from torch import nn

from regard.attention.function import HeadShape
from regard.attention.kinds.dot import Dot
from regard.attention.masks.mask import bidirectional, causal, padding
from regard.attention.mixer import Mixer
from regard.attention.multi_head import build_mixer
from regard.attention.positions import POSITIONS, AbsolutePositionKind, PositionKind
from regard.attention.token_positions import TokenPositions
from regard.core.setting_docs import setting_docs
from regard.core.settings import read_settings, to_table

ACTS = {"not at all", "on the embedding", "on queries and keys", "on the scores"}
CONTEXT = 16


def default_settings(name: str) -> PositionKind:
    position = POSITIONS.get(name).part()
    assert isinstance(position, PositionKind)
    return position


class AttentionWithPositions(nn.Module):
    """One attention layer with the position embedding or relative position, randomly
    initialised."""

    def __init__(self, name: str, *, heads: int = 3, key_value_heads: int = 0) -> None:
        super().__init__()
        shape = HeadShape(width=4, heads=heads, context=CONTEXT)
        position = default_settings(name)
        self.embedding = position.build_embedding(width=shape.model_width, context=CONTEXT)
        self.mixer: Mixer = build_mixer(
            Dot(),
            shape,
            key_value_heads=key_value_heads,
            relative_position=position.build_relative_position(shape),
        )
        self.double()
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator).double())

    def forward(self, x, mask, positions, cache=None):
        if self.embedding is not None:
            x = x + self.embedding(positions.last(x.shape[1]))
        return self.mixer(x, mask=mask, positions=positions, cache=cache).out


def random_inputs(seed: int, batch: int, length: int, *, width: int = 12) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, length, width, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("name", POSITIONS.names())
class TestEveryPosition:
    def test_is_documented(self, name):
        entry = POSITIONS.get(name)
        assert entry.summary
        assert entry.properties["reach"]
        assert entry.properties["acts"] in ACTS
        assert setting_docs(entry.part).keys() >= entry.part.model_fields.keys()

    def test_acts_where_it_declares(self, name):
        position, acts = default_settings(name), POSITIONS.get(name).properties["acts"]
        shape = HeadShape(width=4, heads=3, context=CONTEXT)
        relative_position = position.build_relative_position(shape)
        embedding = position.build_embedding(width=8, context=CONTEXT)
        assert (embedding is not None) == (acts == "on the embedding")
        types = {"on queries and keys": "rotation", "on the scores": "bias"}
        assert position.relative_type == types.get(acts)
        assert (relative_position is not None) == (acts in types)
        if relative_position is not None:
            x, row = random_inputs(0, 1, 5, width=4)[:, None], torch.arange(5)[None]
            rotates = not torch.equal(relative_position.double().rotate(x, row), x)
            assert rotates == (acts == "on queries and keys")
            assert (relative_position.bias(row, row) is not None) == (acts == "on the scores")

    def test_settings_survive_a_recipe(self, name):
        position = default_settings(name)
        if isinstance(position, AbsolutePositionKind):
            position = type(position)(combine="concatenate", position_width=4)
        assert read_settings(type(position), to_table(position)) == position

    def test_parameters_are_counted_by_formula(self, name):
        position = default_settings(name)
        for heads, width, context in [(1, 2, 1), (3, 4, 7), (2, 6, 40)]:
            shape = HeadShape(width=width, heads=heads, context=context)
            for module, formula in [
                (position.build_relative_position(shape), position.relative_parameters(shape)),
                (
                    position.build_embedding(width=width, context=context),
                    position.embedding_parameters(width=width, context=context),
                ),
            ]:
                built = 0 if module is None else sum(p.numel() for p in module.parameters())
                assert built == formula

    def test_position_embeddings_differ(self, name):
        module = default_settings(name).build_embedding(width=8, context=CONTEXT)
        if module is None:
            return  # covered by test_outputs_depend_on_the_order
        embeddings = module(torch.arange(CONTEXT)).detach()
        assert embeddings.shape == (CONTEXT, 8)
        distances = torch.cdist(embeddings, embeddings) + torch.eye(CONTEXT)
        assert float(distances.min()) > 1e-3

    def test_outputs_depend_on_the_order(self, name):
        """Without a mask, outputs are permutation-equivariant only if there are no positions."""
        attention, x = AttentionWithPositions(name), random_inputs(0, 1, 6)
        order, positions = torch.tensor([3, 1, 0, 5, 4, 2]), TokenPositions.of_row(6)
        out = attention(x, bidirectional(), positions)[:, order]
        permuted = attention(x[:, order], bidirectional(), positions)
        is_equivariant = POSITIONS.get(name).properties["acts"] == "not at all"
        assert torch.allclose(out, permuted, atol=1e-9) == is_equivariant

    def test_all_parameters_get_gradients(self, name):
        attention = AttentionWithPositions(name)
        x, positions = random_inputs(0, 2, CONTEXT), TokenPositions.of_row(CONTEXT)
        attention(x, bidirectional(), positions).square().sum().backward()
        for module in (attention.embedding, attention.mixer.relative_position):
            for parameter in () if module is None else module.parameters():
                assert (parameter.grad.abs() > 1e-9).all()

    @settings(max_examples=15, deadline=None)
    @given(
        length=st.integers(1, 8),
        before=st.integers(0, 4),
        after=st.integers(0, 4),
        key_value_heads=st.sampled_from([0, 1]),
        seed=st.integers(0, 999),
    )
    def test_padded_equals_unpadded(self, name, length, before, after, key_value_heads, seed):
        """On both sides; the other row of the batch is full, so positions differ between rows."""
        attention = AttentionWithPositions(name, key_value_heads=key_value_heads)
        total = before + length + after
        x, other = random_inputs(seed, 1, length), random_inputs(seed + 1, 1, total)
        left, right = random_inputs(seed + 2, 1, before), random_inputs(seed + 3, 1, after)
        padded = torch.cat((left, x, right), dim=1)
        valid = torch.ones(2, total, dtype=torch.bool)
        valid[0, :before] = valid[0, before + length :] = False
        mask = causal() & padding(valid)
        together = attention(torch.cat((padded, other)), mask, TokenPositions.of_padded(valid))
        alone = attention(x, causal(), TokenPositions.of_row(length))
        assert torch.allclose(together[:1, before : before + length], alone, atol=1e-12)
        alone = attention(other, causal(), TokenPositions.of_row(total))
        assert torch.allclose(together[1:], alone, atol=1e-12)

    @settings(max_examples=15, deadline=None)
    @given(
        pieces=st.lists(st.integers(1, 4), min_size=1, max_size=4),
        before=st.integers(0, 6),
        key_value_heads=st.sampled_from([0, 1]),
        seed=st.integers(0, 999),
    )
    def test_cached_equals_one_pass(self, name, pieces, before, key_value_heads, seed):
        """In pieces through the cache; one row is padded on the left."""
        length = sum(pieces)
        attention = AttentionWithPositions(name, key_value_heads=key_value_heads)
        x = random_inputs(seed, 2, length)
        valid = torch.ones(2, length, dtype=torch.bool)
        valid[0, :before] = False
        expected = attention(x, causal() & padding(valid), TokenPositions.of_padded(valid))
        cache, outs = attention.mixer.new_cache(length), []
        for end, piece in zip(accumulate(pieces), pieces, strict=True):
            so_far = valid[:, :end]
            mask, positions = causal() & padding(so_far), TokenPositions.of_padded(so_far)
            outs.append(attention(x[:, end - piece : end], mask, positions, cache))
        assert torch.allclose(torch.cat(outs, dim=1), expected, atol=1e-12)

    def test_save_and_load(self, name):
        attention, loaded = AttentionWithPositions(name), AttentionWithPositions(name)
        with torch.no_grad():
            for parameter in loaded.parameters():
                parameter.zero_()
        loaded.load_state_dict(load(save(attention.state_dict())))
        x, positions = random_inputs(0, 2, 9), TokenPositions.of_row(9)
        assert torch.equal(loaded(x, causal(), positions), attention(x, causal(), positions))
