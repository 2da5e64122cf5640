"""A contract that no kind could break would prove nothing: each is broken here by one fault."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from regard.attention.function import (
    AttentionFunction,
    AttentionInputs,
    FastOutput,
    HeadShape,
    masked_softmax,
)
from regard.attention.kinds import AttentionKind, Traits
from regard.attention.kinds.dot import DotProduct
from regard.attention.positions import POSITIONS, PositionKind, RelativePosition
from regard.contracts.check import check_part
from regard.contracts.contract import Result
from regard.core.catalog import Entry
from regard.core.errors import UserError


def planted(function: Callable[[], AttentionFunction], **declared: object) -> Entry:
    class Planted(AttentionKind):
        """A kind with one fault."""

        traits = Traits("n²", **declared)

        def build(self, shape: HeadShape) -> AttentionFunction:
            return function()

    return Entry("attention", "planted", Planted)


def results_of(
    function: Callable[[], AttentionFunction],
    *contracts: str,
    configurations: int = 25,
    **declared: object,
) -> dict[str, Result]:
    found = check_part(
        planted(function, **declared), configurations=configurations, only=contracts or None
    )
    return {result.contract: result for result in found}


def broken(results: dict[str, Result]) -> set[str]:
    return {name for name, result in results.items() if not result.is_as_declared}


class Readable(DotProduct):
    """Dot-product without its quick path."""

    def fast(self, inputs: AttentionInputs) -> None:
        return None


class SkewedFast(DotProduct):
    def fast(self, inputs: AttentionInputs) -> FastOutput:
        fast = super().fast(inputs)
        return fast._replace(out=fast.out * (1 + 1e-4))


class WrongBackward(Readable):
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: object, gradient: Tensor) -> Tensor:
            return 2 * gradient

    def mix(self, weights: Tensor, v: Tensor) -> Tensor:
        return self.Doubled.apply(super().mix(weights, v))


class SpreadEmptyRows(Readable):
    def normalise(self, scores: Tensor, allowed: Tensor) -> Tensor:
        empty = ~allowed.any(dim=-1, keepdim=True)
        return masked_softmax(scores, allowed | empty)


class LateMask(Readable):
    ignores_masked_keys = False

    def normalise(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return torch.softmax(scores, dim=-1) * allowed


class CountsKeys(Readable):
    """Divides by the number of keys at hand, padding and future included."""

    ignores_masked_keys = False

    def mix(self, weights: Tensor, v: Tensor) -> Tensor:
        return super().mix(weights, v) / v.shape[-2]


class SeesTheBatch(Readable):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return super().scores(q, k) - 0.1 * k.mean(dim=(0, 2), keepdim=True).sum(-1, keepdim=True)

    def mix(self, weights: Tensor, v: Tensor) -> Tensor:
        return super().mix(weights, v) + 0.01 * weights.mean(dim=0, keepdim=True) @ v[:1]


class Forgetful(Readable):
    """A value that decides the outcome, and is not saved."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("sharpness", torch.rand(()) + 1.0, persistent=False)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return self.sharpness * super().scores(q, k)


class Restless(Readable):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        scores = super().scores(q, k)
        return scores + 0.1 * torch.randn_like(scores)


class Endless(Readable):
    def mix(self, weights: Tensor, v: Tensor) -> Tensor:
        return super().mix(weights, v) / 0.0


class LeaksInTraining(Readable):
    def normalise(self, scores: Tensor, allowed: Tensor) -> Tensor:
        seen = torch.ones_like(allowed) if self.training else allowed
        return masked_softmax(scores, seen)


class LeaksInFloat32(Readable):
    ignores_masked_keys = False

    def normalise(self, scores: Tensor, allowed: Tensor) -> Tensor:
        seen = torch.ones_like(allowed) if scores.dtype == torch.float32 else allowed
        return masked_softmax(scores, seen)


class LeaksWhenWide(Readable):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        self.width = q.shape[-1]
        return super().scores(q, k)

    def normalise(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return masked_softmax(scores, torch.ones_like(allowed) if self.width > 8 else allowed)


class LeaksWithManyHeads(Readable):
    def normalise(self, scores: Tensor, allowed: Tensor) -> Tensor:
        seen = torch.ones_like(allowed) if scores.shape[1] > 4 else allowed
        return masked_softmax(scores, seen)


class FastUnderDropout(DotProduct):
    """Changes what the quick path does where weights are dropped."""

    def fast(self, inputs: AttentionInputs) -> FastOutput:
        share = self.share(inputs.dropout)
        return self.dropped(super().fast(replace(inputs, dropout=share)), inputs.dropout)

    def share(self, dropout: float) -> float:
        return dropout

    def dropped(self, fast: FastOutput, dropout: float) -> FastOutput:
        return fast


class DropsEverything(FastUnderDropout):
    def dropped(self, fast: FastOutput, dropout: float) -> FastOutput:
        return fast._replace(out=fast.out * (not dropout))


class DropsNothing(FastUnderDropout):
    def share(self, dropout: float) -> float:
        return 0.0


class DropsWithoutScaling(FastUnderDropout):
    def dropped(self, fast: FastOutput, dropout: float) -> FastOutput:
        return fast._replace(out=fast.out * (1 - dropout))


class DropsTooLittle(FastUnderDropout):
    def share(self, dropout: float) -> float:
        return dropout / 2


class Raising(Readable):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        raise ValueError("no scores today")


@pytest.mark.parametrize(
    ("function", "contract", "says"),
    [
        (SkewedFast, "fast-path", "differ by 0.0001"),
        (WrongBackward, "gradcheck", "numerical"),
        (SpreadEmptyRows, "empty-rows", "a query with no allowed key gets"),
        (LateMask, "forbidden-keys", "differ by"),
        (CountsKeys, "padding", "padded on the"),
        (CountsKeys, "cache", "through the cache"),
        (SeesTheBatch, "batch", "in a batch differ"),
        (Forgetful, "saved", "after saving and loading"),
        (Restless, "deterministic", "draws random numbers outside of training"),
        (Endless, "shape", "not all finite"),
        (LeaksInTraining, "forbidden-keys", "in training"),
        (LeaksInTraining, "padding", "in training"),
        (LeaksInFloat32, "forbidden-keys", "float32"),
        (LeaksInFloat32, "padding", "float32"),
        (LeaksInFloat32, "cache", "float32"),
        (LeaksInFloat32, "fast-path", "allowed 0.001"),
        (LeaksWhenWide, "forbidden-keys", "differ by"),
        (LeaksWithManyHeads, "forbidden-keys", "8 heads"),
        (DropsEverything, "dropout", "outputs under dropout differ"),
        (DropsWithoutScaling, "dropout", "outputs under dropout differ"),
        (DropsNothing, "dropout", "scatter of outputs under dropout differ"),
        (DropsTooLittle, "dropout", "scatter of outputs under dropout differ"),
        (Raising, "shape", "test_check.py, line"),
    ],
)
def test_a_fault_is_found_and_told_with_its_numbers(
    function: type[AttentionFunction], contract: str, says: str
) -> None:
    results = results_of(function, contract)
    assert broken(results) == {contract}
    assert says in results[contract].sentence


def test_a_sound_kind_is_told_to_be_sound() -> None:
    results = results_of(Readable, configurations=4)
    assert broken(results) == set()
    assert results["fast-path"].seen


def test_parameters_that_are_not_counted_are_found() -> None:
    class Uncounted(AttentionKind):
        """Counts nothing."""

        traits = Traits("n²", projections=("separate",))

        def build(self, shape: HeadShape) -> AttentionFunction:
            function = Readable()
            function.scale = nn.Parameter(torch.ones(shape.heads))
            return function

        def own_parameters(self, shape: HeadShape) -> int:
            return 0

    results = check_part(Entry("attention", "uncounted", Uncounted), configurations=2)
    assert "own_parameters says 0, build makes" in next(
        result.sentence for result in results if not result.is_as_declared
    )


def test_settings_without_words_are_found() -> None:
    class Wordless(AttentionKind):
        """Has a setting that nobody explains."""

        traits = Traits("n²")
        size: int = 3

        def build(self, shape: HeadShape) -> AttentionFunction:
            return Readable()

    results = check_part(Entry("attention", "wordless", Wordless), configurations=2)
    (wrong,) = [result for result in results if not result.is_as_declared]
    assert (wrong.contract, wrong.sentence.partition(":")[0]) == (
        "recipe",
        "size is not documented",
    )


def test_a_setting_without_a_default_is_refused_by_name() -> None:
    class Undecided(AttentionKind):
        """Needs a size."""

        traits = Traits("n²")
        size: int
        "How large."

        def build(self, shape: HeadShape) -> AttentionFunction:
            return Readable()

    with pytest.raises(UserError, match="size has none"):
        check_part(Entry("attention", "undecided", Undecided))


class Undeclared(AttentionKind):
    """Put into the catalogue by hand, not by @kind."""

    def build(self, shape: HeadShape) -> AttentionFunction:
        return Readable()


class Unwritten(AttentionKind):
    """Builds nothing."""

    traits = Traits("n²")


@pytest.mark.parametrize(
    ("part", "says"),
    [
        (Undeclared, "declares nothing about itself. Register it with @kind"),
        (Unwritten, "cannot be made: .* abstract .*build"),
        (Readable, "is not a class of AttentionKind"),
        (masked_softmax, "is not a class of AttentionKind"),
    ],
)
def test_what_is_no_kind_at_all_is_said_at_once(part: object, says: str) -> None:
    with pytest.raises(UserError, match=says):
        check_part(Entry("attention", "unfit", part))


def test_a_broken_kind_has_to_fail_what_it_declares() -> None:
    declared = {"broken": "on purpose", "fails": ("forbidden-keys", "padding", "cache")}
    assert broken(results_of(LateMask, configurations=8, **declared)) == set()
    sound = results_of(Readable, configurations=3, **declared)
    assert broken(sound) == {"forbidden-keys", "padding", "cache"}
    assert "holds everywhere" in sound["cache"].sentence


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ({"fails": ("cash",), "broken": "so"}, "fails names unknown contracts: cash"),
        ({"fails": ("cache",)}, "not what is broken"),
        ({"masks": ("casual",)}, "names unknown masks"),
        ({"masks": ("causal",)}, "declares cross = True, but not the mask cross"),
    ],
)
def test_declarations_that_cannot_be_true(declared: dict[str, object], says: str) -> None:
    results = results_of(Readable, "traits", configurations=2, **declared)
    assert says in results["traits"].sentence


def test_what_is_not_declared_is_not_asked() -> None:
    results = results_of(
        CountsKeys,
        configurations=3,
        masks=("causal", "bidirectional"),
        cacheable=False,
        cross=False,
    )
    assert {name for name, result in results.items() if result.is_not_applicable} == {
        "padding",
        "cache",
        "empty-rows",
    }


def test_a_fast_path_that_loses_the_mask_is_found_on_plain_masks_too() -> None:
    class Unmasked(DotProduct):
        def fast(self, inputs: AttentionInputs) -> FastOutput | None:
            if not inputs.mask.is_causal:
                return None
            out = nn.functional.scaled_dot_product_attention(inputs.q, inputs.k, inputs.v)
            return FastOutput(out, "unmasked")

    faults = ("fast-path", "forbidden-keys", "cache")
    assert broken(results_of(Unmasked, *faults, configurations=60)) == {*faults}


@pytest.mark.parametrize("name", POSITIONS.names())
def test_every_position_keeps_its_contracts(name: str) -> None:
    results = check_part(POSITIONS.get(name), configurations=4)
    assert [r.sentence for r in results if not r.is_as_declared] == []
    assert not all(result.is_not_applicable for result in results)


def test_a_position_that_counts_from_the_rows_end_is_found() -> None:
    class FromTheEnd(RelativePosition):
        def bias(self, queries: Tensor, keys: Tensor) -> Tensor:
            last = keys.shape[1] - 1
            return (0.3 * (keys - last)[:, None, None, :] * queries[:, None, :, None]).double()

    class Backwards(PositionKind):
        """Counts from the end of the row."""

        @property
        def relative_type(self) -> str:
            return "bias"

        def build_relative_position(self, shape: HeadShape) -> RelativePosition:
            return FromTheEnd()

    results = check_part(
        Entry("position", "backwards", Backwards), configurations=15, only=("cache", "padding")
    )
    assert [result.contract for result in results if result.passed] == []


def test_other_sorts_have_no_contracts_yet() -> None:
    assert check_part(Entry("family", "mine", object)) == []
