"""Position kinds: their formulas, and errors for invalid settings."""

import cmath
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention.attend import attend
from regard.attention.function import HeadShape
from regard.attention.masks.mask import bidirectional, causal
from regard.attention.positions import RelativePosition
from regard.attention.positions.alibi import Alibi, alibi_slopes
from regard.attention.positions.learned import Learned
from regard.attention.positions.relative import Relative
from regard.attention.positions.rotary import Rotary
from regard.attention.positions.sinusoidal import Sinusoidal
from regard.attention.token_positions import TokenPositions
from regard.core.errors import UserError

positions = st.integers(0, 5000)


def normal(seed: int, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


class TestSinusoidal:
    def test_the_formula(self):
        table = Sinusoidal().build_embedding(width=6, context=50)(torch.arange(50))
        for t, c in [(0, 0), (7, 1), (49, 2)]:
            angle = t / 10_000 ** (2 * c / 6)
            assert math.isclose(float(table[t, 2 * c]), math.sin(angle), abs_tol=1e-7)
            assert math.isclose(float(table[t, 2 * c + 1]), math.cos(angle), abs_tol=1e-7)

    def test_nearby_positions_have_larger_inner_products(self):
        table = Sinusoidal().build_embedding(width=48, context=100)(torch.arange(100))
        products = table[50] @ table.T
        assert products[50] > products[51] > products[55] > products[70]

    def test_an_odd_width_is_refused(self):
        with pytest.raises(UserError, match=r"47 is odd.*even model\.width"):
            Sinusoidal().build_embedding(width=47, context=10)
        concatenated = Sinusoidal(combine="concatenate", position_width=5)
        with pytest.raises(UserError, match=r"5 is odd.*even model\.positions\.position_width"):
            concatenated.build_embedding(width=concatenated.embedding_width(48), context=10)


class TestConcatenatedWidth:
    @pytest.mark.parametrize("kind", [Sinusoidal, Learned])
    @pytest.mark.parametrize("width", range(1, 70))
    def test_the_default_width_can_be_built_for_every_model_width(self, kind, width: int):
        settings = kind(combine="concatenate")
        default = settings.embedding_width(width)
        settings.build_embedding(width=default, context=3)
        is_even_quarter = kind is Sinusoidal and default == width // 4 - 1
        assert default == width // 4 or default in (1, 2) or is_even_quarter

    def test_position_width_overrides_the_default(self):
        assert Sinusoidal(combine="concatenate", position_width=6).embedding_width(64) == 6
        assert Sinusoidal(position_width=6).embedding_width(64) == 64


class TestRotary:
    @staticmethod
    def rotation(width: int = 8, **options: float) -> RelativePosition:
        return Rotary(**options).build_relative_position(HeadShape(width=width, heads=2))

    @settings(max_examples=50, deadline=None)
    @given(
        position=positions,
        pairs=st.integers(1, 6),
        base=st.floats(2.0, 1e6),
        seed=st.integers(0, 99),
    )
    def test_each_pair_is_rotated_as_a_complex_number(self, position, pairs, base, seed):
        x = normal(seed, 1, 1, 1, 2 * pairs)
        rotation = self.rotation(2 * pairs, base=base)
        rotated = rotation.rotate(x, torch.tensor([[position]])).flatten()
        for c in range(pairs):
            pair = complex(x[0, 0, 0, c], x[0, 0, 0, c + pairs])
            expected = pair * cmath.exp(1j * position * base ** (-2 * c / (2 * pairs)))
            assert math.isclose(float(rotated[c]), expected.real, abs_tol=1e-9)
            assert math.isclose(float(rotated[c + pairs]), expected.imag, abs_tol=1e-9)

    @settings(max_examples=50, deadline=None)
    @given(i=positions, j=positions, shift=positions, seed=st.integers(0, 99))
    def test_scores_depend_on_the_distance_alone(self, i, j, shift, seed):
        rotation = self.rotation()
        q, k = normal(seed, 2, 1, 1, 1, 8)

        def score(query: int, key: int) -> float:
            rotated = rotation.rotate(q, torch.tensor([[query]]))
            return float((rotated * rotation.rotate(k, torch.tensor([[key]]))).sum())

        assert math.isclose(score(i, j), score(i + shift, j + shift), abs_tol=1e-9)

    def test_scores_differ_between_distances(self):
        rotation = self.rotation()
        q = normal(0, 1, 1, 1, 8).expand(1, 1, 5, 8)
        scores = rotation.rotate(q, torch.arange(5)[None]) @ q[0, 0, 0]
        assert len(set(scores.flatten().tolist())) == 5

    @given(position=positions, seed=st.integers(0, 99))
    @settings(max_examples=20, deadline=None)
    def test_rotation_keeps_norms(self, position, seed):
        x = normal(seed, 2, 3, 4, 8)
        rotated = self.rotation().rotate(x, torch.full((1, 4), position))
        assert torch.allclose(rotated.norm(dim=-1), x.norm(dim=-1), atol=1e-12)

    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
    def test_far_positions_are_rotated_precisely(self, dtype):
        x = normal(0, 1, 1, 1, 8).to(dtype)
        far = torch.tensor([[100_003]])
        rotated = self.rotation().rotate(x, far)
        assert rotated.dtype == dtype
        exact = self.rotation().rotate(x.double(), far)
        assert float((rotated.double() - exact).abs().max()) <= 8 * torch.finfo(dtype).eps

    def test_an_odd_head_width_is_refused(self):
        with pytest.raises(UserError, match=r"head of 5 .*width 15.*heads 3"):
            Rotary().build_relative_position(HeadShape(width=5, heads=3))


class TestAlibi:
    def test_slopes_for_a_power_of_two(self):
        assert alibi_slopes(8) == [2.0**-n for n in range(1, 9)]
        assert alibi_slopes(1) == [2.0**-8]
        assert alibi_slopes(16)[:2] == [2.0**-0.5, 2.0**-1]

    def test_slopes_for_other_numbers_of_heads(self):
        assert alibi_slopes(3) == [2.0**-4, 2.0**-8, 2.0**-2]
        assert alibi_slopes(12) == [
            *(2.0**-n for n in range(1, 9)),
            *(2.0**-n for n in (0.5, 1.5, 2.5, 3.5)),
        ]
        for heads in range(1, 40):
            assert len(set(alibi_slopes(heads))) == heads

    def test_the_bias_is_proportional_to_the_distance(self):
        relative_position = Alibi().build_relative_position(HeadShape(width=4, heads=2))
        bias = relative_position.bias(torch.tensor([[3, 4]]), torch.arange(5)[None])
        assert bias.shape == (1, 2, 2, 5)
        assert torch.equal(bias[0, 0], -torch.tensor([[3.0, 2, 1, 0, 1], [4, 3, 2, 1, 0]]) / 16)
        assert not relative_position.state_dict()
        assert not list(relative_position.parameters())


class TestRelative:
    @staticmethod
    def random_bias(clip: int = 0, *, heads: int = 2, context: int = 6) -> RelativePosition:
        relative_position = (
            Relative(clip=clip).build_relative_position(HeadShape(4, heads, context)).double()
        )
        with torch.no_grad():
            relative_position.table.copy_(normal(0, *relative_position.table.shape))
        return relative_position

    @pytest.mark.parametrize("clip", [0, 1, 3, 5])
    def test_the_bias_is_looked_up_by_clipped_distance(self, clip):
        relative_position, maximum = self.random_bias(clip), clip or 5
        queries, keys = torch.tensor([[0, 5, 2], [4, 1, 0]]), torch.tensor([[5, 0], [3, 3]])
        bias = relative_position.bias(queries, keys)
        assert bias.shape == (2, 2, 3, 2)
        for b, h, i, j in torch.cartesian_prod(*map(torch.arange, bias.shape)).tolist():
            distance = int(keys[b, j] - queries[b, i])
            column = max(-maximum, min(maximum, distance)) + maximum
            assert bias[b, h, i, j] == relative_position.table[h, column]

    def test_one_parameter_per_distance_and_head(self):
        shape = HeadShape(width=4, heads=3, context=100)
        assert Relative().relative_parameters(shape) == (2 * (100 - 1) + 1) * 3
        assert Relative(clip=8).relative_parameters(shape) == (2 * 8 + 1) * 3
        assert Relative().relative_parameters(HeadShape(4, 3, context=1)) == 3

    def test_a_clip_beyond_the_context_is_refused(self):
        assert Relative(clip=9).build_relative_position(HeadShape(4, 2, context=10))
        with pytest.raises(UserError, match=r"model\.positions\.clip.* 10,.*context − 1 = 9"):
            Relative(clip=10).build_relative_position(HeadShape(4, 2, context=10))
        with pytest.raises(UserError, match=r"model\.positions\.clip"):
            Relative(clip=10).relative_parameters(HeadShape(4, 2, context=10))

    def test_a_row_beyond_the_context_is_refused_unless_clipped(self):
        row = torch.arange(7)[None]
        with pytest.raises(UserError, match=r"row of 7 positions.*model\.context.*clip"):
            self.random_bias().bias(row, row)
        assert self.random_bias(clip=2).bias(row, row).shape == (1, 2, 7, 7)

    def test_a_bias_multiplies_unnormalised_weights_by_its_exponential(self):
        q, k, v = normal(0, 3, 1, 2, 6, 4)
        row = torch.arange(6)[None]
        bias = self.random_bias().bias(row, row).detach()
        plain = attend(q, k, v, bidirectional(), need_weights=True).weights
        biased = attend(q, k, v, bidirectional(), bias=bias, need_weights=True).weights
        unnormalised = plain * bias.exp()
        expected = unnormalised / unnormalised.sum(dim=-1, keepdim=True)
        assert torch.allclose(biased, expected, atol=1e-12)
        assert not torch.allclose(biased, plain, atol=1e-3)

    @pytest.mark.parametrize("mask", [bidirectional(), causal()])
    def test_the_fused_path_gives_the_table_the_explicit_gradient(self, mask):
        gradients = []
        for need_weights in (False, True):
            relative_position = self.random_bias()
            q, k, v = normal(1, 3, 2, 2, 6, 4)
            row = torch.arange(6)[None]
            bias = relative_position.bias(row, row)
            attended = attend(q, k, v, mask, bias=bias, need_weights=need_weights)
            assert attended.path == ("explicit" if need_weights else "fused-dense")
            attended.out.square().sum().backward()
            gradients.append(relative_position.table.grad)
        assert torch.allclose(*gradients, atol=1e-12)
        used = gradients[1][:, : 11 if mask.is_everything else 6]
        assert (used.abs() > 1e-9).all()

    def test_gradcheck(self):
        relative_position = self.random_bias(clip=2)
        q, k, v = normal(1, 3, 1, 2, 4, 4)
        row = torch.arange(4)[None]

        def out(table: torch.Tensor) -> torch.Tensor:
            bias = torch.func.functional_call(
                BiasModule(relative_position), {"relative_position.table": table}, (row,)
            )
            return attend(q, k, v, causal(), bias=bias).out

        assert torch.autograd.gradcheck(
            out, (relative_position.table.detach().clone().requires_grad_(),)
        )


class BiasModule(torch.nn.Module):
    """The bias as a forward pass, so that `functional_call` can replace the table."""

    def __init__(self, relative_position: RelativePosition) -> None:
        super().__init__()
        self.relative_position = relative_position

    def forward(self, row: torch.Tensor) -> torch.Tensor:
        return self.relative_position.bias(row, row)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_does_not_count_towards_the_context_of_a_relative_bias(side: str):
    bias = Relative().build_relative_position(HeadShape(width=4, heads=2, context=5))
    valid = torch.tensor([[True] * 5 + [False] * 3, [True] * 2 + [False] * 6])
    positions = TokenPositions.of_padded(valid if side == "right" else valid.flip(1)).ids
    assert bias.bias(positions, positions).shape == (2, 2, 8, 8)
    longer = torch.arange(6)[None]
    with pytest.raises(UserError, match=r"row of 6 positions.* within 5\b"):
        bias.bias(longer, longer)
    with pytest.raises(UserError, match="a row of 6 positions"):
        bias.bias(longer[:, 5:], longer)
