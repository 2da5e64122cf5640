"""Text, caches or checkpoints that changed behind a run are found out, never used quietly."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.journeys.desk import Desk, flip_a_byte, generated_text, weights

from regard.training.checkpoint import list_checkpoints

RUN = "runs/tiny"


def unfinish(desk: Desk) -> Path:
    """As if it had been killed after its last checkpoint."""
    run = desk.folder / RUN
    shutil.rmtree(run / "final")
    (run / "figures.json").unlink()
    return run


def test_a_run_does_not_go_on_with_other_text(trained: Desk) -> None:
    unfinish(trained)
    trained.write("generated.txt", generated_text().replace("cat", "cow").replace("one", "two"))
    outcome = trained.regard("train", RUN, "--resume")
    assert outcome.code == 2
    assert "expects tokenizer" in outcome.complaint
    assert "ids would mean other words" in outcome.complaint


def test_not_even_where_the_tokenizer_stayed_the_same(trained: Desk) -> None:
    unfinish(trained)
    text = generated_text().splitlines()
    trained.write("generated.txt", "\n".join(reversed(text)) + "\n")
    outcome = trained.regard("train", RUN, "--resume")
    assert outcome.code == 2
    assert "the text of runs/tiny has changed since it began" in outcome.complaint


def test_figures_are_not_taken_on_other_documents(trained: Desk) -> None:
    text = generated_text().splitlines()
    trained.write("generated.txt", "\n".join(text[: len(text) // 2]) + "\n")
    outcome = trained.regard("evaluate", RUN)
    assert outcome.code == 2
    assert "figures would speak of other documents" in outcome.complaint


def test_a_damaged_token_cache_is_built_anew(trained: Desk, shared_desk: Desk) -> None:
    [tokens] = trained.folder.glob("cache/tokens/*/train/tokens.bin")
    tokens.write_bytes(bytes(len(tokens.read_bytes())))
    trained.done("train", "tiny.toml", "--out", "runs/again")
    assert weights(trained.folder / "runs/again") == weights(shared_desk.folder / RUN)


def test_a_damaged_cached_tokenizer_is_trained_anew(trained: Desk, shared_desk: Desk) -> None:
    [tokenizer] = trained.folder.glob("cache/tokenizers/*/tokenizer.json")
    tokenizer.write_text(tokenizer.read_text().replace('"cat"', '"cow"'))
    trained.done("train", "tiny.toml", "--out", "runs/again")
    assert weights(trained.folder / "runs/again") == weights(shared_desk.folder / RUN)


def test_a_damaged_best_checkpoint_never_becomes_the_final_model(desk: Desk) -> None:
    desk.recipe(train__patience=1, train__evaluate_every=2, train__max_steps=200, train__lr=0.3)
    desk.done("train", "tiny.toml")
    run = unfinish(desk)
    state = json.loads((list_checkpoints(run / "checkpoints")[-1] / "state.json").read_text())
    assert state["best_step"] < state["step"]
    best = run / "checkpoints" / f"step-{state['best_step']:06d}"
    flip_a_byte(best / "model.safetensors")
    outcome = desk.regard("train", "tiny.toml", "--resume")
    assert outcome.code == 2
    assert "does not match its manifest" in outcome.complaint
    assert not (run / "final").exists()


@pytest.mark.parametrize(("kind", "told"), [("word", False), ("bpe", True)])
def test_a_figure_per_byte_is_not_told_where_words_are_unknown(
    desk: Desk, kind: str, told: bool
) -> None:
    rare = generated_text().splitlines()
    text = "\n".join(f"{line} unseen{number}" for number, line in enumerate(rare))
    desk.write("generated.txt", text)
    desk.recipe(tokenizer__kind=kind)
    figures = json.loads(desk.done("train", "tiny.toml", "--json"))
    metrics = {row["metric"] for row in figures["figures"]}
    assert ("perplexity_per_byte" in metrics) == told
    assert any("tokens are <unk>" in remark for remark in figures["remarks"]) != told
    assert ("no figure per byte" in desk.done("train", "tiny.toml", "--resume")) != told
