"""Model folders and recipes as an attacker would write them: one sentence, soon, nothing built."""

from __future__ import annotations

import copy
import gzip
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import reduce
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from tests.journeys.workspace import Workspace

from regard.core.errors import UserError
from regard.core.files import MANIFEST, sha256
from regard.runs.models.loaded_model import load_model

SECONDS = 5.0
WRONG: list[Any] = [None, [], {}, "x", 3, -1, 0, True, 1e300, 10**30, "x" * 10**5, [[]], {"a": {}}]
DEEP = "[" * 200_000
WORDS = ("cat", "dog")
ROWS = "text,label\n" + "".join(
    f"a {word} sees {n},{word}\n" for n in range(60) for word in ("cat", "dog")
)


@pytest.fixture(scope="session")
def models(
    shared_workspace: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """A language model, and a classifier that is an adapter above it."""
    workspace = Workspace(tmp_path_factory.mktemp("hostile") / "work")
    shutil.copytree(shared_workspace.folder, workspace.folder)
    workspace.write("rows.csv", ROWS)
    adapted = {"name": "adapted", "init_from": str(workspace.folder / "runs/tiny")}
    inherited = {"model": None, "tokenizer": None, "samples": None, "data__corpus": "rows.csv"}
    trained = {"task__kind": "classification", "adapt__kind": "lora", "train__max_steps": 2}
    workspace.recipe("adapted.toml", **adapted, **inherited, **trained)
    with mock.patch("regard.reports.run_report.draw_inline_charts", return_value=[]):
        workspace.run("train", "adapted.toml")
    return {name: workspace.folder / "runs" / name / "final" for name in ("tiny", "adapted")}


@pytest.fixture
def tiny(models: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(models["tiny"], tmp_path / "tiny"))


@pytest.fixture
def adapted(models: dict[str, Path], tmp_path: Path) -> Path:
    folder = Path(shutil.copytree(models["adapted"], tmp_path / "adapted"))
    change(folder / "config.json", "base", "path", value=str(models["tiny"]))  # left its project
    return folder


def seal(folder: Path) -> None:
    """The manifest that fits: whoever changes a folder can write it."""
    files = {file.name: sha256(file) for file in folder.iterdir() if file.name != MANIFEST}
    (folder / MANIFEST).write_text(json.dumps({"schema": 1, "files": files}), encoding="utf-8")


def change(file: Path, *keys: str, value: Any) -> None:
    table = json.loads(file.read_text(encoding="utf-8"))
    inner = reduce(lambda outer, key: outer[key], keys[:-1], table)
    inner[keys[-1]] = value
    file.write_text(json.dumps(table), encoding="utf-8")
    seal(file.parent)


@contextmanager
def refused(*, saying: str) -> Iterator[None]:
    start = time.process_time()
    with pytest.raises(UserError, match=saying) as problem:
        yield
    assert time.process_time() - start < SECONDS
    sentence = str(problem.value)
    assert len(sentence) < 1200
    assert "\n" not in sentence


@pytest.mark.parametrize("name", ["tiny", "adapted"])
def test_no_value_of_a_config_is_believed(
    models: dict[str, Path], tmp_path: Path, name: str
) -> None:
    folder = Path(shutil.copytree(models[name], tmp_path / name))
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for key in config:
        for value in (*WRONG, KeyError):
            changed = copy.deepcopy(config)
            if value is KeyError:
                del changed[key]
            else:
                changed[key] = value
            (folder / "config.json").write_text(json.dumps(changed), encoding="utf-8")
            seal(folder)
            with suppress(UserError):  # nothing else; some values are fine
                load_model(folder)


@pytest.mark.parametrize(
    ("keys", "value", "saying"),
    [
        (("model", "layers"), 10**6, "layers = 1000000 is not allowed"),
        (("model", "layers"), 4000, "numbers, and config.json describes"),
        (("model", "width"), 30_000, "numbers, and config.json describes"),
        (("model", "context"), 10**9, "context = 1000000000 is not allowed"),
        (("model", "context"), 10**6, "numbers, and config.json describes"),
        (("vocabulary",), 10**6, "numbers, and config.json describes"),
        (("vocabulary",), 10**12, "vocabulary = 1000000000000"),
    ],
)
def test_sizes_are_compared_with_the_weights(
    tiny: Path, keys: tuple[str, ...], value: int, saying: str
) -> None:
    change(tiny / "config.json", *keys, value=value)
    with refused(saying=saying):
        load_model(tiny)


def test_an_adapter_is_compared_with_its_model(adapted: Path) -> None:
    change(adapted / "config.json", "adapt", "rank", value=10**7)
    with refused(saying="a rank of 10000000 is more than 16"):
        load_model(adapted)


def test_an_adapter_whose_base_is_itself(adapted: Path, tiny: Path) -> None:
    shutil.copy(tiny / "model.safetensors", adapted)
    entry = {"path": str(adapted), "fingerprint": sha256(adapted / "model.safetensors")}
    change(adapted / "config.json", "base", value=entry)
    with refused(saying="leads back to it"):
        load_model(adapted)


def test_a_tower_of_adapters(adapted: Path, tiny: Path) -> None:
    """Each is another folder, so that none leads back."""
    above = adapted
    for number in range(10):
        base = Path(shutil.copytree(adapted, adapted.with_name(f"base{number}")))
        shutil.copy(tiny / "model.safetensors", base)
        entry = {"path": str(base), "fingerprint": sha256(base / "model.safetensors")}
        change(above / "config.json", "base", value=entry)
        above = base
    with refused(saying="above more than 8 others"):
        load_model(adapted)


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize("text", [DEEP, '{"a":' * 90 + "1" + "}" * 90, "", "[]", "9" * 5000])
def test_deep_json_is_damage(tiny: Path, file: str, text: str) -> None:
    (tiny / file).write_text(text, encoding="utf-8")
    seal(tiny)
    if file == "tokenizer_config.json" and text == "[]":
        load_model(tiny)  # only a name is read from it
        return
    with refused(saying=file):
        load_model(tiny)


def test_deep_manifests_and_paths_out_of_the_folder_are_damage(tiny: Path) -> None:
    (tiny / MANIFEST).write_text(DEEP, encoding="utf-8")
    with refused(saying="manifest.json is damaged"):
        load_model(tiny)
    table = {"schema": 1, "files": {"../../../etc/hostname": "0" * 64}}
    (tiny / MANIFEST).write_text(json.dumps(table), encoding="utf-8")
    with refused(saying="is no file beside it"):
        load_model(tiny)


def replacement(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


DOUBLING = {"type": "Sequence", "normalizers": [replacement({"String": "a"}, "aa")] * 30}
BACKTRACKING = {
    "type": "Split",
    "pattern": {"Regex": "(a+)+$"},
    "behavior": "Isolated",
    "invert": False,
}


@pytest.mark.parametrize(
    ("key", "value", "saying"),
    [
        ("normalizer", DOUBLING, "up to 1,000,000,000 times as long"),
        ("normalizer", replacement({"Regex": ""}, "b" * 100), "up to 101 times as long"),
        ("pre_tokenizer", BACKTRACKING, "cannot encode text .Onig"),
        ("pre_tokenizer", {"type": "FixedLength", "length": 0}, "chunk size"),
        ("normalizer", {"type": "Precompiled", "precompiled_charsmap": "AAAA"}, "Precompiled"),
        ("decoder", {"type": "Sequence", "decoders": DOUBLING["normalizers"]}, "times as long"),
    ],
)
def test_tokenizers_that_explode_or_panic(
    tiny: Path, key: str, value: Any, saying: str, capfd: pytest.CaptureFixture[str]
) -> None:
    change(tiny / "tokenizer.json", key, value=value)
    with refused(saying=saying):
        load_model(tiny)
    assert "panicked" not in capfd.readouterr().err


def test_tokenizer_with_an_id_that_needs_a_huge_embedding(tiny: Path) -> None:
    table = json.loads((tiny / "tokenizer.json").read_text(encoding="utf-8"))
    table["model"]["vocab"]["zzz"] = 2**32 - 2
    (tiny / "tokenizer.json").write_text(json.dumps(table), encoding="utf-8")
    seal(tiny)
    with refused(saying="an id of 4,294,967,294"):
        load_model(tiny)


def test_a_panic_on_a_text_is_one_sentence(tiny: Path) -> None:
    slow = {**BACKTRACKING, "pattern": {"Regex": "(z+)+$"}}
    change(tiny / "tokenizer.json", "pre_tokenizer", value=slow)
    config = json.loads((tiny / "config.json").read_text(encoding="utf-8"))
    from regard.data.tokenizers.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(tiny)
    for encode in (
        lambda: tokenizer.encode("z" * 40 + "!"),
        lambda: tokenizer.encode_many(["fine", "z" * 40 + "!"]),
    ):
        with refused(saying="makes the tokenizers library fail"):
            encode()
    assert config["tokenizer"] != tokenizer.fingerprint


@pytest.mark.parametrize("package", ["", "../tiny", "a b", "x" * 1000, "-r", "no-such-package"])
def test_a_config_cannot_advise_an_installation(adapted: Path, package: str) -> None:
    base = {"path": f"pip:{package}", "fingerprint": "0" * 64}
    change(adapted / "config.json", "base", value=base)
    with pytest.raises(UserError) as problem:
        load_model(adapted)
    assert "pip install" not in str(problem.value)


HOSTILE_RECIPES: dict[str, Callable[[], str]] = {
    "500 tables": lambda: "[" + ".".join(["model"] * 500) + "]\nwidth = 3\n",
    "500 inline tables": lambda: "model = " + "{a = " * 500 + "1" + "}" * 500,
    "500 lists": lambda: "x = " + "[" * 500 + "]" * 500,
    "50,000 lists": lambda: "x = " + "[" * 50_000 + "]" * 50_000,
    "4,300 digits": lambda: "name = 1" + "0" * 4299,
    "5,000 digits": lambda: "name = 1" + "0" * 5000,
    "hexadecimal": lambda: "[train]\nseed = 0x" + "f" * 100_000,
    "init_from": lambda: f'init_from = "{"a" * 10**6}"',
    "name": lambda: f'name = "{"a" * 10**6}"',
    "corpus": lambda: f'[data]\ncorpus = "{"a" * 10**6}"',
    "NUL": lambda: 'init_from = "a\\u0000b"',
    "many keys": lambda: "\n".join(f"k{i} = {i}" for i in range(10_000)),
}


@pytest.mark.parametrize("case", HOSTILE_RECIPES)
@pytest.mark.parametrize("command", ["train", "validate", "compare"])
def test_hostile_recipes(workspace: Workspace, case: str, command: str) -> None:
    workspace.write("r.toml", HOSTILE_RECIPES[case]())
    result = workspace.invoke(command, "r.toml")
    assert result.exit_code == 2, result.stderr
    assert len(result.stderr) < 1500
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("value", ["[" * 500 + "]" * 500, "1" + "0" * 4299, "9" * 10**5, "'a\0b'"])
def test_hostile_overrides(workspace: Workspace, value: str) -> None:
    workspace.recipe()
    for key in ("train.lr", "init_from", "data.corpus", ".".join(["a"] * 500)):
        result = workspace.invoke("train", "tiny.toml", "--set", f"{key}={value}")
        assert result.exit_code == 2, (key, result.stderr)
        assert "Traceback" not in result.stderr


def test_a_line_that_never_ends(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.data.readers.lines.MAX_LINE_BYTES", 1 << 22)
    workspace.write("bomb.txt.gz", gzip.compress(b"a" * (1 << 25)))
    workspace.recipe(data__corpus="bomb.txt.gz")
    result = workspace.invoke("train", "tiny.toml")
    assert result.exit_code == 2
    assert "line 1" in result.error
    assert "longer than 4 MB" in result.error
