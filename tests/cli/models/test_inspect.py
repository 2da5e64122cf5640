"""`regard inspect`: pages, pictures and JSON of a finished run, which stays unchanged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.journeys.workspace import Workspace, file_digests, generated_text
from tests.unsealed import unseal
from tests.wording import says

import regard

TEXT = "the cat sees a dog again."


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A workspace with a trained run of two layers with two heads."""
    workspace = Workspace(tmp_path_factory.mktemp("workspace"))
    workspace.write("generated.txt", generated_text())
    workspace.recipe(model__layers=2, train__max_steps=6)
    workspace.run("train", "tiny.toml")
    return workspace


def refused(workspace: Workspace, *args: str) -> str:
    result = workspace.invoke("inspect", *args)
    assert result.exit_code == 2, result.stderr
    return result.error


def test_page_is_written_into_the_run_folder(workspace: Workspace) -> None:
    run = workspace.folder / "runs" / "tiny"
    before = file_digests(run)
    printed = workspace.run("inspect", "runs/tiny", "--text", TEXT)
    [page] = sorted((run / "inspect").iterdir())
    assert printed.strip().endswith(f"runs/tiny/inspect/{page.name}")
    assert page.name.startswith("the-cat-sees-a-dog-again-")
    assert "mean loss" in printed
    html = page.read_text()
    assert TEXT in html
    assert "block.1.attention" in html
    after = file_digests(run)
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) == {f"inspect/{page.name}"}
    workspace.run("generate", "runs/tiny", "--max-new-tokens", "1")


def test_json_has_all_weights_and_writes_nothing(workspace: Workspace) -> None:
    shutil.rmtree(workspace.folder / "runs" / "tiny" / "inspect", ignore_errors=True)
    table = json.loads(workspace.run("inspect", "runs/tiny", "--text", TEXT, "--json"))
    assert not (workspace.folder / "runs" / "tiny" / "inspect").exists()
    length = len(table["row"]["tokens"])
    assert table["row"]["tokens"][:2] == ["<start>", "the"]
    assert len(table["losses"]) == length
    for number, one in enumerate(table["attention"]):
        assert one["name"] == f"block.{number}.attention"
        assert len(one["weights"]) == 2
        for head in one["weights"]:
            assert len(head) == length
            for i, row in enumerate(head):
                assert sum(row) == pytest.approx(1, abs=1e-5)
                assert row[i + 1 :] == [0] * (length - i - 1)


def test_python_api_equals_the_command(workspace: Workspace) -> None:
    table = json.loads(workspace.run("inspect", "runs/tiny", "--text", TEXT, "--json"))
    inspection = regard.inspect(workspace.folder / "runs" / "tiny", TEXT)
    plain = json.loads(json.dumps(inspection.as_dict()))
    assert plain == {key: value for key, value in table.items() if key != "run"}
    loaded = regard.load(workspace.folder / "runs" / "tiny")
    assert regard.inspect(loaded, TEXT).as_dict() == inspection.as_dict()
    assert inspection.mean_loss == pytest.approx(loaded.loss([TEXT])[0], rel=1e-5)


def test_page_and_picture_paths(workspace: Workspace) -> None:
    args = ("--out", "pages/a.html", "--png", "pages/a.png", "--layer", "1", "--head", "0")
    printed = workspace.run("inspect", "runs/tiny", "--text", TEXT, *args)
    assert "block.1.attention, head 0, as requested" in printed
    assert (workspace.folder / "pages" / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "block.1.attention, head 0" in (workspace.folder / "pages" / "a.html").read_text()


def test_model_folder_is_not_written_to(workspace: Workspace) -> None:
    final = workspace.folder / "runs" / "tiny" / "final"
    before = file_digests(final)
    printed = workspace.run("inspect", "runs/tiny/final", "--text", "日本 <script>")
    assert file_digests(final) == before
    page = workspace.folder / printed.strip().rpartition("\n")[2]
    assert page.parent == workspace.folder / "inspect"
    assert "日本 &lt;script&gt;" in page.read_text()
    assert "unknown to the tokenizer" in printed


def test_truncated_text_is_reported(workspace: Workspace) -> None:
    printed = workspace.run("inspect", "runs/tiny", "--text", TEXT * 5, "--out", "long.html")
    for text in (printed, (workspace.folder / "long.html").read_text()):
        assert says(text, "context is 16", "first are kept")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--text", " "), "inspect: the text is empty. Give some words"),
        (("--text", "caf\udce9"), "inspect: the text is not valid UTF-8"),
        (("--text", TEXT, "--target", "a dog"), "this model takes one text alone"),
        (("--text", TEXT, "--layer", "2"), "--layer 2 does not exist: this model has 0 to 1"),
        (("--text", TEXT, "--head", "9"), "--head 9 does not exist"),
        (("--text", TEXT, "--out", "runs"), "inspect: runs: is a folder. Name a file."),
    ],
)
def test_errors_are_one_sentence(workspace: Workspace, args: tuple[str, ...], message: str) -> None:
    assert message in refused(workspace, "runs/tiny", *args)


def test_missing_or_unfinished_run_is_refused(workspace: Workspace, tmp_path: Path) -> None:
    assert "runs/none does not exist" in refused(workspace, "runs/none", "--text", TEXT)
    half = tmp_path / "half"
    shutil.copytree(workspace.folder / "runs" / "tiny", half)
    shutil.rmtree(half / "final")
    assert "has no trained model yet" in refused(workspace, str(half), "--text", TEXT)


def test_leaking_model_is_called_invalid(workspace: Workspace) -> None:
    """Only the stored audit is changed here; tests/journeys/test_leaks.py trains real ones."""
    run = workspace.folder / "runs" / "leaking"
    shutil.copytree(workspace.folder / "runs" / "tiny", run)
    audit = json.loads((run / "audit.json").read_text())
    audit |= {"verdict": "leak", "sentence": "sees the future", "broken": ["mine: masks too late"]}
    (run / "audit.json").write_text(json.dumps(audit))
    unseal(run)
    for model in ("runs/leaking", "runs/leaking/final"):
        printed = workspace.run("inspect", model, "--text", TEXT, "--out", "leaking.html")
        assert printed.strip().startswith("INVALID  the model sees the future")
        assert "INVALID  mine: masks too late" in printed
        assert "Losses below mean nothing" in (workspace.folder / "leaking.html").read_text()
    table = json.loads(workspace.run("inspect", "runs/leaking", "--text", TEXT, "--json"))
    assert table["invalid"] == ["the model sees the future", "mine: masks too late"]
