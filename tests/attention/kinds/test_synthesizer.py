"""Synthesizers: weights without dot products, by hand, padded and cached, and their limits."""

import pytest
import torch
from hypothesis import given
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


def seeded_mixer(kind, shape: HeadShape = SHAPE):
    torch.manual_seed(0)
    return build_mixer(kind, shape).double().eval()


def random_inputs(seed: int, batch: int, positions: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, positions, 6, generator=generator, dtype=torch.float64)


def attention_weights(mixer, x: torch.Tensor, mask: masks.Mask | None = None) -> torch.Tensor:
    positions = TokenPositions.of_row(x.shape[1])
    return mixer(x, mask=mask or masks.causal(), positions=positions, need_weights=True).weights


def test_dense_weights_follow_the_equation():
    mixer, x = seeded_mixer(SynthesizerDense()), random_inputs(0, 2, 4)
    weights = attention_weights(mixer, x, masks.bidirectional())
    for b, h, i in ((0, 0, 0), (1, 1, 3)):
        hidden = (mixer.hidden.weight @ x[b, i] + mixer.hidden.bias).relu()
        scores = hidden[3 * h : 3 * h + 3] @ mixer.score_weight[h] + mixer.score_bias[h]
        assert torch.allclose(weights[b, h, i], scores[:4].softmax(dim=0), atol=1e-12)


def test_weights_of_the_random_synthesizer_by_hand():
    mixer = seeded_mixer(SynthesizerRandom())
    with torch.no_grad():
        mixer.pattern.copy_(torch.arange(1.0, 11.0).log().expand(2, 10, 10))
    weights = attention_weights(mixer, random_inputs(0, 1, 3))[0, 1]
    expected = [[1, 0, 0], [1 / 3, 2 / 3, 0], [1 / 6, 2 / 6, 3 / 6]]
    assert torch.allclose(weights, torch.tensor(expected).double(), atol=1e-7)


def test_factors_equal_the_full_matrix():
    factorised, full = seeded_mixer(SynthesizerRandom(rank=2)), seeded_mixer(SynthesizerRandom())
    with torch.no_grad():
        full.pattern.copy_(factorised.query_factor @ factorised.key_factor.transpose(1, 2))
    x = random_inputs(0, 2, 7)
    assert torch.allclose(attention_weights(factorised, x), attention_weights(full, x), atol=1e-12)


@every_kind
def test_a_key_does_not_change_its_own_weight(kind):
    mixer, x = seeded_mixer(kind), random_inputs(0, 1, 5)
    changed = x.clone()
    changed[:, 1] += 10.0
    before, after = attention_weights(mixer, x), attention_weights(mixer, changed)
    assert torch.equal(before[:, :, 2:], after[:, :, 2:])
    depends_on_query = isinstance(kind, SynthesizerDense)
    assert torch.equal(before[:, :, 1], after[:, :, 1]) != depends_on_query


@given(
    kind=st.sampled_from(KINDS),
    lengths=st.lists(st.integers(1, 8), min_size=1, max_size=3),
    left=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_padded_and_cached_rows_equal_rows_alone(kind, lengths, left, seed):
    mixer, longest = seeded_mixer(kind), max(lengths)
    x = random_inputs(seed, len(lengths), longest)
    positions = torch.arange(longest)
    valid = (positions.flip(0) if left else positions) < torch.tensor(lengths)[:, None]

    def forward(begin: int, end: int, cache=None) -> torch.Tensor:
        mask = masks.causal() & masks.padding(valid[:, :end])
        positions = TokenPositions(TokenPositions.of_padded(valid).ids[:, :end])
        return mixer(x[:, begin:end], mask=mask, positions=positions, cache=cache).out

    one_pass, cache = forward(0, longest), mixer.new_cache(longest)
    half = longest // 2
    pieces = [forward(0, half, cache)] if half else []
    pieces += [forward(n, n + 1, cache) for n in range(half, longest)]
    assert torch.allclose(torch.cat(pieces, dim=1), one_pass, atol=1e-12)
    for row, length in enumerate(lengths):
        alone = x[row, valid[row]][None]
        expected = mixer(alone, mask=masks.causal(), positions=TokenPositions.of_row(length)).out[0]
        assert torch.allclose(one_pass[row, valid[row]], expected, atol=1e-12)


@every_kind
def test_decoding_after_reordering_the_cache(kind):
    mixer, x = seeded_mixer(kind), random_inputs(0, 2, 5)
    order = torch.tensor([1, 1])
    cache = mixer.new_cache(5)
    mixer(x[:, :4], mask=masks.causal(), positions=TokenPositions.of_row(4), cache=cache)
    cache.reorder(order)
    last = mixer(
        x[order, 4:], mask=masks.causal(), positions=TokenPositions.of_row(5), cache=cache
    ).out
    one_pass = mixer(x, mask=masks.causal(), positions=TokenPositions.of_row(5)).out
    assert torch.allclose(last, one_pass[order, 4:], atol=1e-12)


@every_kind
@pytest.mark.parametrize("biases", [True, False])
def test_own_parameters_equals_the_built_count(kind, biases):
    shape = SHAPE._replace(biases=biases)
    built = sum(parameter.numel() for parameter in kind.build(shape).parameters())
    assert kind.own_parameters(shape) == built


@every_kind
def test_all_parameters_get_gradients(kind):
    mixer, x = seeded_mixer(kind), random_inputs(0, 2, 10)
    mixer(x, mask=masks.causal(), positions=TokenPositions.of_row(10)).out.square().sum().backward()
    for name, parameter in mixer.named_parameters():
        assert parameter.grad is not None, name
        assert float(parameter.grad.abs().max()) > 0, name


def test_a_fixed_matrix_is_saved_and_depends_on_draw_and_layer():
    def pattern(layer: int = 0, **settings: int) -> torch.Tensor:
        kind = SynthesizerRandom(trained=False, **settings)
        return kind.build(SHAPE._replace(layer=layer)).state_dict()["pattern"]

    assert torch.equal(pattern(), pattern())
    assert not torch.equal(pattern(), pattern(layer=1))
    assert not torch.equal(pattern(), pattern(draw=1))
    assert not torch.equal(pattern()[0], pattern()[1])


@every_kind
def test_fully_masked_rows_are_zeros(kind):
    mixer = seeded_mixer(kind, SHAPE._replace(biases=False))
    nothing = ~masks.bidirectional()
    out = mixer(random_inputs(0, 2, 3), mask=nothing, positions=TokenPositions.of_row(3)).out
    assert torch.equal(out, torch.zeros_like(out))


@every_kind
def test_dropout_differs_between_rows(kind):
    mixer = seeded_mixer(kind, SHAPE._replace(dropout=0.5)).train()
    x = random_inputs(0, 1, 6).expand(2, 6, 6)
    torch.manual_seed(0)
    out = mixer(x, mask=masks.causal(), positions=TokenPositions.of_row(6)).out
    assert not torch.allclose(out[0], out[1])
    mixer.eval()
    out = mixer(x, mask=masks.causal(), positions=TokenPositions.of_row(6)).out
    assert torch.allclose(out[0], out[1])


@every_kind
def test_a_row_beyond_the_context_is_refused(kind):
    mixer = seeded_mixer(kind)
    with pytest.raises(UserError, match=r"11 positions.*model\.context = 10"):
        mixer(random_inputs(0, 1, 11), mask=masks.causal(), positions=TokenPositions.of_row(11))
    # Padding does not count towards the context.
    valid = torch.arange(11)[None] > 0
    mask = masks.causal() & masks.padding(valid)
    assert (
        mixer(random_inputs(0, 1, 11), mask=mask, positions=TokenPositions.of_padded(valid))
        .out.isfinite()
        .all()
    )


def test_cross_attention_is_refused():
    mixer = seeded_mixer(SynthesizerDense())
    with pytest.raises(UserError, match="another sequence"):
        mixer(
            random_inputs(0, 1, 3),
            mask=masks.bidirectional(),
            positions=TokenPositions.of_row(3),
            memory=random_inputs(1, 1, 3),
        )


def test_a_draw_too_large_for_a_seed_is_refused():
    with pytest.raises(UserError, match="draw"):
        read_settings(SynthesizerRandom, {"draw": 2**31})
    largest = SynthesizerRandom(draw=2**31 - 1, trained=False)
    largest.build(HeadShape(width=2, heads=1, context=3, layer=99))
