"""Random cases for attention kinds: settings, sizes, projections, positions, masks and inputs.

A case follows from its seed, so one that broke a contract can be reproduced. Parameters are drawn
with variance 1 / fan-in, so that attention weights are far from uniform and faults show.
Shapes: b batch, h heads, i query, j key, d head width, w model width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin

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

Drawn = TypeVar("Drawn")
MAX_ATTEMPTS = 20
"Maximum number of sizes and settings to try on a kind that refuses them."


@dataclass(frozen=True)
class Configuration:
    """What a mixer is built from, and the size of its inputs."""

    kind: AttentionKind
    shape: HeadShape
    batch: int
    length: int
    projections: Projections
    key_value_heads: int
    "0: as many as heads."
    position: PositionKind | None

    def __str__(self) -> str:
        """`batch 2, length 7, 4 heads of 2, shared-qk, Rotary, scale = 5.0`"""
        terms = [
            f"batch {self.batch}, length {self.length}, "
            f"{self.shape.heads} heads of {self.shape.width}"
        ]
        if self.projections != "separate":
            terms.append(self.projections)
        if self.key_value_heads:
            terms.append(f"{self.key_value_heads} key/value heads")
        if self.position is not None:
            terms.append(type(self.position).__name__)
        fields = type(self.kind).model_fields
        for name, value in self.kind.model_dump().items():
            if value != fields[name].default:
                terms.append(f"{name} = {value}")
        return ", ".join(terms)


class Mode(NamedTuple):
    """Precision and training mode: a fault may show in one of them alone."""

    dtype: torch.dtype
    training: bool

    def __str__(self) -> str:
        precision = str(self.dtype).removeprefix("torch.")
        return f"{precision}, in training" if self.training else precision

    @property
    def tolerance(self) -> float:
        """Maximum relative difference; in float32 sums in another order round differently."""
        return TOLERANCE[self.dtype] if self.dtype == torch.float64 else MAX_TOLERANCE / 10


class AttentionCase:
    """A configuration with random generators: its mixers, inputs, positions and masks."""

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
        """A new mixer with the same parameters each time; `shape` replaces fields of the head
        shape."""
        head_shape = self.configuration.shape._replace(**shape)
        mixer = build_configuration(replace(self.configuration, shape=head_shape)).to(dtype)
        randomize_parameters(mixer, torch.Generator().manual_seed(0))
        return mixer.eval()

    def random_mode(self) -> Mode:
        dtype = self.random.choice((torch.float64, torch.float32))
        return Mode(dtype, training=self.random.random() < 0.5)

    def mixer_in(self, mode: Mode) -> Mixer:
        """In this precision and training mode, without dropout."""
        mixer = self.mixer(mode.dtype).train(mode.training)
        for module in mixer.modules():
            if isinstance(module, torch.nn.Dropout):  # a kind may have its own
                module.p = 0.0
        return mixer

    def inputs(self, *, length: int | None = None, dtype: torch.dtype = torch.float64) -> Tensor:
        """Random hidden states, (b,i,w)."""
        b, w = self.configuration.batch, self.configuration.shape.model_width
        n = self.configuration.length if length is None else length
        return torch.randn(b, n, w, generator=self.generator, dtype=torch.float64).to(dtype)

    def random_like(self, x: Tensor) -> Tensor:
        """Random values of the same shape and dtype."""
        return torch.randn(x.shape, generator=self.generator, dtype=torch.float64).to(x.dtype)

    def random_mask(self) -> RandomMask:
        """A mask that the kind supports."""
        b, n = self.configuration.batch, self.configuration.length
        return random_mask(self.random, self.traits.masks, batch=b, length=n)

    def positions(self, valid: Tensor | None = None) -> TokenPositions:
        """The rows' positions, with random segments and modalities."""
        b, n = self.configuration.batch, self.configuration.length
        plain = TokenPositions.of_row(n) if valid is None else TokenPositions.of_padded(valid)
        ids = torch.randint(0, 3, (2, b, n), generator=self.generator)
        return replace(plain, segments=ids[0].sort(dim=1).values, modalities=ids[1])


def build_configuration(configuration: Configuration) -> Mixer:
    position, shape = configuration.position, configuration.shape
    try:
        return build_mixer(
            configuration.kind,
            shape,
            projections=configuration.projections,
            key_value_heads=configuration.key_value_heads,
            relative_position=None if position is None else position.build_relative_position(shape),
        )
    except Exception as problem:
        problem.add_note(str(configuration))
        raise


def randomize_parameters(module: torch.nn.Module, generator: torch.Generator) -> None:
    """Redraw every parameter: N(0, 1 / fan-in) for matrices, N(0, 1) for vectors."""
    with torch.no_grad():
        for parameter in module.parameters():
            values = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            if parameter.ndim > 1:
                # A matrix of torch's Linear is (out, in); stacks of matrices are (…, in, out).
                values /= parameter.shape[-1 if parameter.ndim == 2 else -2] ** 0.5
            parameter.copy_(values)


def slice_positions(
    positions: TokenPositions, rows: slice | Tensor, columns: slice
) -> TokenPositions:
    """Positions of some rows and columns; a single row that holds for all rows stays."""

    def crop(table: Tensor | None) -> Tensor | None:
        if table is None:
            return None
        return (table if table.shape[0] == 1 else table[rows])[:, columns]

    ids = crop(positions.ids)
    assert ids is not None
    return TokenPositions(
        ids,
        crop(positions.segments),
        crop(positions.modalities),
        in_order=positions.in_order,
    )


def attention_cases(
    kind: type[AttentionKind],
    *,
    seed: str,
    count: int,
    sizes: CaseSizes,
    position: type[PositionKind] | None = None,
) -> Iterator[AttentionCase]:
    """`count` random cases; with a `position`, all of them have it."""
    for number in range(count):
        random = Random(f"{seed}/{number}")
        draw = partial(random_configuration, kind, random, sizes, position)
        yield AttentionCase(first_not_refused(draw), random)


def random_configuration(
    kind: type[AttentionKind],
    random: Random,
    sizes: CaseSizes,
    position: type[PositionKind] | None,
) -> Configuration:
    shape, length = random_shape(random, sizes)
    projections, key_value_heads = _random_projections(random, kind.traits, shape)
    position_settings = (
        random_settings(position, random) if position else random_position(random, kind.traits)
    )
    configuration = Configuration(
        random_settings(kind, random),
        shape,
        random.randint(1, sizes.batch),
        length,
        projections,
        key_value_heads,
        position_settings,
    )
    build_configuration(configuration)
    return configuration


def first_not_refused(draw: Callable[[], Drawn]) -> Drawn:
    """Sizes and settings that the part refuses are drawn again."""
    refusal = ""
    for _ in range(MAX_ATTEMPTS):
        try:
            return draw()
        except UserError as problem:
            refusal = str(problem)
    raise ContractViolation(f"refuses all of {MAX_ATTEMPTS} sizes, the last with: {refusal}")


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


def _random_projections(
    random: Random, traits: Traits, shape: HeadShape
) -> tuple[Projections, int]:
    """Projections of queries, keys and values, and the number of key/value heads (0: all)."""
    divisors = [n for n in range(1, shape.heads) if shape.heads % n == 0]
    if traits.grouped_heads and divisors and random.random() < 0.3:
        return "separate", random.choice(divisors)
    return random.choice(traits.projections), 0


def random_position(random: Random, traits: Traits) -> PositionKind | None:
    """A relative position that the kind supports, or none."""
    supported = [
        entry.part
        for entry in POSITIONS
        if _default_relative_type(entry.part) in traits.relative_positions
    ]
    if not supported or random.random() < 0.4:
        return None
    position: PositionKind = random_settings(random.choice(supported), random)
    return position


def _default_relative_type(position: Any) -> Any:
    try:
        return position().relative_type
    except ValidationError:  # a setting without a default
        return None


def random_settings(part: Any, random: Random) -> Any:
    """The part's default settings, or some with simple fields changed."""
    default = part()
    if random.random() < 0.5:
        return default
    changes = {
        name: random.choice(_nearby_values(field)) for name, field in part.model_fields.items()
    }
    try:
        return part(**changes)
    except (ValidationError, UserError):  # values that the settings refuse
        return default


def _nearby_values(field: FieldInfo) -> tuple[Any, ...]:
    """Values near a field's default; the default alone if its type is not a simple one."""
    annotation, default = field.annotation, field.get_default(call_default_factory=True)
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    if annotation is bool:
        return (True, False)
    if annotation is int:
        return (default, default, 1, 2, 3)
    if annotation is float and isinstance(default, float):
        return (default, default / 2, default * 2)
    return (default,)
