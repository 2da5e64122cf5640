"""Counts and times of the audit: planted cases found, clean models called clean, CPU seconds.

python -m benchmarks.audit            the tables of docs/audit.md
python -m benchmarks.audit --times    only the times
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from tests.audits import clean_modules, models_with_arguments, windows
from tests.audits.clean_mixers import MIXERS
from tests.audits.clean_models import random_clean_model
from tests.audits.planted_coupling import COUPLED
from tests.audits.planted_hidden_leaks import HIDDEN
from tests.audits.planted_leaks import LEAKS
from tests.audits.planted_row_leaks import ROW_LEAKS

from regard.audits.audit import audit
from regard.core.errors import UserError
from regard.runs.experiment import build_experiment
from regard.runs.observer import SILENT
from regard.runs.recipe import Recipe
from regard.runs.training_audit import audit_before_training

RECIPES = ("mini-gpt", "mini-llama", "mini-bert", "opinions")
RANDOM_CLEAN_MODELS = 40
REPETITIONS = 3

Case = tuple[Callable[[], Any], Any]
"What builds a model, and the mask it is audited against; None for its own."


def planted() -> dict[str, list[Case]]:
    return {
        "leaks as they are": [(build, None) for build in LEAKS.values()],
        "hidden by the weights": [(build, None) for build, _ in HIDDEN.values()],
        "at some lengths, in some rows": [(build, None) for build in ROW_LEAKS.values()],
        "by an argument": [(build, None) for build, _ in models_with_arguments.LEAKING.values()],
        "window wider than declared": list(windows.WIDE.values()),
        "batch coupling": [(build, None) for build, _ in COUPLED.values()],
    }


def clean() -> dict[str, list[Case]]:
    drawn = [random_clean_model(seed) for seed in range(RANDOM_CLEAN_MODELS)]
    return {
        "random components": [(lambda one=one: one.subject, one.mask) for one in drawn],
        "masks, zeros and gates": [(build, None) for build in clean_modules.CLEAN.values()],
        "mixers other than attention": [(build, None) for build in MIXERS.values()],
        "with arguments": [(build, None) for build in models_with_arguments.CLEAN.values()],
        "window as declared": list(windows.NARROW.values()),
    }


def verdict(case: Case) -> str:
    build, mask = case
    try:
        return audit(build(), mask=mask).verdict
    except UserError:
        return "refused"


def counts(groups: dict[str, list[Case]], wanted: tuple[str, ...]) -> Iterator[str]:
    for name, cases in groups.items():
        verdicts = [verdict(case) for case in cases]
        yield f"| {name} | {len(cases)} | {sum(one in wanted for one in verdicts)} |"


def times() -> Iterator[str]:
    for name in RECIPES:
        recipe = Recipe.load(Path("recipes") / f"{name}.toml")
        experiment = build_experiment(recipe, initial_model=None, observer=SILENT)
        torch.set_num_threads(1)
        taken = []
        for _ in range(REPETITIONS):
            started = time.process_time()
            audit_before_training(experiment.model, experiment.recipe.model, experiment.loader)
            taken.append(time.process_time() - started)
        yield f"| {name} | {min(taken):.2f} |"


def main() -> None:
    torch.set_num_threads(1)
    if "--times" not in sys.argv:
        print("planted", *counts(planted(), ("leak", "batch coupling")), sep="\n", flush=True)
        print("clean", *counts(clean(), ("clean",)), sep="\n", flush=True)
    print("CPU seconds", *times(), sep="\n")


if __name__ == "__main__":
    main()
