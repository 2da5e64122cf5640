"""The pre-flight: what is refused or said before a model is built or anything allocated."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from tests.journeys.workspace import Workspace, generated_text

from regard.core.errors import UserError
from regard.core.process.memory_limits import MemoryLimits, memory_limits
from regard.core.settings import read_settings
from regard.evaluation.statistics.planning import smallest_difference
from regard.models.families.decoder import Decoder
from regard.runs import experiment
from regard.runs.preflight.memory import check_memory
from regard.runs.recipe import Recipe

GB = 10**9


def recipe(*overrides: str, **tables: Any) -> Recipe:
    table = {"name": "a", "data": {"corpus": "generated.txt"}, **tables}
    for override in overrides:
        key, _, value = override.partition("=")
        section, _, name = key.partition(".")
        table.setdefault(section, {})[name] = json.loads(value)
    return read_settings(Recipe, table)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    fresh = Workspace(tmp_path)
    fresh.write("generated.txt", generated_text(300))
    fresh.recipe()
    return fresh


def test_memory_needed_is_that_of_weights_gradients_and_moments() -> None:
    one = recipe("model.width=480", "model.layers=2")
    parameters = sum(count.value for count in one.model.count_parameters(8000))
    limits = MemoryLimits(total=16 * parameters, available=16 * parameters)
    assert check_memory(one, vocabulary=8000, limits=limits) == []
    too_little = MemoryLimits(total=16 * parameters - 1, available=None)
    with pytest.raises(UserError, match=f"{parameters:,} parameters"):
        check_memory(one, vocabulary=8000, limits=too_little)
    evaluated = recipe("model.width=480", "model.layers=2", "train.max_steps=0")
    assert check_memory(evaluated, vocabulary=8000, limits=too_little) == []


def test_memory_that_is_not_free_now_is_said() -> None:
    one = recipe("model.width=480")
    (remark,) = check_memory(one, vocabulary=8000, limits=MemoryLimits(GB, 1000))
    assert "1 kB are free" in remark
    assert check_memory(one, vocabulary=8000, limits=MemoryLimits(None, None)) == []


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("model.width=3000000", "model.width = 3,000,000"),
        ("model.context=16000000", "model.context = 16,000,000"),
        ("model.mlp_width=900000000", "model.mlp_width = 900,000,000"),
        ("train.batch_tokens=100000000000", "train.batch_tokens = 100,000,000,000"),
    ],
)
def test_the_setting_that_takes_the_memory_is_named(override: str, named: str) -> None:
    positions = 10**11 if "batch_tokens" in override else 0
    with pytest.raises(UserError) as problem:
        check_memory(
            recipe(override), vocabulary=100, positions=positions, limits=MemoryLimits(GB, GB)
        )
    assert problem.value.where == named


def test_a_frozen_base_needs_no_moments() -> None:
    lora = recipe(adapt={"kind": "lora"}, init_from="runs/none", model={"width": 480})
    parameters = sum(count.value for count in lora.model.count_parameters(8000))
    limits = MemoryLimits(total=8 * parameters, available=None)
    assert check_memory(lora, vocabulary=8000, limits=limits) == []


def test_the_systems_memory_is_read() -> None:
    limits = memory_limits()
    assert limits.total is None or 10**7 < limits.total < 10**15
    assert limits.available is None or 0 < limits.available < 10**15


ABSURD = [
    ("model.layers=1000000", "model.layers"),
    ("model.width=10000000", "model.width"),
    ("model.context=1000000000", "model.context"),
    ("model.context=9000000", "model.context"),
    ("model.mlp_width=10000000000", "model.mlp_width"),
    ("tokenizer.vocabulary=1000000000", "tokenizer.vocabulary"),
    ("tokenizer.sentinels=1000000000", "tokenizer.sentinels"),
    ("train.seed=100000000000000000000", "train.seed"),
    ("samples.max_new_tokens=1000000000", "samples.max_new_tokens"),
]


@pytest.mark.parametrize("command", ["validate", "train"])
@pytest.mark.parametrize(("setting", "key"), ABSURD)
def test_absurd_values_are_refused_before_anything_is_built(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, command: str, setting: str, key: str
) -> None:
    def built(*_: object, **__: object) -> None:
        raise AssertionError("a model was built")

    monkeypatch.setattr(experiment, "build_model", built)
    monkeypatch.setattr(experiment, "prepare", built)
    monkeypatch.setattr("regard.runs.preflight.memory.memory_limits", lambda: MemoryLimits(GB, GB))
    result = workspace.invoke(command, "tiny.toml", "--set", setting)
    assert result.exit_code == 2
    assert key in result.error
    assert not (workspace.folder / "runs").exists()


SAID = [
    ("train.batch_tokens=1", "train.batch_tokens = 1 "),
    ("train.batch_tokens=100000000", "train.batch_tokens = 100,000,000"),
    ("train.lr=1e9", "train.lr = 1e+09"),
    ("tokenizer.vocabulary=5000", "tokenizer.vocabulary = 5,000"),
    ("train.patience=3", "train.patience = 3 never acts"),
]


def test_what_is_adapted_or_unlikely_is_said_and_stands_in_the_results(
    workspace: Workspace,
) -> None:
    for setting, said in SAID:
        more = ("--set", "train.evaluate_every=1000") if "patience" in setting else ()
        printed = workspace.run("validate", "tiny.toml", "--json", "--set", setting, *more)
        assert any(said in remark for remark in json.loads(printed)["remarks"]), setting
    workspace.run(
        *("train", "tiny.toml", "--set", "train.max_steps=2"),
        *("--set", "train.batch_tokens=100000000", "--set", "tokenizer.vocabulary=5000"),
    )
    results = json.loads((workspace.folder / "runs/tiny/results.json").read_text())
    for said in ("train.batch_tokens = 100,000,000", "tokenizer.vocabulary = 5,000"):
        assert any(said in remark for remark in results["remarks"])


def test_epochs_are_counted_without_planning_each(workspace: Workspace) -> None:
    printed = workspace.run(
        *("validate", "tiny.toml", "--json", "--set", "train.epochs=1000000000"),
        *("--set", "train.max_steps=1000000000000"),
    )
    assert json.loads(printed)["steps"] % 10**9 == 0


def test_validate_says_what_the_held_out_rows_could_show(workspace: Workspace) -> None:
    rows = "".join(f"{text},{'ab'[i % 4 == 0]}\n" for i, text in enumerate(unique_texts(200)))
    workspace.write("rows.csv", f"text,label\n{rows}")
    workspace.recipe(
        data__corpus="rows.csv",
        data__dev=40,
        data__test=40,
        task={"kind": "classification"},
        model={"family": "encoder", "layers": 1, "width": 8, "heads": 1, "context": 16},
        train__batches="padded",
    )
    validation = json.loads(workspace.run("validate", "tiny.toml", "--json"))
    assert sum(validation["labels"]["train"].values()) == 120
    assert set(validation["labels"]["train"]) == {"a", "b"}
    assert validation["scored"] == {"dev": 40, "test": 40}
    assert validation["smallest_difference"]["dev"] == pytest.approx(smallest_difference(40))
    assert validation["overlap"]["dev"]["items"] == 40


def unique_texts(count: int) -> list[str]:
    generator = random.Random(0)
    letters = "abcdefghijklmnopqrstuvwxyz"
    return [" ".join("".join(generator.sample(letters, 5)) for _ in range(8)) for _ in range(count)]


def test_smallest_difference_shrinks_with_the_root_of_the_rows() -> None:
    few, many = smallest_difference(400), smallest_difference(1600)
    assert few is not None
    assert many is not None
    assert few / many == pytest.approx(2, rel=0.01)
    assert few == pytest.approx(2.8 * (0.2 / 400) ** 0.5, rel=0.01)
    assert smallest_difference(1) is None


def test_layers_are_limited_so_that_counting_stays_cheap() -> None:
    deepest = Decoder(layers=4096)
    assert sum(count.value for count in deepest.count_parameters(100)) > 4096
    with pytest.raises(ValueError, match="4096"):
        Decoder(layers=4097)
