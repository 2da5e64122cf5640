"""Initial models of a study's runs."""

import re

import tomli_w
from tests.interop.transformers_models import install_package

from regard.runs.models.init_from import find_initial_model, inherit_settings
from regard.runs.observer import SILENT
from regard.studies.initial_models import initial_model_remarks, prepare_initial_models
from regard.studies.plan import plan
from regard.studies.study import LoadedStudy

ROWS = [f"word{n} word{n + 3},{'yes' if n % 2 else 'no'}" for n in range(20)]
RECIPE = {
    "name": "adapted",
    "init_from": "pip:tiny-model",
    "data": {"corpus": "rows.csv", "dev": 0.2, "test": 0.2},
    "task": {"kind": "classification"},
    "train": {"max_steps": 1, "batch_tokens": 16},
}
STUDY = {
    "base": "adapted.toml",
    "seeds": [0, 1],
    "decides": "dev.accuracy",
    "variants": {"full": {}, "head": {"adapt.kind": "head"}},
}


def never(*args):
    raise AssertionError("nothing has to be trained first")


def test_init_from_package_is_kept_in_the_runs_recipes(tmp_path, monkeypatch):
    """Each training must find the initial model and tokenizer of the plan."""
    monkeypatch.syspath_prepend(str(install_package(tmp_path / "site")))
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("\n".join(["text,label", *ROWS]) + "\n")
    (tmp_path / "adapted.toml").write_text(tomli_w.dumps(RECIPE))
    (tmp_path / "study.toml").write_text(tomli_w.dumps(STUDY))
    loaded = LoadedStudy.load(tmp_path / "study.toml")
    home = tmp_path / "runs" / "study"
    home.mkdir(parents=True)
    initial_models = prepare_initial_models(loaded, home=home, run_jobs=never)
    shared, imported = initial_model_remarks(initial_models, loaded)
    assert re.match("every variant .* pip:tiny-model, .* all seeds", shared)
    assert imported.startswith("pip:tiny-model: the file has no head transform")
    for planned in plan(home, loaded, initial_models, observer=SILENT):
        for seed in (0, 1):
            recipe = planned.job(home, seed, tuned={}).recipe
            assert recipe.init_from == "pip:tiny-model"
            initial_model = find_initial_model(recipe, runs=home, run_recipe=never)
            assert inherit_settings(recipe, initial_model) == recipe
