"""A study: variants of one recipe, seeds, and the deciding score, fixed before anything runs.

    base = "mini-gpt.toml"            question = "Does additive attention predict better?"
    decides = "dev.perplexity"        seeds = [0, 1, 2, 3, 4]
    tune = { "train.lr" = [5e-4, 1e-3] }                    or { plan = [3, 5, 8, 12] }

    [variants.dot]
    [variants.additive]
    "model.attention.kind" = "additive"

A variant holds dotted changes of the base, or `recipe = "other.toml"` and changes of that recipe.
`grid` adds a variant per combination of the values it lists, `random` some of them at random.
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
from regard.core.settings import FILE_NAME, Settings, read_settings
from regard.core.toml import TomlTable, flatten, read_toml
from regard.evaluation.metrics.document_losses import DocumentMetric
from regard.runs.recipe import Recipe
from regard.runs.recipe_paths import PATH_KEYS, candidates_beside, find_path
from regard.studies.sweep import RandomSweep, combinations, sweep_variants
from regard.studies.verdicts.planned_looks import SeedPlan

FOLDER = r"[A-Za-z0-9][A-Za-z0-9._=,+-]*"
RESERVED = (
    *("charts", "recipes", "study.toml", "plan.json", "outcome.json"),
    *("report.html", "report.md", "tables.tex"),
)
"Other files of a study's folder, which a variant of the same name would collide with."
Budget = Literal["steps", "tokens", "flops", "seconds"]
Pretrain = Literal["once", "each seed"]


class Study(Settings):
    """Variants of one recipe, compared under equal conditions."""

    name: str = Field(pattern=FILE_NAME)
    "Name of the study's folder."
    base: str
    "Path of the recipe that variants change, relative to the study file or the current folder."
    question: str = ""
    "The research question in one sentence; headline of the report."
    decides: str = ""
    """The deciding score as split.metric, fixed before anything runs. Default: the main metric on
    dev (dev.perplexity for language models, the task's main metric otherwise)."""
    reference: str = ""
    "The variant that the others are compared with; default: the first."
    seeds: tuple[int, ...] | SeedPlan = (0, 1, 2, 3, 4)
    """Every variant is trained once with each seed. Or { plan = [3, 5, 8, 12] }: looks at that many
    seeds, and the study stops at the first that decides."""
    variants: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Dotted changes of the base, by variant; recipe = … replaces the base, against = … compares
    with another variant than the reference (with itself: no comparison)."""
    grid: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    "Values of dotted keys; every combination is a variant."
    random: RandomSweep | None = None
    "Like grid, with randomly drawn combinations."
    pretrain: Pretrain = "once"
    """For variants with an init_from recipe: train it once for all seeds, or once per seed; the
    report says which."""
    tune: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    "Values that each variant tries on dev with the first seed; the best is trained with all seeds."
    match: Literal["nothing", "parameters"] = "nothing"
    "Adjust the width of variants to bring their parameter count close to the reference's."
    budget: Budget = "steps"
    "What is equal for all variants: steps, tokens, estimated FLOPs, or seconds of training."
    tolerance: float = Field(default=0.05, ge=0.0)
    "Relative difference in parameters, or in a budget other than steps, that counts as equal."
    probes: tuple[str, ...] = ()
    "Sentences whose loss and attention are reported for each variant."

    @property
    def plan(self) -> SeedPlan | None:
        """The planned looks; None where the seeds are a list."""
        return self.seeds if isinstance(self.seeds, SeedPlan) else None

    @property
    def all_seeds(self) -> tuple[int, ...]:
        """Every seed that may be trained."""
        return tuple(range(self.seeds.plan[-1])) if isinstance(self.seeds, SeedPlan) else self.seeds


@dataclass(frozen=True)
class Variant:
    """A named recipe of a study, before seeds."""

    name: str
    recipe: Recipe
    changes: Mapping[str, Any]
    "Changes of the base, by dotted key."
    against: str
    "The variant it is compared with; its own name: no comparison."


@dataclass(frozen=True)
class LoadedStudy:
    """A study with its variants as recipes."""

    study: Study
    file: Path
    variants: tuple[Variant, ...]

    @property
    def reference(self) -> Variant:
        name = self.study.reference or self.variants[0].name
        return next(variant for variant in self.variants if variant.name == name)

    @classmethod
    def load(cls, path: str | Path, *, seeds: tuple[int, ...] = ()) -> Self:
        """Read a study file; `seeds` override those of the file."""
        file = Path(path)
        read = _read(file)
        read.table.setdefault("name", file.stem)
        return cls._of_table(read, seeds=seeds)

    @classmethod
    def from_dictionary(cls, table: Mapping[str, Any], *, seeds: tuple[int, ...] = ()) -> Self:
        """A study as TOML would give it; its base may be a dictionary too. Paths are relative to
        the working directory."""
        read = TomlTable.of_dictionary(table)
        base = read.table.get("base")
        if not isinstance(base, Mapping):
            return cls._of_table(read, seeds=seeds)
        read.table["base"] = str(base.get("name", "base"))
        return cls._of_table(read, seeds=seeds, base=base)

    @classmethod
    def _of_table(
        cls, read: TomlTable, *, seeds: tuple[int, ...], base: Mapping[str, Any] | None = None
    ) -> Self:
        file = read.file
        if "base" not in read.table and {"data", "model", "train"} & read.table.keys():
            raise UserError(
                "is a recipe, not a study",
                topic="study",
                where=str(file),
                hint=f"regard train {file}" if read.lines else "Give it to regard.train.",
            )
        study = read_settings(Study, read.table, locate=read.locate)
        if seeds:
            if study.plan is not None:
                raise UserError(
                    f"seeds = {list(seeds)} are given, and the study plans its looks at "
                    f"{list(study.plan.plan)} seeds",
                    topic="study",
                    where=read.locate("seeds.plan"),
                    hint="Leave them out: the study stops when it knows.",
                )
            study = study.model_copy(update={"seeds": seeds})
        changed = changes_by_name(study)
        _check(study, list(changed), read)
        _check_names(list(changed), where=str(file))
        source = _find_recipe(file, study.base, key="base") if base is None else base
        reference = study.reference or next(iter(changed))
        variants = tuple(
            _variant(
                name, {"against": reference, **changes}, file=file, base=source, tune=study.tune
            )
            for name, changes in changed.items()
        )
        loaded = cls(study, file, variants)
        _check_same_data(loaded)
        return replace(loaded, study=_with_deciding_score(loaded, read))


def _read(file: Path) -> TomlTable:
    try:
        return read_toml(file, topic="study")
    except UserError as problem:
        twice = re.search(r"Cannot declare \(('variants', .*)\) twice", problem.what)
        if twice is None:
            raise
        name = ".".join(re.findall(r"'([^']*)'", twice[1]))
        raise UserError(
            f"two variants have the same name, [{name}]",
            topic="study",
            where=problem.where,
            hint="Rename one of them; each variant has its own folder.",
        ) from None


def _with_deciding_score(loaded: LoadedStudy, read: TomlTable) -> Study:
    """The study with `decides` filled in; every variant must have that score."""
    study, names = loaded.study, score_names(loaded.reference.recipe)
    decides = study.decides or f"dev.{names[0]}"
    split, _, score_name = decides.partition(".")
    if split not in ("dev", "test") or score_name not in names:
        raise UserError(
            f"decides = {decides!r} is no score of a held-out split",
            topic="study",
            where=read.locate("decides"),
            hint=f"Use SPLIT.METRIC: dev or test, and {', '.join(names)}.",
        )
    for variant in loaded.variants:
        if score_name not in score_names(variant.recipe):
            raise UserError(
                f"variant {variant.name} is scored by {', '.join(score_names(variant.recipe))}, "
                f"not by {score_name}",
                topic="study",
                where=read.locate("decides"),
                hint="Variants of one study have one task.",
            )
    return study.model_copy(update={"decides": decides})


def score_names(recipe: Recipe) -> tuple[str, ...]:
    """The scores of a recipe's runs, the main one first."""
    return DocumentMetric().score_names if recipe.task is None else recipe.task.score_names


def _check(study: Study, names: Sequence[str], read: TomlTable) -> None:
    where = read.locate
    if study.plan is not None:
        study.plan.check(where=where("seeds.plan"))
    seeds = study.all_seeds
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise UserError(
            f"seeds = {list(seeds)}: give one or more different seeds, none below 0",
            topic="study",
            where=where("seeds"),
        )
    if not names:
        raise UserError(
            "there is nothing to compare: no variants, no grid and no random",
            topic="study",
            where=str(read.file),
            hint="Add [variants.NAME] with its changes.",
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
                f"tune: {key} needs at least two values", topic="study", where=where("tune")
            )


def _check_names(names: Sequence[str], *, where: str) -> None:
    """Every variant has its own folder, on case-insensitive file systems too."""
    seen: dict[str, str] = {}
    for name in names:
        if not re.fullmatch(FOLDER, name):
            what = f"variant {name!r} must be a folder name: use letters, digits and . _ = , + -"
        elif name.lower() in RESERVED:
            what = f"variant {name!r} has the name of the study's own {name.lower()}"
        elif name.lower() in seen:
            what = f"variants {seen[name.lower()]} and {name} differ only in case"
        else:
            seen[name.lower()] = name
            continue
        raise UserError(what, topic="study", where=where, hint="Rename it.")


def changes_by_name(study: Study) -> dict[str, dict[str, Any]]:
    """Every variant's changes: explicit variants first, then those of the sweeps."""
    explicit = {name: flatten(changes) for name, changes in study.variants.items()}
    swept = sweep_variants(study.grid, study.random)
    return explicit | {name: changes for name, changes in swept.items() if name not in explicit}


def _variant(
    name: str,
    changes: Mapping[str, Any],
    *,
    file: Path,
    base: Path | Mapping[str, Any],
    tune: Mapping[str, Sequence[Any]],
) -> Variant:
    settings = dict(changes)
    reported = {key: value for key, value in settings.items() if key != "against"}
    other, against = settings.pop("recipe", None), str(settings.pop("against"))
    source = base
    if other is not None:
        source = _find_recipe(file, str(other), key=f"variants.{name}.recipe")
    origin = f"{file}, variants.{name}"
    for key in ("train.seed", "name"):
        if key in settings:
            raise UserError(
                f"{key} is set by the study: from seeds = […] and the variant's name",
                topic="study",
                where=origin,
            )
    if "init_from" in settings:
        path = _find_recipe(file, str(settings["init_from"]), key=f"variants.{name}.init_from")
        settings["init_from"] = str(path)
    for key in PATH_KEYS:
        if key in settings:
            settings[key] = find_path(settings[key], candidates_beside(file))
    run_name = re.sub(r"[^A-Za-z0-9._-]", "-", name)  # names of sweeps contain = and ,
    recipe = _load_recipe(source, {**settings, "name": run_name}, changed_by=origin)
    for values in combinations(tune):  # fail now, not after hours of training
        changes = {"name": run_name, **settings, **values}
        _load_recipe(source, changes, changed_by=f"{origin}, with tune")
    return Variant(name, _allow_broken_kinds(recipe), reported, against)


def _load_recipe(
    source: Path | Mapping[str, Any], changes: Mapping[str, Any], *, changed_by: str
) -> Recipe:
    if isinstance(source, Mapping):
        return Recipe.from_dictionary(source, changes=changes, changed_by=changed_by)
    return Recipe.load(source, changes=changes, changed_by=changed_by)


def _allow_broken_kinds(recipe: Recipe) -> Recipe:
    """Set `on_purpose`: a study may contain broken kinds, its report marks them as invalid."""
    family = recipe.model
    broken = {
        name: value.model_copy(update={"on_purpose": True})
        for name in type(family).model_fields
        if isinstance(value := getattr(family, name), BrokenKind)
    }
    if not broken:  # leave an unset model unset: it may come from `init_from`
        return recipe
    return recipe.model_copy(update={"model": family.model_copy(update=broken)})


def _find_recipe(file: Path, name: str, *, key: str) -> Path:
    for path in (file.parent / name, Path(name)):
        if name and path.exists():
            return path
    raise UserError(
        f"{key} = {name!r}: no such recipe, neither beside the study nor in the current folder",
        topic="study",
        where=str(file),
        hint="Give the path of a recipe (TOML), or of a run's folder.",
    )


def _check_same_data(loaded: LoadedStudy) -> None:
    """Scores on different data do not compare."""
    reference = loaded.reference.recipe.data
    for variant in loaded.variants:
        if variant.recipe.data != reference:
            raise UserError(
                f"variant {variant.name} reads other data than {loaded.reference.name}, so their "
                "scores are not on the same documents",
                topic="study",
                where=str(loaded.file),
                hint="Give all variants the same [data].",
            )
