"""What every position kind owes, whoever wrote it: the catalogue is walked, not listed."""

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
from regard.core.settings import read_settings, to_table

ACTS = {"not at all", "on the embedding", "on queries and keys", "on the scores"}
CONTEXT = 16


def settings_of(name: str) -> PositionKind:
    made = POSITIONS.get(name).part()
    assert isinstance(made, PositionKind)
    return made


class Stage(nn.Module):
    """One attention with the positions where they belong, random but for the seed."""

    def __init__(self, name: str, *, heads: int = 3, key_value_heads: int = 0) -> None:
        super().__init__()
        shape = HeadShape(width=4, heads=heads, context=CONTEXT)
        made = settings_of(name)
        self.vectors = made.build_embedding(width=shape.model_width, context=CONTEXT)
        self.mixer: Mixer = build_mixer(
            Dot(),
            shape,
            key_value_heads=key_value_heads,
            relative_position=made.build_relative_position(shape),
        )
        self.double()
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator).double())

    def forward(self, x, mask, positions, cache=None):
        if self.vectors is not None:
            x = x + self.vectors(positions.last(x.shape[1]))
        return self.mixer(x, mask=mask, positions=positions, cache=cache).out


def rows(seed: int, batch: int, length: int, *, width: int = 12) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, length, width, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("name", POSITIONS.names())
class TestEveryPosition:
    def test_is_documented_and_found(self, name):
        entry = POSITIONS.get(name)
        assert entry.summary
        assert entry.properties["reach"]
        assert entry.properties["acts"] in ACTS
        for field, about in entry.part.model_fields.items():
            assert about.description, field

    def test_acts_where_it_says(self, name):
        made, acts = settings_of(name), POSITIONS.get(name).properties["acts"]
        shape = HeadShape(width=4, heads=3, context=CONTEXT)
        relative_position = made.build_relative_position(shape)
        vectors = made.build_embedding(width=8, context=CONTEXT)
        assert (vectors is not None) == (acts == "on the embedding")
        sorts = {"on queries and keys": "rotation", "on the scores": "bias"}
        assert made.relative_type == sorts.get(acts)
        assert (relative_position is not None) == (acts in sorts)
        if relative_position is not None:
            x, row = rows(0, 1, 5, width=4)[:, None], torch.arange(5)[None]
            turned = not torch.equal(relative_position.double().rotate(x, row), x)
            assert turned == (acts == "on queries and keys")
            assert (relative_position.bias(row, row) is not None) == (acts == "on the scores")

    def test_settings_survive_a_recipe(self, name):
        made = settings_of(name)
        if isinstance(made, AbsolutePositionKind):
            made = type(made)(combine="concatenate", position_width=4)
        assert read_settings(type(made), to_table(made)) == made

    def test_parameters_are_counted_by_formula(self, name):
        made = settings_of(name)
        for heads, width, context in [(1, 2, 1), (3, 4, 7), (2, 6, 40)]:
            shape = HeadShape(width=width, heads=heads, context=context)
            for part, formula in [
                (made.build_relative_position(shape), made.relative_parameters(shape)),
                (
                    made.build_embedding(width=width, context=context),
                    made.embedding_parameters(width=width, context=context),
                ),
            ]:
                counted = 0 if part is None else sum(p.numel() for p in part.parameters())
                assert counted == formula

    def test_places_have_vectors_of_their_own(self, name):
        module = settings_of(name).build_embedding(width=8, context=CONTEXT)
        if module is None:
            return  # it acts elsewhere: test_order_is_seen asks the same of every kind
        vectors = module(torch.arange(CONTEXT)).detach()
        assert vectors.shape == (CONTEXT, 8)
        distances = torch.cdist(vectors, vectors) + torch.eye(CONTEXT)
        assert float(distances.min()) > 1e-3

    def test_order_is_seen(self, name):
        """Without a mask, tokens in another order give other outputs, unless nothing tells it."""
        stage, x, order = Stage(name), rows(0, 1, 6), torch.tensor([3, 1, 0, 5, 4, 2])
        positions = TokenPositions.of_row(6)
        out = stage(x, bidirectional(), positions)[:, order]
        moved = stage(x[:, order], bidirectional(), positions)
        blind = POSITIONS.get(name).properties["acts"] == "not at all"
        assert torch.allclose(out, moved, atol=1e-9) == blind

    def test_gradients_reach_what_is_trained(self, name):
        stage = Stage(name)
        stage(
            rows(0, 2, CONTEXT), bidirectional(), TokenPositions.of_row(CONTEXT)
        ).square().sum().backward()
        parts = [
            part for part in (stage.vectors, stage.mixer.relative_position) if part is not None
        ]
        for parameter in (p for part in parts for p in part.parameters()):
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
        stage = Stage(name, key_value_heads=key_value_heads)
        whole = before + length + after
        x, other = rows(seed, 1, length), rows(seed + 1, 1, whole)
        padded = torch.cat((rows(seed + 2, 1, before), x, rows(seed + 3, 1, after)), dim=1)
        valid = torch.ones(2, whole, dtype=torch.bool)
        valid[0, :before] = valid[0, before + length :] = False
        mask = causal() & padding(valid)
        together = stage(torch.cat((padded, other)), mask, TokenPositions.of_padded(valid))
        alone = stage(x, causal(), TokenPositions.of_row(length))
        assert torch.allclose(together[:1, before : before + length], alone, atol=1e-12)
        assert torch.allclose(
            together[1:], stage(other, causal(), TokenPositions.of_row(whole)), atol=1e-12
        )

    @settings(max_examples=15, deadline=None)
    @given(
        pieces=st.lists(st.integers(1, 4), min_size=1, max_size=4),
        before=st.integers(0, 6),
        key_value_heads=st.sampled_from([0, 1]),
        seed=st.integers(0, 999),
    )
    def test_cached_equals_whole(self, name, pieces, before, key_value_heads, seed):
        """In pieces through the cache, one row beginning later than the other."""
        length = sum(pieces)
        stage, x = Stage(name, key_value_heads=key_value_heads), rows(seed, 2, length)
        valid = torch.ones(2, length, dtype=torch.bool)
        valid[0, :before] = False
        whole = stage(x, causal() & padding(valid), TokenPositions.of_padded(valid))
        cache, outs = stage.mixer.new_cache(length), []
        for end, piece in zip(accumulate(pieces), pieces, strict=True):
            seen = valid[:, :end]
            mask, positions = causal() & padding(seen), TokenPositions.of_padded(seen)
            outs.append(stage(x[:, end - piece : end], mask, positions, cache))
        assert torch.allclose(torch.cat(outs, dim=1), whole, atol=1e-12)

    def test_saved_and_loaded_is_the_same(self, name):
        stage, again = Stage(name), Stage(name)
        with torch.no_grad():
            for parameter in again.parameters():
                parameter.zero_()
        again.load_state_dict(load(save(stage.state_dict())))
        x, positions = rows(0, 2, 9), TokenPositions.of_row(9)
        assert torch.equal(again(x, causal(), positions), stage(x, causal(), positions))
