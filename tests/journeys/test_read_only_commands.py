"""Verbs that look at what is there: generate, ls, corpus, tokenizer."""

import json

import pytest
from tests.journeys.workspace import Workspace, generated_text

from regard.api import catalogs

PROMPTS = ("the cat", "every farmer sees", "")


def written(workspace: Workspace, *flags: str) -> list[str]:
    told = workspace.run(
        "generate", "runs/tiny", *PROMPTS, "--max-new-tokens", "6", "--json", *flags
    )
    rows = json.loads(told)
    assert [row["prompt"] for row in rows] == list(PROMPTS)
    return [row["text"] for row in rows]


@pytest.mark.parametrize("flags", [(), ("--beam", "2"), ("--temperature", "0"), ("--top-k", "3")])
def test_the_same_seed_writes_the_same_text(
    shared_workspace: Workspace, flags: tuple[str, ...]
) -> None:
    assert written(shared_workspace, *flags) == written(shared_workspace, *flags)


def test_another_seed_writes_another_text_unless_nothing_is_drawn(
    shared_workspace: Workspace,
) -> None:
    hot = ("--temperature", "2")
    assert written(shared_workspace, *hot, "--seed", "1") != written(
        shared_workspace, *hot, "--seed", "2"
    )
    cold = ("--temperature", "0")
    assert written(shared_workspace, *cold, "--seed", "1") == written(
        shared_workspace, *cold, "--seed", "2"
    )


def test_prompts_come_from_a_file_too(trained: Workspace) -> None:
    trained.write("prompts.txt", "\n".join(PROMPTS[:2]))
    told = trained.run(
        "generate", "runs/tiny", "--prompt-file", "prompts.txt", "--max-new-tokens", "6", "--json"
    )
    assert [row["prompt"] for row in json.loads(told)] == list(PROMPTS[:2])


def test_a_prompt_longer_than_the_context_is_written_on(shared_workspace: Workspace) -> None:
    told = shared_workspace.run("generate", "runs/tiny", "the cat " * 40, "--max-new-tokens", "3")
    assert told.startswith("the cat the cat")


def test_a_checkpoint_writes_what_the_final_model_writes(shared_workspace: Workspace) -> None:
    flags = ("the cat", "--max-new-tokens", "6", "--json")
    final = shared_workspace.run("generate", "runs/tiny", *flags)
    last = shared_workspace.run("generate", "runs/tiny/checkpoints/step-000020", *flags)
    assert final == last


def test_a_tokenizer_from_elsewhere_is_refused_naming_both(trained: Workspace) -> None:
    told = trained.run(
        "tokenizer", "train", "generated.txt", "--kind", "character", "--out", "other"
    )
    theirs = json.loads(trained.run("tokenizer", "show", "other", "--json"))["fingerprint"]
    ours = json.loads(trained.run("tokenizer", "show", "runs/tiny/final", "--json"))["fingerprint"]
    assert theirs[:8] in told

    result = trained.invoke("generate", "runs/tiny", "--tokenizer", "other")
    assert result.exit_code == 2
    assert "model runs/tiny expects tokenizer" in result.error
    assert ours[:8] in result.error
    assert theirs[:8] in result.error
    assert "character" in result.error
    trained.run("generate", "runs/tiny", "--tokenizer", "runs/tiny/final", "--max-new-tokens", "2")


@pytest.mark.parametrize("sort", [catalog.name for catalog in catalogs()])
def test_ls_lists_every_part_with_its_source(shared_workspace: Workspace, sort: str) -> None:
    listed = json.loads(shared_workspace.run("ls", sort, "--json"))
    catalog = next(catalog for catalog in catalogs() if catalog.name == sort)
    assert [row["name"] for row in listed] == catalog.names()
    assert all(row["summary"] and ".py:" in row["source"] for row in listed)
    shown = shared_workspace.run("ls", sort)
    assert all(row["name"] in shown for row in listed)


def test_ls_of_an_unknown_sort_guesses(shared_workspace: Workspace) -> None:
    result = shared_workspace.invoke("ls", "tokenizr")
    assert result.exit_code == 2
    assert "did you mean tokenizer?" in result.error


def test_corpus_stats_count_what_is_there(workspace: Workspace) -> None:
    figures = json.loads(workspace.run("corpus", "stats", "generated.txt", "--json"))
    parts = figures["splits"]
    assert sum(part["documents"] for part in parts.values()) == 400
    assert sum(part["tokens"] for part in parts.values()) == 400 * 6
    assert "documents" in workspace.run("corpus", "stats", "generated.txt")


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram", "word", "character"])
def test_a_tokenizer_is_trained_shown_and_judged(workspace: Workspace, kind: str) -> None:
    workspace.run("tokenizer", "train", "generated.txt", "--kind", kind, "--out", kind)
    shown = json.loads(
        workspace.run("tokenizer", "show", kind, "--text-to-split", "the cat sees", "--json")
    )
    assert shown["split"]["unknown"] == 0
    assert shown["split"]["back"].split() == ["the", "cat", "sees"]
    advice = workspace.run("tokenizer", "advise", "generated.txt", "--tokenizer", kind)
    assert "held-out documents" in advice

    result = workspace.invoke("tokenizer", "train", "generated.txt", "--out", kind)
    assert result.exit_code == 2
    assert f"{kind}: exists already" in result.error


def test_what_was_left_out_is_said(workspace: Workspace) -> None:
    workspace.write("generated.txt", generated_text().replace("\n", "\n\n", 12))
    workspace.recipe()
    assert "data: left out 12 empty rows" in workspace.invoke("validate", "tiny.toml").stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--top-p", "0"), "generate: top_p = 0.0 is not allowed: give a number greater than 0"),
        (("caf\udce9",), "generate: prompt 1 is not valid UTF-8"),
    ],
)
def test_prompts_and_strategies_that_cannot_be(
    shared_workspace: Workspace, words: tuple[str, ...], says: str
) -> None:
    result = shared_workspace.invoke("generate", "runs/tiny", *words)
    assert result.exit_code == 2
    assert says in result.error
