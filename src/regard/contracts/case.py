"""A random case for a kind of attention: its settings, its size, what stands around it, its rows.

Everything follows from a seed, so a case that broke a contract can be had again. Parameters are
drawn with variance 1 / (values read), so that weights are far from uniform and nothing hides.
Shapes: b batch, h heads, i query, j key, d head width, w model width.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Literal, NamedTuple, get_args, get_origin

import torch
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from torch import Tensor

from regard.attention.function import HeadShape
from regard.attention.kinds import AttentionKind, Projections, Traits
from regard.attention.mixer import Mixer
from regard.attention.multi_head import build_mixer
from regard.attention.positions import POSITIONS, PositionKind
from regard.attention.token_positions import TokenPositions
from regard.contracts.contract import (
    MAX_TOLERANCE,
    MAX_WIDE_LENGTH,
    TOLERANCE,
    CaseSizes,
    ContractViolation,
)
from regard.contracts.masks import RandomMask, random_mask
from regard.core.errors import UserError

ATTEMPTS = 20
"Sizes and settings tried before a kind that refuses them all is said to refuse everything."


@dataclass(frozen=True)
class Configuration:
    """What a mixer is built from, and the size of the rows it reads."""

    kind: AttentionKind
    shape: HeadShape
    batch: int
    length: int
    projections: Projections = "separate"
    key_value_heads: int = 0
    position: PositionKind | None = None
    seed: str = ""

    def __str__(self) -> str:
        """`batch 2, length 7, 4 heads of 2, shared-qk, Rotary, scale = 5.0`"""
        parts = [
            f"batch {self.batch}, length {self.length}, "
            f"{self.shape.heads} heads of {self.shape.width}"
        ]
        if self.projections != "separate":
            parts.append(self.projections)
        if self.key_value_heads:
            parts.append(f"{self.key_value_heads} key/value heads")
        if self.position is not None:
            parts.append(type(self.position).__name__)
        defaults = type(self.kind).model_fields
        for name, value in self.kind.model_dump().items():
            if value != defaults[name].default:
                parts.append(f"{name} = {value}")
        return ", ".join(parts)


class Mode(NamedTuple):
    """How a mixer runs: what holds in one precision, or outside of training, may not in another."""

    dtype: torch.dtype
    training: bool

    def __str__(self) -> str:
        precision = str(self.dtype).removeprefix("torch.")
        return f"{precision}, in training" if self.training else precision

    @property
    def tolerance(self) -> float:
        """How far two ways to the same answer may differ; sums of other orders round otherwise."""
        return TOLERANCE[self.dtype] if self.dtype == torch.float64 else MAX_TOLERANCE / 10


class AttentionCase:
    """A configuration with a source of chance: mixers, vectors and masks that fit it."""

    def __init__(self, configuration: Configuration, random: Random) -> None:
        self.configuration = configuration
        self.random = random
        self.generator = torch.Generator().manual_seed(random.getrandbits(60))

    def __str__(self) -> str:
        return str(self.configuration)

    @property
    def traits(self) -> Traits:
        return self.configuration.kind.traits

    def mixer(self, dtype: torch.dtype = torch.float64, **shape: Any) -> Mixer:
        """Built and filled anew, the same each time; `shape` changes the head's shape."""
        asked = self.configuration
        mixer = build_configuration(replace(asked, shape=asked.shape._replace(**shape))).to(dtype)
        randomize_parameters(mixer, torch.Generator().manual_seed(0))
        return mixer.eval()

    def mode(self) -> Mode:
        dtype = self.random.choice((torch.float64, torch.float32))
        return Mode(dtype, training=self.random.random() < 0.5)

    def mixer_in(self, mode: Mode) -> Mixer:
        """In this precision, in training or not; nothing is dropped."""
        mixer = self.mixer(mode.dtype).train(mode.training)
        for module in mixer.modules():
            if isinstance(module, torch.nn.Dropout):  # a kind may bring its own
                module.p = 0.0
        return mixer

    def vectors(self, *, length: int | None = None, dtype: torch.dtype = torch.float64) -> Tensor:
        """Rows of random vectors, (b,i,w)."""
        b, w = self.configuration.batch, self.configuration.shape.model_width
        n = self.configuration.length if length is None else length
        return torch.randn(b, n, w, generator=self.generator, dtype=torch.float64).to(dtype)

    def like(self, x: Tensor) -> Tensor:
        """Random numbers of the same shape."""
        return torch.randn(x.shape, generator=self.generator, dtype=torch.float64).to(x.dtype)

    def mask(self) -> RandomMask:
        asked = self.configuration
        return random_mask(self.random, self.traits.masks, batch=asked.batch, length=asked.length)

    def positions(self, valid: Tensor | None = None) -> TokenPositions:
        """Where the rows' tokens stand, with random segments and modalities."""
        b, n = self.configuration.batch, self.configuration.length
        plain = TokenPositions.of_row(n) if valid is None else TokenPositions.of_padded(valid)
        numbers = torch.randint(0, 3, (2, b, n), generator=self.generator)
        return replace(plain, segments=numbers[0].sort(dim=1).values, modalities=numbers[1])


def build_configuration(asked: Configuration) -> Mixer:
    relative_position = (
        None if asked.position is None else asked.position.build_relative_position(asked.shape)
    )
    return build_mixer(
        asked.kind,
        asked.shape,
        projections=asked.projections,
        key_value_heads=asked.key_value_heads,
        relative_position=relative_position,
    )


def randomize_parameters(module: torch.nn.Module, generator: torch.Generator) -> None:
    """Random values for every parameter, whatever its type."""
    with torch.no_grad():
        for parameter in module.parameters():
            drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            if parameter.ndim > 1:
                # A matrix of torch's Linear is (out, in); stacks of matrices are (…, in, out).
                drawn /= parameter.shape[-1 if parameter.ndim == 2 else -2] ** 0.5
            parameter.copy_(drawn)


def slice_positions(
    positions: TokenPositions, rows: slice | Tensor, columns: slice
) -> TokenPositions:
    """Some rows and columns of the places; one row that holds for all stays one."""

    def cut_table(table: Tensor | None) -> Tensor | None:
        if table is None:
            return None
        return (table if table.shape[0] == 1 else table[rows])[:, columns]

    ids = cut_table(positions.ids)
    assert ids is not None
    return TokenPositions(
        ids,
        cut_table(positions.segments),
        cut_table(positions.modalities),
        in_order=positions.in_order,
    )


def attention_cases(
    part: type[AttentionKind],
    *,
    seed: str,
    count: int,
    sizes: CaseSizes,
    position: type[PositionKind] | None = None,
) -> Iterator[AttentionCase]:
    """`count` random cases; with a `position` given, all of them carry it."""
    for number in range(count):
        random = Random(f"{seed}/{number}")
        yield AttentionCase(random_configuration(part, random, sizes, position=position), random)


def random_configuration(
    part: type[AttentionKind],
    random: Random,
    sizes: CaseSizes,
    *,
    position: type[PositionKind] | None = None,
) -> Configuration:
    """A configuration the kind takes; sizes it refuses with a sentence are drawn again."""
    refusal = ""
    for _ in range(ATTEMPTS):
        shape, length = random_shape(random, sizes)
        wiring = _draw_wiring(random, part.traits, shape)
        chosen = (
            random_settings(position, random) if position else random_position(random, part.traits)
        )
        asked = Configuration(
            random_settings(part, random),
            shape,
            random.randint(1, sizes.batch),
            length,
            *wiring,
            position=chosen,
        )
        try:
            build_configuration(asked)
        except UserError as problem:
            refusal = str(problem)
        else:
            return asked
    raise ContractViolation(f"refuses every one of {ATTEMPTS} sizes, the last with: {refusal}")


def random_shape(random: Random, sizes: CaseSizes) -> tuple[HeadShape, int]:
    length = random.choice(sizes.lengths)
    width, heads = random.choice(sizes.head_widths), random.choice(sizes.heads)
    shape = HeadShape(
        width=width if length <= MAX_WIDE_LENGTH else min(width, 8),
        heads=heads if length <= MAX_WIDE_LENGTH else min(heads, 4),
        context=length + random.randint(0, 5),
        layer=random.randint(0, 3),
        biases=random.random() < 0.7,
    )
    return shape, length


def _draw_wiring(random: Random, traits: Traits, shape: HeadShape) -> tuple[Projections, int]:
    """How queries, keys and values are projected, and how many key/value heads there are."""
    shares = [n for n in range(1, shape.heads) if shape.heads % n == 0]
    if traits.grouped_heads and shares and random.random() < 0.3:
        return "separate", random.choice(shares)
    return random.choice(traits.projections), 0


def random_position(random: Random, traits: Traits) -> PositionKind | None:
    """A relative position the kind can take, or none."""
    fitting = [
        entry.part
        for entry in POSITIONS
        if (settings := _by_default(entry.part))
        and settings.relative_type in traits.relative_positions
    ]
    if not fitting or random.random() < 0.4:
        return None
    chosen: PositionKind = random_settings(random.choice(fitting), random)
    return chosen


def _by_default(part: Any) -> PositionKind | None:
    try:
        settings: PositionKind = part()
    except ValidationError:  # a setting without a default: nothing to try it with
        return None
    return settings


def random_settings(part: Any, random: Random) -> Any:
    """Settings with their defaults, or with some of the simple ones changed."""
    plain = part()
    if random.random() < 0.5:
        return plain
    changes = {
        name: random.choice(_other_values(field)) for name, field in part.model_fields.items()
    }
    try:
        return part(**changes)
    except (ValidationError, UserError):  # outside of what the settings allow
        return plain


def _other_values(field: FieldInfo) -> tuple[Any, ...]:
    """Values near a field's default; the default alone where its type is not a simple one."""
    sort, default = field.annotation, field.get_default(call_default_factory=True)
    if get_origin(sort) is Literal:
        return get_args(sort)
    if sort is bool:
        return (True, False)
    if sort is int:
        return (default, default, 1, 2, 3)
    if sort is float and isinstance(default, float):
        return (default, default / 2, default * 2)
    return (default,)
