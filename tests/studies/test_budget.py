"""Budgets: cost per update, and widths that match parameters (generated text)."""

import pytest
import tomli_w
from tests.journeys.workspace import TINY, generated_text, with_settings

from regard.core.ledger import total_parameters
from regard.ops.cpu import library
from regard.runs.observer import SILENT
from regard.studies.budget import allocate_budgets
from regard.studies.study import LoadedStudy


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "generated.txt").write_text(generated_text())
    corpus = str(tmp_path / "generated.txt")
    (tmp_path / "tiny.toml").write_text(
        tomli_w.dumps(with_settings(TINY, {"data__corpus": corpus}))
    )

    def load(**table):
        file = tmp_path / "study.toml"
        file.write_text(tomli_w.dumps({"base": "tiny.toml", **table}))
        return LoadedStudy.load(file)

    return load


def test_step_budget_leaves_recipes_unchanged(study):
    loaded = study(variants={"dot": {}, "wide": {"model.width": 32}})
    dot, wide = allocate_budgets(loaded, observer=SILENT)
    assert dot.steps == wide.steps == 20
    assert wide.variant.recipe == loaded.variants[1].recipe
    assert wide.operations > 2 * dot.operations


def test_flop_budget_gives_expensive_variants_fewer_steps(study):
    loaded = study(budget="flops", variants={"dot": {}, "wide": {"model.width": 32}})
    dot, wide = allocate_budgets(loaded, observer=SILENT)
    assert dot.steps == 20
    assert wide.steps == round(20 * dot.operations / wide.operations)
    assert wide.variant.recipe.train.max_steps == wide.steps


def test_match_parameters_adjusts_the_width(study):
    loaded = study(
        match="parameters", variants={"dot": {}, "deep": {"model.layers": 3, "model.heads": 2}}
    )
    dot, deep = allocate_budgets(loaded, observer=SILENT)
    family = deep.variant.recipe.model
    assert family.width < 16
    assert family.layers == 3
    distance = abs(deep.parameters - dot.parameters)
    for width in (family.width - 2, family.width + 2):
        other = type(family)(**{**dict(family), "width": width})
        assert (
            abs(total_parameters(other.count_parameters(_vocabulary(dot))) - dot.parameters)
            >= distance
        )


def _vocabulary(budget) -> int:
    """From the parameter count of a model, given all its other settings."""
    family = budget.variant.recipe.model
    return (budget.parameters - total_parameters(family.count_parameters(0))) // family.width


def test_flops_do_not_depend_on_the_kernel_library(study, monkeypatch):
    loaded = study(variants={"dot": {}, "wide": {"model.width": 48, "model.heads": 3}})
    with_kernels = [one.operations for one in allocate_budgets(loaded, observer=SILENT)]
    monkeypatch.setattr(library, "LIBRARY", None)
    assert [one.operations for one in allocate_budgets(loaded, observer=SILENT)] == with_kernels
