"""A study: several variants of one recipe, with seeds, and the figure that decides named first.

    base = "mini-gpt.toml"            question = "Does additive attention predict better?"
    decides = "dev.perplexity"        seeds = [0, 1, 2, 3, 4]
    tune = { "train.lr" = [5e-4, 1e-3] }

    [variants.dot]
    [variants.additive]
    "model.attention.kind" = "additive"

A variant holds dotted changes of the base, or `recipe = "other.toml"` and changes of that. `grid`
and `random` make variants of every combination, or of some drawn, of the values they list.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field

from regard.attention.kinds import BrokenKind
from regard.errors import UserError
from regard.recipe import Recipe
from regard.settings import Settings, read_settings
from regard.toml_tables import TomlTable, flat, read_toml

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
LOWER_IS_BETTER = ("perplexity", "perplexity_per_byte", "bits_per_byte", "loss_per_document")
Budget = Literal["steps", "tokens", "flops", "seconds"]


class RandomSweep(Settings):
    """Combinations drawn by seed instead of all of them."""

    trials: int = Field(ge=1)
    "How many combinations are drawn."
    seed: int = Field(default=0, ge=0)
    "Another seed draws others."
    values: dict[str, tuple[Any, ...]]
    "The values of each dotted key."


class Study(Settings):
    """Variants of one recipe, compared fairly."""

    name: str = Field(pattern=NAME)
    "What the study's folder is called."
    base: str
    "The recipe that variants change, beside the study's file or from here."
    question: str = ""
    "What the study asks, in one sentence; it heads the report."
    decides: str = "dev.perplexity"
    "The figure that decides, as part.metric; named before anything runs."
    reference: str = ""
    "The variant that the others are compared with; the first where none is named."
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    "Every variant is trained once with each."
    variants: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Dotted changes of the base, by variant; recipe = … takes another recipe first, against = …
    compares it with another variant than the reference (with itself: with none)."""
    grid: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    "Values of dotted keys; every combination is a variant."
    random: RandomSweep | None = None
    "Like grid, with combinations drawn."
    tune: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    "Values that each variant tries on dev with the first seed; its best is trained with all."
    match: Literal["nothing", "parameters"] = "nothing"
    "Adjust the width of variants so that parameters come as near the reference's as they can."
    budget: Budget = "steps"
    "What variants have equally: steps, tokens, estimated operations, or seconds of training."
    tolerance: float = Field(default=0.05, ge=0.0)
    "Relative difference in parameters up to which variants count as equal."
    probes: tuple[str, ...] = ()
    "Sentences whose loss and attention are shown for each variant."


@dataclass(frozen=True)
class Variant:
    """A named recipe of a study, before seeds."""

    name: str
    recipe: Recipe
    changes: Mapping[str, Any]
    "What it changes of the base, dotted."
    against: str
    "The variant it is compared with; its own name where it is compared with none."


@dataclass(frozen=True)
class LoadedStudy:
    """A study with its variants as recipes."""

    study: Study
    file: Path
    variants: tuple[Variant, ...]

    @property
    def reference(self) -> Variant:
        wanted = self.study.reference or self.variants[0].name
        return next(variant for variant in self.variants if variant.name == wanted)

    @classmethod
    def load(cls, path: str | Path, *, seeds: tuple[int, ...] = ()) -> Self:
        """Read a study file; `seeds` take the place of those it names."""
        file = Path(path)
        read = read_toml(file, topic="study")
        read.table.setdefault("name", file.stem)
        study = read_settings(Study, read.table, locate=read.locate)
        if seeds:
            study = study.model_copy(update={"seeds": seeds})
        _check(study, read)
        base = _beside(file, study.base, what="base")
        named = _named_changes(study)
        reference = study.reference or next(iter(named))
        variants = tuple(
            _variant(name, {"against": reference, **changes}, file=file, base=base)
            for name, changes in named.items()
        )
        loaded = cls(study, file, variants)
        _check_same_text(loaded)
        return loaded


def _check(study: Study, read: TomlTable) -> None:
    where = read.locate
    if not study.seeds or len(set(study.seeds)) < len(study.seeds) or min(study.seeds) < 0:
        raise UserError(
            f"seeds = {list(study.seeds)}: give at least one, each once, none below 0",
            topic="study",
            where=where("seeds"),
        )
    part, _, metric = study.decides.partition(".")
    if part not in ("dev", "test") or metric not in LOWER_IS_BETTER:
        raise UserError(
            f"decides = {study.decides!r} is no figure of a comparison",
            topic="study",
            where=where("decides"),
            mend=f"Name a part and a metric: dev or test, and {', '.join(LOWER_IS_BETTER)}.",
        )
    names = list(_named_changes(study))
    if not names:
        raise UserError(
            "there is nothing to compare: it has no variants, no grid and no random",
            topic="study",
            where=str(read.file),
            mend="Add at least [variants.NAME] with what it changes.",
        )
    if study.reference and study.reference not in names:
        raise UserError(
            f"reference = {study.reference!r} is no variant; there are {', '.join(names)}",
            topic="study",
            where=where("reference"),
        )
    for name, changes in study.variants.items():
        if changes.get("against", names[0]) not in names:
            raise UserError(
                f"variants.{name}: against = {changes['against']!r} is no variant; there are "
                f"{', '.join(names)}",
                topic="study",
                where=str(read.file),
            )
    for key, values in study.tune.items():
        if len(values) < 2:
            raise UserError(
                f"tune: {key} has nothing to choose from", topic="study", where=where("tune")
            )


def _named_changes(study: Study) -> dict[str, dict[str, Any]]:
    """Every variant's changes: those written out, then those of the sweeps."""
    named = {name: flat(changes) for name, changes in study.variants.items()}
    combinations = list(_combinations(study.grid)) if study.grid else []
    if study.random is not None:
        everything = list(_combinations(study.random.values))
        drawn = random.Random(study.random.seed)
        combinations += drawn.sample(everything, min(study.random.trials, len(everything)))
    for changes in combinations:
        named.setdefault(_said(changes), changes)
    return named


def _combinations(values: Mapping[str, tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [
        dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())
    ]


def _said(changes: Mapping[str, Any]) -> str:
    """`lr=0.001,width=64`: a sweep's variant by what it changes."""
    return ",".join(f"{key.rpartition('.')[2]}={value}" for key, value in changes.items())


def _variant(name: str, changes: Mapping[str, Any], *, file: Path, base: Path) -> Variant:
    own = dict(changes)
    other, against = own.pop("recipe", None), str(own.pop("against"))
    source = base if other is None else _beside(file, str(other), what=f"variants.{name}.recipe")
    origin = f"{file}, variants.{name}"
    for seeded in ("train.seed", "name"):
        if seeded in own:
            raise UserError(
                f"{seeded} is the study's own: seeds = […] and the variant's name give it",
                topic="study",
                where=origin,
            )
    plain = re.sub(r"[^A-Za-z0-9._-]", "-", name)  # a sweep's names hold = and ,
    recipe = Recipe.load(source, changes={**own, "name": plain}, changed_by=origin)
    told = own if other is None else {"recipe": other, **own}
    return Variant(name, _on_purpose(recipe), told, against)


def _on_purpose(recipe: Recipe) -> Recipe:
    """In a study broken kinds are there to be seen through: the report says what they are."""
    family = recipe.model
    broken = {
        name: value.model_copy(update={"on_purpose": True})
        for name in type(family).model_fields
        if isinstance(value := getattr(family, name), BrokenKind)
    }
    return recipe.model_copy(update={"model": family.model_copy(update=broken)})


def _beside(file: Path, name: str, *, what: str) -> Path:
    for place in (file.parent / name, Path(name)):
        if place.exists():
            return place
    raise UserError(
        f"{what} = {name!r}: there is no such recipe, neither beside the study nor from here",
        topic="study",
        where=str(file),
        mend="Give the path of a recipe (TOML).",
    )


def _check_same_text(loaded: LoadedStudy) -> None:
    """Variants that read other text cannot be told apart from their text."""
    reference = loaded.reference.recipe.data
    for variant in loaded.variants:
        if variant.recipe.data != reference:
            raise UserError(
                f"variant {variant.name} reads other data than {loaded.reference.name}, so no "
                "figure of the two speaks of the same documents",
                topic="study",
                where=str(loaded.file),
                mend="Give all variants the same [data].",
            )
