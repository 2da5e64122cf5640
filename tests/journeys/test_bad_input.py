"""What a person gives wrongly: one sentence that names the place and the way out, exit code 2."""

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
class Wrong:
    """Something given wrongly, and what the sentence about it has to say."""

    label: str
    says: tuple[str, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str | bytes] = field(default_factory=dict)
    command: tuple[str, ...] = TRAIN

    @classmethod
    def text(cls, label: str, name: str, content: str | bytes, *says: str) -> Wrong:
        return cls(label, (name, *says), {"data__corpus": name}, {name: content})

    @classmethod
    def override(cls, given: str, *says: str) -> Wrong:
        return cls(f"--set {given}", says, command=(*TRAIN, "--set", given))

    @classmethod
    def toml(cls, label: str, content: str | bytes, *says: str) -> Wrong:
        return cls(label, says, files={"tiny.toml": content})


def parquet() -> bytes:
    written = io.BytesIO()
    pq.write_table(pa.table({"text": generated_sentences(50)}), written)
    return written.getvalue()


HALF_GZ = gzip.compress(generated_text().encode())[:200]
HALF_PARQUET = parquet()[:-100]
HEAD = 'name = "tiny"\n[data]\ncorpus = "generated.txt"\n'

TEXTS = [
    Wrong.text("empty file", "empty.txt", "", "no document", "at least one line"),
    Wrong.text("blank lines", "blank.txt", "\n \n\n", "no document", "3 empty rows dropped"),
    Wrong.text("NUL", "nul.txt", "fine\nnot\0fine\n", "line 2", "NUL byte", "UTF-8"),
    Wrong.text("latin-1", "old.txt", b"fine\ncaf\xe9\n", "line 2, byte 4", "0xe9", "iconv"),
    Wrong.text("ragged", "r.csv", "text,stars\na,1\na,b,2\n", "row 3", "3 columns", "header has 2"),
    Wrong.text("ragged: way out", "r.csv", "text,stars\nx\n", "row 2", "data.skip_bad_rows = true"),
    Wrong.text(
        "no column", "c.csv", "txt,stars\na,1\n", "'text'", "did you mean 'txt'", "data.text"
    ),
    Wrong.text("open quote", "q.csv", 'text\n"never closed\n', "row 2", "quote", "Close it"),
    Wrong.text("no key", "k.jsonl", '{"body": "a"}\n', "line 1", "'body'", "data.text"),
    Wrong.text("bad JSON", "b.jsonl", '{"text": "a"}\n{"text": \n', "line 2", "JSON"),
    Wrong.text("half a gz", "half.txt.gz", HALF_GZ, "cut short", "again"),
    Wrong.text("half a parquet", "half.parquet", HALF_PARQUET, "cut short or damaged", "again"),
    Wrong.text("one document", "one.txt", "a single line\n", "leaves none for dev", "data.dev"),
    Wrong("no file", ("nowhere.txt", "no such file", "Check"), {"data__corpus": "nowhere.txt"}),
    Wrong("no match", ("*.text", "no file matches"), {"data__corpus": "*.text"}),
    Wrong(
        "judged by what it learned",
        ("generated.txt", "data.corpus", "data.test", "share such as 0.05"),
        {"data__test": "generated.txt"},
    ),
]

SIZES = [
    Wrong("no batch", ("train.batch_tokens", "Lower"), {"train__batch_tokens": 100_000}),
    Wrong("no block", ("model.context = 5000", "Lower", "tokens"), {"model__context": 5000}),
    Wrong(
        "vocabulary",
        ("vocabulary = 50,000", "fills only", "tokenizer.vocabulary = "),
        {"tokenizer": {"kind": "bpe", "vocabulary": 50_000}},
    ),
    Wrong(
        "vocabulary of words",
        ("vocabulary = 50,000", "fills only", "tokenizer.vocabulary = "),
        {"tokenizer": {"kind": "word", "vocabulary": 50_000}},
    ),
]

RECIPES = [
    Wrong.toml(
        "lr fast", HEAD + '[train]\nlr = "fast"\n', "tiny.toml, line 5", "train.lr", "'fast'"
    ),
    Wrong.toml("lr < 0", HEAD + "[train]\nlr = -1\n", "line 5", "train.lr = -1", "greater than 0"),
    Wrong.toml(
        "steps", HEAD + "[train]\nmax_steps = 2.5\n", "line 5", "train.max_steps", "integer"
    ),
    Wrong.toml(
        "unknown key",
        HEAD + '[model]\nfamily = "decoder"\natention = "dot"\n',
        "tiny.toml, line 6",
        "model.atention — did you mean model.attention?",
    ),
    Wrong.toml(
        "unknown kind",
        HEAD + '[model]\nfamily = "decoder"\nattention = { kind = "dott" }\n',
        "tiny.toml, line 6",
        "model.attention.kind",
        "did you mean dot?",
    ),
    Wrong.toml(
        "unknown table", HEAD + "[trian]\nlr = 1\n", "line 4", "trian — did you mean train?"
    ),
    Wrong.toml("no corpus", "name = 'a'\n[data]\n", "line 2", "data.corpus is missing", "Give it"),
    Wrong.toml("not a table", HEAD.replace("[data]", "data = 1\n[x]"), "line 2", "[data]"),
    Wrong.toml("syntax", 'name = "tiny"\n[data\n', "tiny.toml, line 2", "not valid TOML", "["),
    Wrong.toml("not text", b"\xff\xfe\x00", "tiny.toml", "UTF-8"),
    Wrong(
        "no recipe", ("none.toml", "does not exist", "regard new"), command=("train", "none.toml")
    ),
    Wrong("a folder", ("recipe.toml", "runs/mini-gpt"), command=("train", ".")),
    Wrong("heads", ("model", "heads = 3", "width = 16", "18"), {"model__heads": 3}),
    Wrong("name", ("line 1", "name = 'a/b'"), {"name": "a/b"}),
    Wrong(
        "no such device",
        ("train.device = 'gpu'", "cannot be used here", 'train.device = "auto"'),
        {"train__device": "gpu"},
    ),
    Wrong("no start", ("start = 'runs/none'", "pretrain.toml"), {"start": "runs/none"}),
    Wrong("circular", ("tiny.toml", "leads back to itself", "no start"), {"start": "tiny.toml"}),
    Wrong("a share of all", ("data.dev", "1.5", "below 0.5"), {"data__dev": 1.5}),
]

OVERRIDES = [
    Wrong.override("train.lr", "--set train.lr", "key=value"),
    Wrong.override("=3", "--set =3", "key=value"),
    Wrong.override("train..lr=3", "--set train..lr=3", "key=value"),
    Wrong.override("train.lr=fast", "--set train.lr", "'fast'", "number"),
    Wrong.override("train.lrr=1", "--set train.lrr", "did you mean train.lr?"),
    Wrong.override("train=1", "--set train", "[train]"),
    Wrong.override("model.width.x=1", "width is not a table"),
    Wrong.override("model.attention.kind=quux", "model.attention.kind", "'quux'", "dot"),
]


@pytest.mark.parametrize(
    "wrong", [*TEXTS, *SIZES, *RECIPES, *OVERRIDES], ids=lambda wrong: wrong.label
)
def test_one_sentence_names_the_place_and_the_way_out(workspace: Workspace, wrong: Wrong) -> None:
    workspace.recipe(**wrong.settings)
    for name, content in wrong.files.items():
        workspace.write(name, content)
    before = file_digests(workspace.folder)

    result = workspace.invoke(*wrong.command)

    assert result.exit_code == 2
    for words in wrong.says:
        assert words in result.error
    assert result.stderr.strip() == result.error, "one sentence, and nothing before it"
    assert "Traceback" not in result.stderr
    after = file_digests(workspace.folder)
    kept = {name: digest for name, digest in after.items() if not name.startswith("cache/")}
    assert kept == before, "neither touched what is there nor left a run folder behind"


@pytest.mark.parametrize("wrong", TEXTS[:4], ids=lambda wrong: wrong.label)
@pytest.mark.parametrize("verb", [("new",), ("corpus", "stats")], ids=" ".join)
def test_text_is_refused_alike_wherever_it_is_read(
    workspace: Workspace, wrong: Wrong, verb: tuple[str, ...]
) -> None:
    for name, content in wrong.files.items():
        workspace.write(name, content)
    result = workspace.invoke(*verb, *wrong.files)
    assert result.exit_code == 2
    for words in wrong.says:
        assert words in result.error
    assert not list(workspace.folder.glob("*.toml"))


def test_cuda_is_refused_where_there_is_none(workspace: Workspace) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA, so asking for it is no mistake")
    workspace.recipe(train__device="cuda")
    result = workspace.invoke(*TRAIN)
    assert result.exit_code == 2
    assert "train.device = 'cuda' cannot be used here" in result.error
    assert 'train.device = "auto"' in result.error


@pytest.mark.parametrize("verb", ["evaluate", "generate", "report"])
@pytest.mark.parametrize(("folder", "says"), [("notes", "notes"), ("none", "none")])
def test_a_folder_that_is_no_run(workspace: Workspace, verb: str, folder: str, says: str) -> None:
    workspace.write("notes/shopping.txt", "eggs\n")
    result = workspace.invoke(verb, folder)
    assert result.exit_code == 2
    assert says in result.error
    assert "regard train" in result.error


def test_a_folder_that_is_no_run_is_not_resumed(workspace: Workspace) -> None:
    kept = workspace.write("notes/shopping.txt", "eggs\n")
    workspace.recipe()
    result = workspace.invoke(*TRAIN, "--out", "notes", "--resume")
    assert result.exit_code == 2
    assert "notes is not a run folder" in result.error
    assert list(kept.parent.iterdir()) == [kept]


def test_a_file_where_a_folder_should_be(workspace: Workspace) -> None:
    workspace.recipe()
    result = workspace.invoke(*TRAIN, "--out", "generated.txt/run")
    assert result.exit_code == 2
    assert "generated.txt" in result.error


def test_rows_dropped_by_choice_are_counted(workspace: Workspace) -> None:
    rows = "\n".join(generated_sentences(60))
    workspace.write("r.csv", f"text\n{rows}\none,too many\n\n")
    told = workspace.run("corpus", "stats", "r.csv", "--skip-bad-rows")
    assert "1 empty row dropped" in told
    assert "1 bad row dropped" in told


def test_a_run_that_exists_is_never_touched(trained: Workspace) -> None:
    before = file_digests(trained.folder / "runs")
    result = trained.invoke(*TRAIN)
    assert result.exit_code == 2
    assert "runs/tiny exists already" in result.error
    assert "--resume" in result.error
    assert "--out" in result.error
    assert file_digests(trained.folder / "runs") == before


def test_a_run_is_not_resumed_with_another_recipe(trained: Workspace) -> None:
    before = file_digests(trained.folder / "runs")
    result = trained.invoke(*TRAIN, "--resume", "--set", "train.lr=1")
    assert result.exit_code == 2
    assert "train.lr: 1.0 here, 0.01 there" in result.error
    assert "regard train runs/tiny --resume" in result.error
    assert file_digests(trained.folder / "runs") == before
