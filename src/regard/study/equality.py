"""What should be equal between the variants of a study and is not, a sentence each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from regard.study.outcome import VariantOutcome
from regard.study.study import LoadedStudy
from regard.study.usable import Usable, Usables


def unequal(
    loaded: LoadedStudy, variants: Mapping[str, VariantOutcome], usable: Usables
) -> list[str]:
    """Every variant against the one it is compared with."""
    found = []
    for name, other in ((variant.name, variant.against) for variant in loaded.variants):
        if name == other or not usable[name] or not usable[other]:
            continue
        found += [f"{name}: {what}" for what in _sizes(variants[name], variants[other], loaded)]
        found += [f"{name}: {what}" for what in _reading(usable[name], usable[other])]
    return found


def _sizes(one: VariantOutcome, other: VariantOutcome, loaded: LoadedStudy) -> list[str]:
    study, found = loaded.study, []
    apart = one.parameters / max(other.parameters, 1) - 1
    if abs(apart) > study.tolerance:
        found.append(
            f"{one.parameters:,} parameters where {other.name} has {other.parameters:,} "
            f"({apart:+.1%}; tolerance {study.tolerance:.0%})"
        )
    if study.budget in ("steps", "tokens") and one.tokens != other.tokens:
        found.append(f"trained on {one.tokens:,} tokens where {other.name} had {other.tokens:,}")
    if study.budget == "steps" and one.steps != other.steps:
        found.append(f"{one.steps:,} steps where {other.name} took {other.steps:,}")
    if len(one.trials) != len(other.trials):
        found.append(f"{len(one.trials)} tuning trials where {other.name} had {len(other.trials)}")
    return found


FACTS: dict[str, Callable[[Usable], object]] = {
    "another tokenizer, so figures per token do not compare": lambda run: (
        run.figures.tokenizer.fingerprint if run.figures.tokenizer else None
    ),
    "other tokens, or the same in another order": lambda run: run.figures.order,
    "other training documents": lambda run: run.figures.items.get("train", {}).get("documents"),
    "other dev documents": lambda run: run.figures.items.get("dev", {}).get("documents"),
    "other test documents": lambda run: run.figures.items.get("test", {}).get("documents"),
    "another device, precision or number of threads": lambda run: [
        run.figures.environment.get(key) for key in ("device", "precision", "threads")
    ],
}
"What is wrong when the two differ, and how to see it."


def _reading(one: Mapping[int, Usable], other: Mapping[int, Usable]) -> list[str]:
    shared = [seed for seed in one if seed in other]
    found = []
    for what, fact in FACTS.items():
        seeds = [seed for seed in shared if fact(one[seed]) != fact(other[seed])]
        if seeds:
            found.append(f"{what} (seed {', '.join(map(str, seeds))})")
    lonely = sorted(set(one) ^ set(other))
    if lonely:
        found.append(f"seed {', '.join(map(str, lonely))} is on one side only and left out")
    return found
