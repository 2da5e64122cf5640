"""Each contract is broken by a kind with one planted fault: a check that cannot fail is none."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from regard.attention.function import (
    AttentionFunction,
    AttentionInputs,
    AttentionOutput,
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


def faulty_entry(function: Callable[[], AttentionFunction], **declared: object) -> Entry:
    class Faulty(AttentionKind):
        """A kind with one fault."""

        traits = Traits("n²", **declared)

        def build(self, shape: HeadShape) -> AttentionFunction:
            return function()

    return Entry("attention", "faulty", Faulty)


def check_function(
    function: Callable[[], AttentionFunction],
    *contracts: str,
    configurations: int = 25,
    **declared: object,
) -> dict[str, Result]:
    entry = faulty_entry(function, **declared)
    results = check_part(entry, configurations=configurations, only=contracts or None)
    return {result.contract: result for result in results}


def not_as_declared(results: dict[str, Result]) -> set[str]:
    return {name for name, result in results.items() if not result.is_as_declared}


class Explicit(DotProduct):
    """Dot-product attention without a fast path."""

    def fast(self, inputs: AttentionInputs) -> None:
        return None


class SkewedFast(DotProduct):
    def fast(self, inputs: AttentionInputs) -> AttentionOutput:
        fast = super().fast(inputs)
        return fast._replace(out=fast.out * (1 + 1e-4))


class SkewedAtTimes(DotProduct):
    """As a race or an uninitialised buffer: one call in four."""

    calls = 0

    def fast(self, inputs: AttentionInputs) -> AttentionOutput:
        SkewedAtTimes.calls += 1
        fast = super().fast(inputs)
        return fast._replace(out=fast.out * (1 + 5e-4 * (SkewedAtTimes.calls % 4 == 0)))


class SkewedOnSomeInputs(DotProduct):
    def fast(self, inputs: AttentionInputs) -> AttentionOutput:
        fast = super().fast(inputs)
        is_affected = int(inputs.q.detach().abs().sum()) % 3 == 0
        return fast._replace(out=fast.out * (1 + 5e-4 * is_affected))


class WrongBackward(Explicit):
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: object, gradient: Tensor) -> Tensor:
            return 2 * gradient

    def mix(self, weights: Tensor, v: Tensor) -> Tensor:
        return self.Doubled.apply(super().mix(weights, v))


class SpreadEmptyRows(Explicit):
    def normalise(self, scores: Tensor, allowed: Tensor) -> Tensor:
        empty = ~allowed.any(dim=-1, keepdim=True)
        return masked_softmax(scores, allowed | empty)


class LateMask(Explicit):
    ignores_masked_keys = False

    def normalise(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return torch.softmax(scores, dim=-1) * allowed


class CountsKeys(Explicit):
    """Divides by the number of keys, masked ones included."""

    ignores_masked_keys = False

    def mix(self, weights: Tensor, v: Tensor) -> Tensor:
        return super().mix(weights, v) / v.shape[-2]


class DependsOnTheBatch(Explicit):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return super().scores(q, k) - 0.1 * k.mean(dim=(0, 2), keepdim=True).sum(-1, keepdim=True)

    def mix(self, weights: Tensor, v: Tensor) -> Tensor:
        return super().mix(weights, v) + 0.01 * weights.mean(dim=0, keepdim=True) @ v[:1]


class UnsavedState(Explicit):
    """Outputs depend on a buffer that is not saved."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("sharpness", torch.rand(()) + 1.0, persistent=False)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return self.sharpness * super().scores(q, k)


class Nondeterministic(Explicit):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        scores = super().scores(q, k)
        return scores + 0.1 * torch.randn_like(scores)


class NotFinite(Explicit):
    def mix(self, weights: Tensor, v: Tensor) -> Tensor:
        return super().mix(weights, v) / 0.0


class LeaksInTraining(Explicit):
    def normalise(self, scores: Tensor, allowed: Tensor) -> Tensor:
        seen = torch.ones_like(allowed) if self.training else allowed
        return masked_softmax(scores, seen)


class LeaksInFloat32(Explicit):
    ignores_masked_keys = False

    def normalise(self, scores: Tensor, allowed: Tensor) -> Tensor:
        seen = torch.ones_like(allowed) if scores.dtype == torch.float32 else allowed
        return masked_softmax(scores, seen)


class LeaksWhenWide(Explicit):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        self.width = q.shape[-1]
        return super().scores(q, k)

    def normalise(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return masked_softmax(scores, torch.ones_like(allowed) if self.width > 8 else allowed)


class LeaksWithManyHeads(Explicit):
    def normalise(self, scores: Tensor, allowed: Tensor) -> Tensor:
        seen = torch.ones_like(allowed) if scores.shape[1] > 4 else allowed
        return masked_softmax(scores, seen)


class FastUnderDropout(DotProduct):
    """Changes the fast path under dropout."""

    def fast(self, inputs: AttentionInputs) -> AttentionOutput:
        rate = self.change_rate(inputs.dropout)
        return self.change_output(super().fast(replace(inputs, dropout=rate)), inputs.dropout)

    def change_rate(self, dropout: float) -> float:
        return dropout

    def change_output(self, fast: AttentionOutput, dropout: float) -> AttentionOutput:
        return fast


class DropsEverything(FastUnderDropout):
    def change_output(self, fast: AttentionOutput, dropout: float) -> AttentionOutput:
        return fast._replace(out=fast.out * (not dropout))


class DropsNothing(FastUnderDropout):
    def change_rate(self, dropout: float) -> float:
        return 0.0


class DropsWithoutScaling(FastUnderDropout):
    def change_output(self, fast: AttentionOutput, dropout: float) -> AttentionOutput:
        return fast._replace(out=fast.out * (1 - dropout))


class DropsTooLittle(FastUnderDropout):
    def change_rate(self, dropout: float) -> float:
        return dropout / 2


class RaisesError(Explicit):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        raise ValueError("no scores today")


@pytest.mark.parametrize(
    ("function", "contract", "says"),
    [
        (SkewedFast, "fast-path", "differ by 0.0001"),
        (SkewedAtTimes, "fast-path", "differ by"),
        (SkewedOnSomeInputs, "fast-path", "differ by"),
        (WrongBackward, "gradcheck", "numerical"),
        (SpreadEmptyRows, "empty-rows", "a query with no allowed key gets"),
        (LateMask, "forbidden-keys", "differ by"),
        (CountsKeys, "padding", "padded on the"),
        (CountsKeys, "cache", "through the cache"),
        (DependsOnTheBatch, "batch", "in a batch differ"),
        (UnsavedState, "saved", "after saving and loading"),
        (Nondeterministic, "deterministic", "draws random numbers outside of training"),
        (NotFinite, "shape", "not all finite"),
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
        (DropsNothing, "dropout", "squared deviations of outputs under dropout differ"),
        (DropsTooLittle, "dropout", "squared deviations of outputs under dropout differ"),
        (RaisesError, "shape", "test_check.py, line"),
    ],
)
def test_a_fault_breaks_its_contract_and_is_reported_with_values(
    function: type[AttentionFunction], contract: str, says: str
) -> None:
    results = check_function(function, contract)
    assert not_as_declared(results) == {contract}
    assert says in results[contract].sentence


def test_a_correct_kind_keeps_all_contracts() -> None:
    results = check_function(Explicit, configurations=4)
    assert not_as_declared(results) == set()
    assert results["fast-path"].seen


def test_uncounted_parameters_are_found() -> None:
    class Uncounted(AttentionKind):
        """Counts nothing."""

        traits = Traits("n²", projections=("separate",))

        def build(self, shape: HeadShape) -> AttentionFunction:
            function = Explicit()
            function.scale = nn.Parameter(torch.ones(shape.heads))
            return function

        def own_parameters(self, shape: HeadShape) -> int:
            return 0

    results = check_part(Entry("attention", "uncounted", Uncounted), configurations=2)
    assert "own_parameters is 0, build has" in next(
        result.sentence for result in results if not result.is_as_declared
    )


def test_undocumented_settings_are_found() -> None:
    class Undocumented(AttentionKind):
        """Has a setting without a description."""

        traits = Traits("n²")
        size: int = 3

        def build(self, shape: HeadShape) -> AttentionFunction:
            return Explicit()

    results = check_part(Entry("attention", "undocumented", Undocumented), configurations=2)
    (wrong,) = [result for result in results if not result.is_as_declared]
    assert (wrong.contract, wrong.sentence.partition(":")[0]) == (
        "recipe",
        "size is not documented",
    )


def test_a_setting_without_a_default_is_named() -> None:
    class WithoutDefault(AttentionKind):
        """Needs a size."""

        traits = Traits("n²")
        size: int
        "How large."

        def build(self, shape: HeadShape) -> AttentionFunction:
            return Explicit()

    with pytest.raises(UserError, match="size has none"):
        check_part(Entry("attention", "without-default", WithoutDefault))


class WithoutTraits(AttentionKind):
    """Registered without @kind."""

    def build(self, shape: HeadShape) -> AttentionFunction:
        return Explicit()


class Abstract(AttentionKind):
    """Does not implement `build`."""

    traits = Traits("n²")


@pytest.mark.parametrize(
    ("part", "says"),
    [
        (WithoutTraits, "declares no traits. Register it with @kind"),
        (Abstract, "cannot be built: .* abstract .*build"),
        (Explicit, "is not a class of AttentionKind"),
        (masked_softmax, "is not a class of AttentionKind"),
    ],
)
def test_a_part_that_cannot_be_built_is_refused(part: object, says: str) -> None:
    with pytest.raises(UserError, match=says):
        check_part(Entry("attention", "unbuildable", part))


def test_a_broken_kind_must_fail_what_it_declares() -> None:
    declared = {"broken": "on purpose", "fails": ("forbidden-keys", "padding", "cache")}
    assert not_as_declared(check_function(LateMask, configurations=8, **declared)) == set()
    correct = check_function(Explicit, configurations=3, **declared)
    assert not_as_declared(correct) == {"forbidden-keys", "padding", "cache"}
    assert "holds everywhere" in correct["cache"].sentence


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ({"fails": ("cash",), "broken": "so"}, "fails names unknown contracts: cash"),
        ({"fails": ("cache",)}, "not what is broken"),
        ({"masks": ("casual",)}, "names unknown masks"),
        ({"masks": ("causal",)}, "declares cross = True, but not the mask cross"),
    ],
)
def test_inconsistent_traits_are_found(declared: dict[str, object], says: str) -> None:
    results = check_function(Explicit, "traits", configurations=2, **declared)
    assert says in results["traits"].sentence


def test_contracts_on_undeclared_capabilities_are_not_applicable() -> None:
    results = check_function(
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


def test_a_fast_path_that_ignores_a_causal_mask_is_found() -> None:
    class Unmasked(DotProduct):
        def fast(self, inputs: AttentionInputs) -> AttentionOutput | None:
            if not inputs.mask.is_causal:
                return None
            out = nn.functional.scaled_dot_product_attention(inputs.q, inputs.k, inputs.v)
            return AttentionOutput(out, None, "unmasked")

    faults = ("fast-path", "forbidden-keys", "cache")
    assert not_as_declared(check_function(Unmasked, *faults, configurations=60)) == {*faults}


@pytest.mark.parametrize("name", POSITIONS.names())
def test_every_position_keeps_its_contracts(name: str) -> None:
    results = check_part(POSITIONS.get(name), configurations=4)
    assert [r.sentence for r in results if not r.is_as_declared] == []
    assert not all(result.is_not_applicable for result in results)


def test_a_position_counted_from_the_end_of_the_row_is_found() -> None:
    class BiasFromEnd(RelativePosition):
        def bias(self, queries: Tensor, keys: Tensor) -> Tensor:
            last = keys.shape[1] - 1
            return (0.3 * (keys - last)[:, None, None, :] * queries[:, None, :, None]).double()

    class FromEnd(PositionKind):
        """Positions counted from the end of the row."""

        @property
        def relative_type(self) -> str:
            return "bias"

        def build_relative_position(self, shape: HeadShape) -> RelativePosition:
            return BiasFromEnd()

    results = check_part(
        Entry("position", "from-end", FromEnd), configurations=15, only=("cache", "padding")
    )
    assert [result.contract for result in results if result.passed] == []


def test_other_catalogues_have_no_contracts() -> None:
    assert check_part(Entry("family", "mine", object)) == []
