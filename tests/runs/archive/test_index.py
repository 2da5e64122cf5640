"""The list of runs equals the folders, with and without its index, whatever happens to either."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.core.seal import checksum
from regard.runs.archive import index
from regard.runs.archive.index import (
    INDEX,
    SCHEMA,
    ListedRun,
    RunState,
    find_runs,
    list_runs,
    natural_sort_key,
    read_facts,
)
from regard.runs.results import AUDIT_SCHEMA, RESULTS_SCHEMA


def write_run(
    folder: Path, *, perplexity: float | None = 118.4, attention: str = "dot", **changes: Any
) -> Path:
    """A run folder, finished if it has a perplexity; `changes` are keys of results.json."""
    folder.mkdir(parents=True, exist_ok=True)
    recipe = {
        "name": folder.name,
        "model": {"family": "decoder", "layers": 3, "attention": {"kind": attention}},
        "train": {"seed": 2, "lr": 5e-4, "tensorboard": False},
    }
    (folder / "recipe.toml").write_text(tomli_w.dumps(recipe))
    start = {"event": "start", "steps": 500, "parameters": 473_712}
    step = {"event": "step", "step": 120, "loss": 5.0}
    (folder / "events.jsonl").write_text(f"{json.dumps(start)}\n{json.dumps(step)}\n")
    if perplexity is not None:
        estimate = {"split": "dev", "metric": "perplexity", "value": perplexity, "n": 904}
        interval = {"low": perplexity - 5, "high": perplexity + 5}
        table = {
            "schema": RESULTS_SCHEMA,
            "run": folder.name,
            "finished": "2026-11-15T21:56:41+00:00",
            "estimates": [{**estimate, **interval, "of": "model"}, {**estimate, "of": "unigram"}],
            "audit": {"verdict": "clean", "sentence": "clean: 12 checks"},
            "tokenizer": {"name": "bpe", "size": 8000, "fingerprint": "c547"},
            "cost": {"steps": 500, "parameters": 473_712, "seconds": 125.0},
            **changes,
        }
        (folder / "results.json").write_text(json.dumps(table))
    return folder


def index_of(runs: Any) -> bytes:
    """As regard would write it, if it wrote such a thing."""
    table = {"schema": SCHEMA, "checksum": checksum(runs), "runs": runs}
    return json.dumps(table).encode()


ages = itertools.count(1)


def settle(root: Path) -> None:
    """Let time pass: recent files get distinct modification times, long ago."""
    for file in root.rglob("*.*"):
        if file.stat().st_mtime > 1e9 and file.is_file():
            age = next(ages)
            os.utime(file, (age, age))


def names(runs: list[ListedRun]) -> list[str]:
    return [run.name for run in runs]


def test_facts_of_a_finished_run_are_its_recipe_and_estimates(tmp_path):
    write_run(tmp_path / "study" / "dot")
    (run,) = list_runs(tmp_path)
    assert run.folder == tmp_path / "study" / "dot"
    assert run.name == "study/dot"
    assert run.state == RunState.FINISHED
    assert (
        run.facts.items()
        >= {
            "model.attention.kind": "dot",
            "train.seed": 2,
            "dev.perplexity": 118.4,
            "dev.perplexity.low": 113.4,
            "dev.perplexity.n": 904,
            "audit": "clean",
            "parameters": 473_712,
            "steps": 500,
        }.items()
    )


def test_facts_of_an_unfinished_run_are_its_progress(tmp_path):
    folder = write_run(tmp_path / "a", perplexity=None)
    audit = {"schema": AUDIT_SCHEMA, "verdict": "leak", "sentence": "leak: 7 reacts to 8"}
    (folder / "audit.json").write_text(json.dumps(audit))
    (run,) = list_runs(tmp_path)
    assert run.state == RunState.UNFINISHED
    assert (run.facts["steps"], run.facts["steps_planned"]) == (120, 500)
    assert run.facts["audit"] == "INVALID"
    assert "dev.perplexity" not in run.facts


def test_subfolders_of_runs_and_hidden_folders_are_not_searched(tmp_path):
    write_run(tmp_path / "a")
    for name in ("a/checkpoints/step-1", "a/with", ".temporary", "1/2/3/4/5/6"):
        write_run(tmp_path / name)
    write_run(tmp_path / "1/2/3/4/5")
    write_run(tmp_path / "a" / "inner")
    (tmp_path / "no-run").mkdir()
    assert names(list_runs(tmp_path)) == ["1/2/3/4/5", "a", "a/inner"]


def test_links_are_not_followed(tmp_path):
    write_run(tmp_path / "elsewhere" / "b")
    root = tmp_path / "runs"
    write_run(root / "a")
    (root / "link").symlink_to(tmp_path / "elsewhere" / "b")
    (root / "round").symlink_to(root)
    (root / "lost").mkdir()
    (root / "lost" / "recipe.toml").symlink_to("recipe.toml")  # a link to itself cannot be read
    assert names(list_runs(root)) == ["a"]


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("recipe.toml", b'name = "half', "a/recipe.toml: not valid TOML"),
        ("recipe.toml", b"\xff\xfe", "a/recipe.toml is not text in UTF-8"),
        ("recipe.toml", b"x = " + b"[" * 5000, "a"),
        ("results.json", b'{"schema": 3, "run', "a/results.json: damaged, not JSON"),
        ("results.json", b'{"schema": 7}', "a/results.json: schema 7 is unknown"),
        ("results.json", b'{"schema": 3}', "a/results.json: damaged at run"),
        ("results.json", b"[]", "a/results.json: schema None is unknown"),
        ("results.json", b"[" * 100_000, "a"),
        ("results.json", b'{"schema": 1}', "a/results.json: schema 1 is unknown"),
    ],
)
def test_a_damaged_run_is_listed_as_such_beside_the_others(tmp_path, file, content, says):
    write_run(tmp_path / "b")
    (write_run(tmp_path / "a") / file).write_bytes(content)
    for _ in range(2):
        damaged, intact = list_runs(tmp_path)
        assert damaged.state == RunState.DAMAGED
        assert damaged.facts["why"].startswith(says)
        assert "\n" not in damaged.facts["why"]
        assert intact.state == RunState.FINISHED


def test_a_run_of_schema_1_is_listed_as_damaged(tmp_path):
    folder = write_run(tmp_path / "a")
    (folder / "results.json").rename(folder / "figures.json")
    (run,) = list_runs(tmp_path)
    assert run.state == RunState.DAMAGED
    assert run.facts["why"].startswith("a/figures.json: schema 1 of an earlier version")


def test_damaged_runs_are_not_cached(tmp_path, monkeypatch):
    write_run(tmp_path / "a")

    def forbidden(file: Path) -> None:
        raise PermissionError(13, "Permission denied", str(file))

    with monkeypatch.context() as patched:
        patched.setattr(index, "read_results", forbidden)
        (run,) = list_runs(tmp_path)
        assert run.facts["why"] == "a/results.json cannot be read (Permission denied)"
    assert list_runs(tmp_path)[0].state == RunState.FINISHED


def fail_to_read(folder: Path, *, name: str) -> dict[str, Any]:
    raise AssertionError(f"{name} was read again")


def test_runs_younger_than_the_clock_resolution_are_not_cached(tmp_path):
    file = write_run(tmp_path / "a", perplexity=111.5) / "results.json"
    modified = file.stat().st_mtime_ns
    list_runs(tmp_path)
    write_run(tmp_path / "a", perplexity=222.5)
    os.utime(file, ns=(modified, modified))
    assert list_runs(tmp_path)[0].facts["dev.perplexity"] == 222.5


def test_unchanged_runs_are_read_once(tmp_path, monkeypatch):
    for name in "abc":
        write_run(tmp_path / name)
    settle(tmp_path)
    first = list_runs(tmp_path)
    monkeypatch.setattr(index, "read_facts", fail_to_read)
    assert list_runs(tmp_path) == first
    write_run(tmp_path / "b", perplexity=9.5)
    with pytest.raises(AssertionError, match=r"^b was read again"):
        list_runs(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"schema": 2, "runs": {}}',
        b'{"schema": 4, "runs": {}}',
        index_of([1]),
        index_of({"a": 3}),
        index_of({"a": [[], {"run": "a", "state": "odd"}]}),
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_an_unusable_index_is_rebuilt(tmp_path, content):
    write_run(tmp_path / "a")
    settle(tmp_path)
    first = list_runs(tmp_path)
    intact = (tmp_path / INDEX).read_bytes()
    (tmp_path / INDEX).write_bytes(content)
    assert list_runs(tmp_path) == first
    assert (tmp_path / INDEX).read_bytes() == intact


def test_a_score_that_a_disk_changed_in_the_index_is_not_listed(tmp_path):
    write_run(tmp_path / "dot")
    settle(tmp_path)
    before = list_runs(tmp_path)
    index = (tmp_path / INDEX).read_bytes()
    for position in range(0, len(index), 11):
        if chr(index[position]).isalnum():  # the others are JSON's own
            damaged = bytearray(index)
            damaged[position] ^= 1
            (tmp_path / INDEX).write_bytes(damaged)
            assert list_runs(tmp_path) == before, index[position - 40 : position + 40]


def test_list_without_write_permission_is_the_same(tmp_path, monkeypatch):
    write_run(tmp_path / "a")
    settle(tmp_path)

    def refuse(path: Path, text: str) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(index, "write_text", refuse)
    assert names(list_runs(tmp_path)) == ["a"]
    assert not (tmp_path / INDEX).exists()


def test_concurrent_lists_never_leave_a_partial_index(tmp_path):
    for number in range(20):
        write_run(tmp_path / f"run-{number}")
    settle(tmp_path)

    def list_once(turn: int) -> int:
        if turn % 3 == 0:
            (tmp_path / INDEX).unlink(missing_ok=True)
        return len(list_runs(tmp_path))

    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(list_once, range(12))) == {20}
    list_runs(tmp_path)
    assert len(json.loads((tmp_path / INDEX).read_bytes())["runs"]) == 20
    assert [file.name for file in tmp_path.glob(".*")] == [INDEX]


def test_a_folder_without_runs_gets_no_index(tmp_path):
    assert list_runs(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UserError, match="nowhere: there is no such folder"):
        list_runs(tmp_path / "nowhere")


def test_index_does_not_depend_on_the_working_folder(tmp_path, monkeypatch):
    (write_run(tmp_path / "runs" / "a") / "results.json").write_text("{")
    monkeypatch.chdir(tmp_path)
    here = list_runs(Path("runs"))
    monkeypatch.chdir(tmp_path / "runs")
    assert [run.facts for run in list_runs(Path())] == [run.facts for run in here]


NAMES = st.sampled_from(["a", "b", "s/1", "s/2"])
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("finish"), NAMES, st.floats(1, 1e6)),
        st.tuples(st.just("start"), NAMES, st.none()),
        st.tuples(st.just("damage"), NAMES, st.none()),
        st.tuples(st.just("delete"), NAMES, st.none()),
        st.tuples(st.just("list"), NAMES, st.none()),
        st.tuples(st.just("wait"), NAMES, st.none()),
        st.tuples(st.just("damage index"), NAMES, st.none()),
    ),
    max_size=12,
)


@settings(max_examples=40, deadline=None)
@given(actions=ACTIONS)
def test_cached_list_equals_reading_every_folder(actions):
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        for action, name, perplexity in actions:
            folder = root / name
            if action == "list":
                list_runs(root)
            elif action == "wait":
                settle(root)
            elif action == "damage index":
                (root / INDEX).write_text('{"schema": 4, "runs": {"a": [[]')
            elif action in ("finish", "start"):
                write_run(folder, perplexity=perplexity)
            elif action == "damage" and folder.exists():
                (folder / "results.json").write_text("{")
            elif action == "delete" and folder.exists():
                shutil.rmtree(folder)
        fresh = {name: read_facts(root / name, name=name) for name, _ in find_runs(root)}
        for _ in range(2):
            assert {run.name: run.facts for run in list_runs(root)} == fresh


def test_natural_sort_order():
    assert sorted(["s-10", "s-2", "s", "a-3", "s-2-b"], key=natural_sort_key) == [
        "a-3",
        "s",
        "s-2",
        "s-2-b",
        "s-10",
    ]
    natural_sort_key("7" * 10_000)  # more digits than Python converts to an int


def test_control_characters_are_escaped(tmp_path):
    folder = write_run(tmp_path / "a\x1b[31m", run="x", finished="2026\u202e")
    assert folder.is_dir()
    (run,) = list_runs(tmp_path)
    assert run.name == "a[U+001B][31m"
    assert run.facts["finished"] == "2026[U+202E]"
    assert list_runs(tmp_path) == [run]
