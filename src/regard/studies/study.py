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

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field

from regard.attention.kinds import BrokenKind
from regard.core.errors import UserError
from regard.core.settings import Settings, read_settings
from regard.core.toml import TomlTable, flatten, read_toml
from regard.evaluation.metrics.document_losses import DocumentMetric
from regard.runs.recipe import Recipe
from regard.studies.sweep import RandomSweep, combinations, swept

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
FOLDER = r"[A-Za-z0-9][A-Za-z0-9._=,+-]*"
RESERVED = (
    *("charts", "recipes", "study.toml", "plan.json", "outcome.json"),
    *("report.html", "report.md", "tables.tex"),
)
"What else a study's folder holds: a variant of that name would be overwritten by it."
Budget = Literal["steps", "tokens", "flops", "seconds"]
Pretrain = Literal["once", "each seed"]


class Study(Settings):
    """Variants of one recipe, compared fairly."""

    name: str = Field(pattern=NAME)
    "What the study's folder is called."
    base: str
    "The recipe that variants change, beside the study's file or from here."
    question: str = ""
    "What the study asks, in one sentence; it heads the report."
    decides: str = ""
    """The figure that decides, as part.metric; settled before anything runs. By default the main
    metric on dev: dev.perplexity of texts, a task's own of its rows."""
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
    pretrain: Pretrain = "once"
    """Where variants start from a recipe: one run of it for all seeds, or each seed its own; the
    report says which."""
    tune: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    "Values that each variant tries on dev with the first seed; its best is trained with all."
    match: Literal["nothing", "parameters"] = "nothing"
    "Adjust the width of variants so that parameters come as near the reference's as they can."
    budget: Budget = "steps"
    "What variants have equally: steps, tokens, estimated operations, or seconds of training."
    tolerance: float = Field(default=0.05, ge=0.0)
    "Relative difference in parameters, and in a budget that is not steps, that counts as equal."
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
        read = _read(file)
        read.table.setdefault("name", file.stem)
        study = read_settings(Study, read.table, locate=read.locate)
        if seeds:
            study = study.model_copy(update={"seeds": seeds})
        named = _named_changes(study)
        _check(study, list(named), read)
        _check_names(list(named), where=str(file))
        base = _beside(file, study.base, what="base")
        reference = study.reference or next(iter(named))
        variants = tuple(
            _variant(name, {"against": reference, **changes}, file=file, base=base, tune=study.tune)
            for name, changes in named.items()
        )
        loaded = cls(study, file, variants)
        _check_same_text(loaded)
        return replace(loaded, study=_deciding(loaded, read))


def _read(file: Path) -> TomlTable:
    try:
        return read_toml(file, topic="study")
    except UserError as problem:
        twice = re.search(r"Cannot declare \(('variants', .*)\) twice", problem.what)
        if twice is None:
            raise
        name = ".".join(re.findall(r"'([^']*)'", twice[1]))
        raise UserError(
            f"there are two variants of one name, [{name}]",
            topic="study",
            where=problem.where,
            hint="Give one of them another name; each name is a folder of its own.",
        ) from None


def _deciding(loaded: LoadedStudy, read: TomlTable) -> Study:
    """The study with the figure that decides, which every variant has to have."""
    study, known = loaded.study, metrics_of(loaded.reference.recipe)
    decides = study.decides or f"dev.{known[0]}"
    part, _, metric = decides.partition(".")
    if part not in ("dev", "test") or metric not in known:
        raise UserError(
            f"decides = {decides!r} is no figure of a comparison",
            topic="study",
            where=read.locate("decides"),
            hint=f"Name a part and a metric: dev or test, and {', '.join(known)}.",
        )
    for variant in loaded.variants:
        if metric not in metrics_of(variant.recipe):
            raise UserError(
                f"variant {variant.name} is measured by {', '.join(metrics_of(variant.recipe))}, "
                f"not by {metric}",
                topic="study",
                where=read.locate("decides"),
                hint="Variants of one study have one task.",
            )
    return study.model_copy(update={"decides": decides})


def metrics_of(recipe: Recipe) -> tuple[str, ...]:
    """What a recipe's runs are measured by, the main metric first."""
    return DocumentMetric().score_names if recipe.task is None else recipe.task.score_names


def _check(study: Study, names: Sequence[str], read: TomlTable) -> None:
    where = read.locate
    if not study.seeds or len(set(study.seeds)) < len(study.seeds) or min(study.seeds) < 0:
        raise UserError(
            f"seeds = {list(study.seeds)}: give at least one, each once, none below 0",
            topic="study",
            where=where("seeds"),
        )
    if not names:
        raise UserError(
            "there is nothing to compare: it has no variants, no grid and no random",
            topic="study",
            where=str(read.file),
            hint="Add at least [variants.NAME] with what it changes.",
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


def _check_names(names: Sequence[str], *, where: str) -> None:
    """Every variant has a folder of its own, also where capitals make no difference to folders."""
    seen: dict[str, str] = {}
    for name in names:
        if not re.fullmatch(FOLDER, name):
            what = f"variant {name!r} names a folder: use letters, digits and . _ = , + -"
        elif name.lower() in RESERVED:
            what = f"variant {name!r} is called like the study's own {name.lower()}"
        elif name.lower() in seen:
            what = f"variants {seen[name.lower()]} and {name} differ by capitals alone"
        else:
            seen[name.lower()] = name
            continue
        raise UserError(what, topic="study", where=where, hint="Give it another name.")


def _named_changes(study: Study) -> dict[str, dict[str, Any]]:
    """Every variant's changes: those written out, then those of the sweeps."""
    written = {name: flatten(changes) for name, changes in study.variants.items()}
    made = swept(study.grid, study.random)
    return written | {name: changes for name, changes in made.items() if name not in written}


def _variant(
    name: str,
    changes: Mapping[str, Any],
    *,
    file: Path,
    base: Path,
    tune: Mapping[str, Sequence[Any]],
) -> Variant:
    own = dict(changes)
    told = {key: value for key, value in own.items() if key != "against"}
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
    if "start" in own:
        own["start"] = str(_beside(file, str(own["start"]), what=f"variants.{name}.start"))
    plain = re.sub(r"[^A-Za-z0-9._-]", "-", name)  # a sweep's names hold = and ,
    recipe = Recipe.load(source, changes={**own, "name": plain}, changed_by=origin)
    for tried in combinations(tune):  # now, not after the trainings before it
        Recipe.load(source, changes={**own, **tried}, changed_by=f"{origin}, with tune")
    return Variant(name, _on_purpose(recipe), told, against)


def _on_purpose(recipe: Recipe) -> Recipe:
    """In a study broken kinds are there to be seen through: the report says what they are."""
    family = recipe.model
    broken = {
        name: value.model_copy(update={"on_purpose": True})
        for name in type(family).model_fields
        if isinstance(value := getattr(family, name), BrokenKind)
    }
    if not broken:  # a model that was not asked for stays so: it may come from a start
        return recipe
    return recipe.model_copy(update={"model": family.model_copy(update=broken)})


def _beside(file: Path, name: str, *, what: str) -> Path:
    for place in (file.parent / name, Path(name)):
        if name and place.exists():
            return place
    raise UserError(
        f"{what} = {name!r}: there is no such recipe, neither beside the study nor from here",
        topic="study",
        where=str(file),
        hint="Give the path of a recipe (TOML), or of a run's folder.",
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
                hint="Give all variants the same [data].",
            )
