"""Synthesizers: weights without comparing places, by hand, padded, cached, and their bounds."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention.function import HeadShape
from regard.attention.kinds.synthesizer_dense import SynthesizerDense
from regard.attention.kinds.synthesizer_random import SynthesizerRandom
from regard.attention.masks import mask as masks
from regard.attention.multi_head import build_mixer
from regard.attention.token_positions import TokenPositions
from regard.core.errors import UserError
from regard.core.settings import read_settings

SHAPE = HeadShape(width=3, heads=2, context=10)
KINDS = [
    SynthesizerDense(),
    SynthesizerRandom(),
    SynthesizerRandom(rank=2),
    SynthesizerRandom(trained=False),
    SynthesizerRandom(trained=False, rank=1),
]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=repr)


def mixer_of(kind, shape: HeadShape = SHAPE):
    torch.manual_seed(0)
    return build_mixer(kind, shape).double().eval()


def rows(seed: int, batch: int, positions: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, positions, 6, generator=generator, dtype=torch.float64)


def weights_of(mixer, x: torch.Tensor, mask: masks.Mask | None = None) -> torch.Tensor:
    positions = TokenPositions.of_row(x.shape[1])
    return mixer(x, mask=mask or masks.causal(), positions=positions, need_weights=True).weights


def test_dense_weights_follow_the_equation():
    mixer, x = mixer_of(SynthesizerDense()), rows(0, 2, 4)
    weights = weights_of(mixer, x, masks.bidirectional())
    for b, h, i in ((0, 0, 0), (1, 1, 3)):
        hidden = (mixer.hidden.weight @ x[b, i] + mixer.hidden.bias).relu()
        scores = hidden[3 * h : 3 * h + 3] @ mixer.score_weight[h] + mixer.score_bias[h]
        assert torch.allclose(weights[b, h, i], scores[:4].softmax(dim=0), atol=1e-12)


def test_random_weights_by_hand():
    mixer = mixer_of(SynthesizerRandom())
    with torch.no_grad():
        mixer.pattern.copy_(torch.arange(1.0, 11.0).log().expand(2, 10, 10))
    weights = weights_of(mixer, rows(0, 1, 3))[0, 1]
    expected = [[1, 0, 0], [1 / 3, 2 / 3, 0], [1 / 6, 2 / 6, 3 / 6]]
    assert torch.allclose(weights, torch.tensor(expected).double(), atol=1e-7)


def test_factors_multiply_to_the_full_matrix():
    factorised, full = mixer_of(SynthesizerRandom(rank=2)), mixer_of(SynthesizerRandom())
    with torch.no_grad():
        full.pattern.copy_(factorised.query_factor @ factorised.key_factor.transpose(1, 2))
    x = rows(0, 2, 7)
    assert torch.allclose(weights_of(factorised, x), weights_of(full, x), atol=1e-12)


@every_kind
def test_what_a_key_says_does_not_change_its_weight(kind):
    mixer, x = mixer_of(kind), rows(0, 1, 5)
    other = x.clone()
    other[:, 1] += 10.0
    before, after = weights_of(mixer, x), weights_of(mixer, other)
    assert torch.equal(before[:, :, 2:], after[:, :, 2:])
    looks_at_itself = isinstance(kind, SynthesizerDense)
    assert torch.equal(before[:, :, 1], after[:, :, 1]) != looks_at_itself


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    lengths=st.lists(st.integers(1, 8), min_size=1, max_size=3),
    on_the_left=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_padded_rows_give_what_they_give_alone_also_through_the_cache(
    kind, lengths, on_the_left, seed
):
    mixer, longest = mixer_of(kind), max(lengths)
    x = rows(seed, len(lengths), longest)
    place = torch.arange(longest)
    valid = (place.flip(0) if on_the_left else place) < torch.tensor(lengths)[:, None]

    def read(begin: int, end: int, cache=None) -> torch.Tensor:
        mask = masks.causal() & masks.padding(valid[:, :end])
        positions = TokenPositions(TokenPositions.of_padded(valid).ids[:, :end])
        return mixer(x[:, begin:end], mask=mask, positions=positions, cache=cache).out

    whole, cache = read(0, longest), mixer.new_cache(longest)
    half = longest // 2
    pieces = [read(0, half, cache)] if half else []
    pieces += [read(n, n + 1, cache) for n in range(half, longest)]
    assert torch.allclose(torch.cat(pieces, dim=1), whole, atol=1e-12)
    for row, length in enumerate(lengths):
        alone = x[row, valid[row]][None]
        expected = mixer(alone, mask=masks.causal(), positions=TokenPositions.of_row(length)).out[0]
        assert torch.allclose(whole[row, valid[row]], expected, atol=1e-12)


@every_kind
def test_a_reordered_cache_takes_the_past_along(kind):
    mixer, x = mixer_of(kind), rows(0, 2, 5)
    order = torch.tensor([1, 1])
    cache = mixer.new_cache(5)
    mixer(x[:, :4], mask=masks.causal(), positions=TokenPositions.of_row(4), cache=cache)
    cache.reorder(order)
    last = mixer(
        x[order, 4:], mask=masks.causal(), positions=TokenPositions.of_row(5), cache=cache
    ).out
    whole = mixer(x, mask=masks.causal(), positions=TokenPositions.of_row(5)).out
    assert torch.allclose(last, whole[order, 4:], atol=1e-12)


@every_kind
@pytest.mark.parametrize("biases", [True, False])
def test_parameters_are_those_of_the_formula(kind, biases):
    shape = SHAPE._replace(biases=biases)
    counted = sum(parameter.numel() for parameter in kind.build(shape).parameters())
    assert kind.own_parameters(shape) == counted


@every_kind
def test_everything_that_is_trained_gets_a_gradient(kind):
    mixer, x = mixer_of(kind), rows(0, 2, 10)
    mixer(x, mask=masks.causal(), positions=TokenPositions.of_row(10)).out.square().sum().backward()
    for name, parameter in mixer.named_parameters():
        assert parameter.grad is not None, name
        assert float(parameter.grad.abs().max()) > 0, name


def test_a_fixed_matrix_is_saved_and_follows_its_number_and_layer():
    def pattern(layer: int = 0, **given: int) -> torch.Tensor:
        kind = SynthesizerRandom(trained=False, **given)
        return kind.build(SHAPE._replace(layer=layer)).state_dict()["pattern"]

    assert torch.equal(pattern(), pattern())
    assert not torch.equal(pattern(), pattern(layer=1))
    assert not torch.equal(pattern(), pattern(draw=1))
    assert not torch.equal(pattern()[0], pattern()[1])


@every_kind
def test_an_empty_row_is_zeros(kind):
    mixer = mixer_of(kind, SHAPE._replace(biases=False))
    nothing = ~masks.bidirectional()
    out = mixer(rows(0, 2, 3), mask=nothing, positions=TokenPositions.of_row(3)).out
    assert torch.equal(out, torch.zeros_like(out))


@every_kind
def test_dropout_takes_weights_of_each_row_by_itself(kind):
    mixer = mixer_of(kind, SHAPE._replace(dropout=0.5)).train()
    x = rows(0, 1, 6).expand(2, 6, 6)
    torch.manual_seed(0)
    out = mixer(x, mask=masks.causal(), positions=TokenPositions.of_row(6)).out
    assert not torch.allclose(out[0], out[1])
    mixer.eval()
    out = mixer(x, mask=masks.causal(), positions=TokenPositions.of_row(6)).out
    assert torch.allclose(out[0], out[1])


@every_kind
def test_a_row_beyond_the_context_is_refused(kind):
    mixer = mixer_of(kind)
    with pytest.raises(UserError, match=r"11 positions.*model\.context = 10"):
        mixer(rows(0, 1, 11), mask=masks.causal(), positions=TokenPositions.of_row(11))
    # A row that is only padded beyond the context fits: its own positions count.
    valid = torch.arange(11)[None] > 0
    mask = masks.causal() & masks.padding(valid)
    assert (
        mixer(rows(0, 1, 11), mask=mask, positions=TokenPositions.of_padded(valid))
        .out.isfinite()
        .all()
    )


def test_another_sequence_is_refused():
    mixer = mixer_of(SynthesizerDense())
    with pytest.raises(UserError, match="another sequence"):
        mixer(
            rows(0, 1, 3),
            mask=masks.bidirectional(),
            positions=TokenPositions.of_row(3),
            memory=rows(1, 1, 3),
        )


def test_a_draw_that_no_generator_takes_is_refused_as_a_setting():
    with pytest.raises(UserError, match="draw"):
        read_settings(SynthesizerRandom, {"draw": 2**31})
    most = SynthesizerRandom(draw=2**31 - 1, trained=False)
    most.build(HeadShape(width=2, heads=1, context=3, layer=99))
