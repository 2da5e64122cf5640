"""Invalid input: one sentence that names the location and the fix, exit code 2."""

from __future__ import annotations

import gzip
import io
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.journeys.workspace import Workspace, file_digests, generated_sentences, generated_text

TRAIN = ("train", "tiny.toml")


@dataclass(frozen=True)
class Case:
    """Invalid input, and the phrases its error sentence must contain."""

    label: str
    expected: tuple[str, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str | bytes] = field(default_factory=dict)
    command: tuple[str, ...] = TRAIN

    @classmethod
    def text(cls, label: str, name: str, content: str | bytes, *expected: str) -> Case:
        return cls(label, (name, *expected), {"data__corpus": name}, {name: content})

    @classmethod
    def override(cls, setting: str, *expected: str) -> Case:
        return cls(f"--set {setting}", expected, command=(*TRAIN, "--set", setting))

    @classmethod
    def toml(cls, label: str, content: str | bytes, *expected: str) -> Case:
        return cls(label, expected, files={"tiny.toml": content})


def parquet() -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"text": generated_sentences(50)}), buffer)
    return buffer.getvalue()


HALF_GZ = gzip.compress(generated_text().encode())[:200]
HALF_PARQUET = parquet()[:-100]
HEAD = 'name = "tiny"\n[data]\ncorpus = "generated.txt"\n'

TEXTS = [
    Case.text("empty file", "empty.txt", "", "no document", "at least one line"),
    Case.text("blank lines", "blank.txt", "\n \n\n", "no document", "3 empty rows dropped"),
    Case.text("NUL", "nul.txt", "fine\nnot\0fine\n", "line 2", "NUL byte", "UTF-8"),
    Case.text("cp1251", "old.txt", "ok\nфильм\n".encode("cp1251"), "line 2, byte 1", "iconv"),
    Case.text("ragged", "r.csv", "text,stars\na,1\na,b,2\n", "row 3", "3 columns", "header has 2"),
    Case.text("ragged: hint", "r.csv", "text,stars\nx\n", "row 2", "data.skip_bad_rows = true"),
    Case.text(
        "no column", "c.csv", "txt,stars\na,1\n", "'text'", "did you mean 'txt'", "data.text"
    ),
    Case.text("open quote", "q.csv", 'text\n"never closed\n', "row 2", "quote", "Close it"),
    Case.text("no key", "k.jsonl", '{"body": "a"}\n', "line 1", "'body'", "data.text"),
    Case.text("bad JSON", "b.jsonl", '{"text": "a"}\n{"text": \n', "line 2", "JSON"),
    Case.text("half a gz", "half.txt.gz", HALF_GZ, "truncated", "again"),
    Case.text("half a parquet", "half.parquet", HALF_PARQUET, "truncated or damaged", "again"),
    Case.text("one document", "one.txt", "a single line\n", "leaves none for dev", "data.dev"),
    Case("no file", ("nowhere.txt", "no such file", "Check"), {"data__corpus": "nowhere.txt"}),
    Case(
        "no such user",
        ("~nobody-at-all/a.txt", "no such file"),
        {"data__corpus": "~nobody-at-all/a.txt"},
    ),
    Case("no match", ("*.text", "no file matches"), {"data__corpus": "*.text"}),
    Case(
        "test set is the training set",
        ("generated.txt", "data.corpus", "data.test", "fraction such as 0.05"),
        {"data__test": "generated.txt"},
    ),
]

SIZES = [
    Case("no block", ("model.context = 5000", "Lower", "tokens"), {"model__context": 5000}),
]

RECIPES = [
    Case.toml(
        "lr fast", HEAD + '[train]\nlr = "fast"\n', "tiny.toml, line 5", "train.lr", "'fast'"
    ),
    Case.toml("lr < 0", HEAD + "[train]\nlr = -1\n", "line 5", "train.lr = -1", "greater than 0"),
    Case.toml("steps", HEAD + "[train]\nmax_steps = 2.5\n", "line 5", "train.max_steps", "integer"),
    Case.toml(
        "unknown key",
        HEAD + '[model]\nfamily = "decoder"\natention = "dot"\n',
        "tiny.toml, line 6",
        "model.atention — did you mean model.attention?",
    ),
    Case.toml(
        "unknown kind",
        HEAD + '[model]\nfamily = "decoder"\nattention = { kind = "dott" }\n',
        "tiny.toml, line 6",
        "model.attention.kind",
        "did you mean dot?",
    ),
    Case.toml("unknown table", HEAD + "[trian]\nlr = 1\n", "line 4", "trian — did you mean train?"),
    Case.toml("no corpus", "name = 'a'\n[data]\n", "line 2", "data.corpus is missing", "Give it"),
    Case.toml("not a table", HEAD.replace("[data]", "data = 1\n[x]"), "line 2", "[data]"),
    Case.toml("syntax", 'name = "tiny"\n[data\n', "tiny.toml, line 2", "not valid TOML", "["),
    Case.toml("not text", b"\xff\xfe\x00", "tiny.toml", "UTF-8"),
    Case(
        "no recipe", ("none.toml", "does not exist", "regard new"), command=("train", "none.toml")
    ),
    Case("a folder", ("recipe.toml", "runs/mini-gpt"), command=("train", ".")),
    Case("heads", ("model", "heads = 3", "width = 16", "18"), {"model__heads": 3}),
    Case("name", ("line 1", "name = 'a/b'"), {"name": "a/b"}),
    Case(
        "no such device",
        ("train.device = 'gpu'", "cannot be used here", 'train.device = "auto"'),
        {"train__device": "gpu"},
    ),
    Case(
        "no initial model", ("init_from = 'runs/none'", "pretrain.toml"), {"init_from": "runs/none"}
    ),
    Case(
        "circular",
        ("tiny.toml", "leads back to itself", "no init_from"),
        {"init_from": "tiny.toml"},
    ),
    Case("dev fraction above 1", ("data.dev", "1.5", "below 0.5"), {"data__dev": 1.5}),
]

OVERRIDES = [
    Case.override("train.lr", "--set train.lr", "key=value"),
    Case.override("=3", "--set =3", "key=value"),
    Case.override("train..lr=3", "--set train..lr=3", "key=value"),
    Case.override("train.lr=fast", "--set train.lr", "'fast'", "number"),
    Case.override("train.lrr=1", "--set train.lrr", "did you mean train.lr?"),
    Case.override("train=1", "--set train", "[train]"),
    Case.override("model.width.x=1", "width is not a table"),
    Case.override("model.attention.kind=quux", "model.attention.kind", "'quux'", "dot"),
]


@pytest.mark.parametrize(
    "case", [*TEXTS, *SIZES, *RECIPES, *OVERRIDES], ids=lambda case: case.label
)
def test_one_sentence_names_the_location_and_the_fix(workspace: Workspace, case: Case) -> None:
    workspace.recipe(**case.settings)
    for name, content in case.files.items():
        workspace.write(name, content)
    before = file_digests(workspace.folder)

    result = workspace.invoke(*case.command)

    assert result.exit_code == 2
    for phrase in case.expected:
        assert phrase in result.error
    assert result.stderr.strip() == result.error, "one sentence, and nothing before it"
    assert "Traceback" not in result.stderr
    after = file_digests(workspace.folder)
    after = {name: digest for name, digest in after.items() if not name.startswith("cache/")}
    assert after == before, "a file was changed or left"


@pytest.mark.parametrize("case", TEXTS[:4], ids=lambda case: case.label)
@pytest.mark.parametrize("command", [("new",), ("corpus", "stats")], ids=" ".join)
def test_every_command_refuses_the_same_text(
    workspace: Workspace, case: Case, command: tuple[str, ...]
) -> None:
    for name, content in case.files.items():
        workspace.write(name, content)
    result = workspace.invoke(*command, *case.files)
    assert result.exit_code == 2
    for phrase in case.expected:
        assert phrase in result.error
    assert not list(workspace.folder.glob("*.toml"))


def test_cuda_is_refused_where_there_is_none(workspace: Workspace) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    workspace.recipe(train__device="cuda")
    result = workspace.invoke(*TRAIN)
    assert result.exit_code == 2
    assert "train.device = 'cuda' cannot be used here" in result.error
    assert 'train.device = "auto"' in result.error


@pytest.mark.parametrize("command", ["evaluate", "generate", "report"])
@pytest.mark.parametrize("folder", ["notes", "none"])
def test_folder_without_a_run_is_refused(workspace: Workspace, command: str, folder: str) -> None:
    workspace.write("notes/shopping.txt", "eggs\n")
    result = workspace.invoke(command, folder)
    assert result.exit_code == 2
    assert folder in result.error
    assert "regard train" in result.error


def test_folder_without_a_run_is_not_resumed(workspace: Workspace) -> None:
    note = workspace.write("notes/shopping.txt", "eggs\n")
    workspace.recipe()
    result = workspace.invoke(*TRAIN, "--out", "notes", "--resume")
    assert result.exit_code == 2
    assert "notes is not a run folder" in result.error
    assert list(note.parent.iterdir()) == [note]


def test_output_path_below_a_file_is_refused(workspace: Workspace) -> None:
    workspace.recipe()
    result = workspace.invoke(*TRAIN, "--out", "generated.txt/run")
    assert result.exit_code == 2
    assert "generated.txt" in result.error


def test_skipped_rows_are_counted(workspace: Workspace) -> None:
    rows = "\n".join(generated_sentences(60))
    workspace.write("r.csv", f"text\n{rows}\none,too many\n\n")
    printed = workspace.run("corpus", "stats", "r.csv", "--skip-bad-rows")
    assert "1 empty row dropped" in printed
    assert "1 bad row dropped" in printed


def test_existing_run_is_not_modified(trained: Workspace) -> None:
    before = file_digests(trained.folder / "runs")
    result = trained.invoke(*TRAIN)
    assert result.exit_code == 2
    assert "runs/tiny exists already" in result.error
    assert "--resume" in result.error
    assert "--out" in result.error
    assert file_digests(trained.folder / "runs") == before


def test_run_is_not_resumed_with_another_recipe(trained: Workspace) -> None:
    before = file_digests(trained.folder / "runs")
    result = trained.invoke(*TRAIN, "--resume", "--set", "train.lr=1")
    assert result.exit_code == 2
    assert "train.lr: 1.0 here, 0.01 there" in result.error
    assert "regard train runs/tiny --resume" in result.error
    assert file_digests(trained.folder / "runs") == before
