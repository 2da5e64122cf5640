"""What a training reads: it travels, or has to be there, with the same content."""

from pathlib import Path
from typing import Any

import pytest
from tests.journeys.workspace import TINY, with_settings

from regard.core.errors import UserError
from regard.runs.recipe import Recipe
from regard.studies.engines.ray.inputs import check_expected, expected_of, inputs_of


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    return home


def recipe(**settings: Any) -> Recipe:
    return Recipe.from_table(with_settings(TINY, settings))


def write(*names: str) -> None:
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(f"text of {name}\n")


@pytest.mark.parametrize(
    ("corpus", "files"),
    [
        ("generated.txt", ["generated.txt"]),
        ("texts", ["texts/a.txt", "texts/b/c.txt"]),
        ("texts/*.txt", ["texts/a.txt"]),
        (["generated.txt", "texts/a.txt"], ["generated.txt", "texts/a.txt"]),
        ("train.{en,de}", ["train.de", "train.en"]),
    ],
)
def test_files_below_the_working_directory_travel(corpus, files):
    write("generated.txt", "texts/a.txt", "texts/b/c.txt", "texts/.hidden", "train.en", "train.de")
    inputs = inputs_of(recipe(data__corpus=corpus), ())
    assert sorted(inputs.files) == files
    assert (inputs.elsewhere, inputs.builtin) == ([], [])


def test_dev_test_tokenizer_and_own_files_travel_too(tmp_path):
    write("generated.txt", "dev.txt", "tokenizer.json")
    own = tmp_path / "kind.py"
    write(str(own))
    settings = {"data__dev": "dev.txt", "tokenizer": {"kind": "file", "path": "tokenizer.json"}}
    inputs = inputs_of(recipe(**settings), [own])
    assert sorted(inputs.files) == [
        *("dev.txt", "generated.txt", "own-files/0/kind.py", "tokenizer.json")
    ]
    assert inputs.own_files == ["own-files/0/kind.py"]


def test_of_a_run_to_start_from_its_model_travels_and_not_its_checkpoints():
    files = ("recipe.toml", "results.json", "final/model.safetensors", "final/config.json")
    write("generated.txt", *(f"runs/pretrain/{name}" for name in files))
    write("runs/pretrain/checkpoints/step-000005/model.safetensors", "runs/pretrain/report.html")
    inputs = inputs_of(recipe(init_from="runs/pretrain"), ())
    assert sorted(inputs.files) == ["generated.txt", *sorted(f"runs/pretrain/{f}" for f in files)]


def test_the_model_under_an_adapter_travels():
    write("generated.txt", "runs/tuned/recipe.toml", "runs/base/recipe.toml", "runs/base/final/w")
    write("runs/tuned/final/adapter_model.safetensors")
    Path("runs/tuned/final/config.json").write_text('{"base": {"path": "runs/base"}}')
    inputs = inputs_of(recipe(init_from="runs/tuned"), ())
    assert {"runs/base/final/w", "runs/tuned/final/config.json"} <= inputs.files.keys()


def test_a_file_elsewhere_is_expected_there(tmp_path):
    outside = tmp_path / "reviews.txt"
    write(str(outside))
    inputs = inputs_of(recipe(data__corpus=str(outside)), ())
    assert (inputs.files, inputs.elsewhere) == ({}, [outside])
    expected = expected_of(inputs)
    check_expected(expected)
    outside.write_text("another text\n")
    with pytest.raises(UserError, match="is another file") as different:
        check_expected(expected)
    assert different.value.where == str(outside)
    outside.unlink()
    with pytest.raises(UserError, match="no such file here"):
        check_expected(expected)


def test_a_built_in_set_and_a_package_are_expected_with_the_same_content(monkeypatch):
    expected = expected_of(inputs_of(recipe(data__corpus="opinions"), ()))
    assert list(expected["builtin"]) == ["opinions"]
    check_expected(expected)
    expected["builtin"]["opinions"][1] = "0" * 64
    with pytest.raises(UserError, match="other content") as different:
        check_expected(expected)
    assert different.value.where == "opinions"
    with pytest.raises(UserError, match=r"version 9\.9 is not installed") as missing:
        check_expected({"packages": {"numpy": "9.9"}})
    assert missing.value.where == "numpy"
