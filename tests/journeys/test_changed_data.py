"""Data, caches or checkpoints that changed since a run began are detected, never used silently."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from tests.journeys.workspace import Workspace, flip_byte, generated_text, weights

from regard.training.checkpoint import list_checkpoints

RUN = "runs/tiny"


def unfinish(workspace: Workspace) -> Path:
    """The run as if killed after its last checkpoint."""
    run = workspace.folder / RUN
    shutil.rmtree(run / "final")
    (run / "results.json").unlink()
    return run


def test_resuming_with_changed_text_is_refused(trained: Workspace) -> None:
    unfinish(trained)
    trained.write("generated.txt", generated_text().replace("cat", "cow").replace("one", "two"))
    result = trained.invoke("train", RUN, "--resume")
    assert result.exit_code == 2
    assert "expects tokenizer" in result.error
    assert "ids would mean other words" in result.error


def test_resuming_with_reordered_text_is_refused(trained: Workspace) -> None:
    unfinish(trained)
    text = generated_text().splitlines()
    trained.write("generated.txt", "\n".join(reversed(text)) + "\n")
    result = trained.invoke("train", RUN, "--resume")
    assert result.exit_code == 2
    assert re.search("text of runs/tiny has changed", result.error)


def test_evaluating_on_changed_documents_is_refused(trained: Workspace) -> None:
    text = generated_text().splitlines()
    trained.write("generated.txt", "\n".join(text[: len(text) // 2]) + "\n")
    result = trained.invoke("evaluate", RUN)
    assert result.exit_code == 2
    assert "scores would be of other documents" in result.error


def test_damaged_token_cache_is_rebuilt(trained: Workspace, shared_workspace: Workspace) -> None:
    [tokens] = trained.folder.glob("cache/tokens/*/shards/00000/train.tokens.bin")
    tokens.write_bytes(bytes(len(tokens.read_bytes())))
    trained.run("train", "tiny.toml", "--out", "runs/again")
    assert weights(trained.folder / "runs/again") == weights(shared_workspace.folder / RUN)


def test_damaged_cached_tokenizer_is_retrained(
    trained: Workspace, shared_workspace: Workspace
) -> None:
    [tokenizer] = trained.folder.glob("cache/tokenizers/*/tokenizer.json")
    tokenizer.write_text(tokenizer.read_text().replace('"cat"', '"cow"'))
    trained.run("train", "tiny.toml", "--out", "runs/again")
    assert weights(trained.folder / "runs/again") == weights(shared_workspace.folder / RUN)


def test_damaged_best_checkpoint_never_becomes_the_final_model(workspace: Workspace) -> None:
    workspace.recipe(
        train__patience=1, train__evaluate_every=2, train__max_steps=200, train__lr=0.3
    )
    workspace.run("train", "tiny.toml")
    run = unfinish(workspace)
    state = json.loads((list_checkpoints(run / "checkpoints")[-1] / "state.json").read_text())
    assert state["best_step"] < state["step"]
    best = run / "checkpoints" / f"step-{state['best_step']:06d}"
    flip_byte(best / "model.safetensors")
    result = workspace.invoke("train", "tiny.toml", "--resume")
    assert result.exit_code == 2
    assert "does not match its manifest" in result.error
    assert not (run / "final").exists()


@pytest.mark.parametrize(("kind", "reported"), [("word", False), ("bpe", True)])
def test_per_byte_scores_are_omitted_with_unknown_tokens(
    workspace: Workspace, kind: str, reported: bool
) -> None:
    lines = generated_text().splitlines()
    text = "\n".join(f"{line} unseen{number}" for number, line in enumerate(lines))
    workspace.write("generated.txt", text)
    workspace.recipe(tokenizer__kind=kind, train__max_steps=2)
    results = json.loads(workspace.run("train", "tiny.toml", "--json"))
    metrics = {row["metric"] for row in results["estimates"]}
    assert ("perplexity_per_byte" in metrics) == reported
    assert any("tokens are <unk>" in remark for remark in results["remarks"]) != reported
    assert ("no score per byte" in workspace.run("train", "tiny.toml", "--resume")) != reported
