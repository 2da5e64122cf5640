"""Commands that only read a run or a corpus: generate, ls, corpus, tokenizer."""

import json

import pytest
from tests.journeys.workspace import Workspace, generated_text

from regard.api import catalogs

PROMPTS = ("the cat", "every farmer sees", "")


def generate(workspace: Workspace, *flags: str) -> list[str]:
    printed = workspace.run(
        "generate", "runs/tiny", *PROMPTS, "--max-new-tokens", "6", "--json", *flags
    )
    rows = json.loads(printed)
    assert [row["prompt"] for row in rows] == list(PROMPTS)
    return [row["text"] for row in rows]


@pytest.mark.parametrize("flags", [(), ("--beam", "2"), ("--temperature", "0"), ("--top-k", "3")])
def test_same_seed_generates_the_same_text(
    shared_workspace: Workspace, flags: tuple[str, ...]
) -> None:
    assert generate(shared_workspace, *flags) == generate(shared_workspace, *flags)


def test_seeds_change_samples_but_not_greedy_decoding(
    shared_workspace: Workspace,
) -> None:
    sampled = ("--temperature", "2")
    assert generate(shared_workspace, *sampled, "--seed", "1") != generate(
        shared_workspace, *sampled, "--seed", "2"
    )
    greedy = ("--temperature", "0")
    assert generate(shared_workspace, *greedy, "--seed", "1") == generate(
        shared_workspace, *greedy, "--seed", "2"
    )


def test_prompts_are_read_from_a_file(trained: Workspace) -> None:
    trained.write("prompts.txt", "\n".join(PROMPTS[:2]))
    printed = trained.run(
        "generate", "runs/tiny", "--prompt-file", "prompts.txt", "--max-new-tokens", "6", "--json"
    )
    assert [row["prompt"] for row in json.loads(printed)] == list(PROMPTS[:2])


def test_prompt_longer_than_the_context_is_continued(shared_workspace: Workspace) -> None:
    printed = shared_workspace.run(
        "generate", "runs/tiny", "the cat " * 40, "--max-new-tokens", "3"
    )
    assert printed.startswith("the cat the cat")


def test_last_checkpoint_generates_the_same_as_the_final_model(shared_workspace: Workspace) -> None:
    flags = ("the cat", "--max-new-tokens", "6", "--json")
    final = shared_workspace.run("generate", "runs/tiny", *flags)
    last = shared_workspace.run("generate", "runs/tiny/checkpoints/step-000020", *flags)
    assert final == last


def test_mismatching_tokenizer_is_refused_with_both_fingerprints(trained: Workspace) -> None:
    printed = trained.run(
        "tokenizer", "train", "generated.txt", "--kind", "character", "--out", "other"
    )
    theirs = json.loads(trained.run("tokenizer", "show", "other", "--json"))["fingerprint"]
    ours = json.loads(trained.run("tokenizer", "show", "runs/tiny/final", "--json"))["fingerprint"]
    assert theirs[:8] in printed

    result = trained.invoke("generate", "runs/tiny", "--tokenizer", "other")
    assert result.exit_code == 2
    assert "model runs/tiny expects tokenizer" in result.error
    assert ours[:8] in result.error
    assert theirs[:8] in result.error
    assert "character" in result.error
    trained.run("generate", "runs/tiny", "--tokenizer", "runs/tiny/final", "--max-new-tokens", "2")


@pytest.mark.parametrize("name", [catalog.name for catalog in catalogs()])
def test_ls_lists_every_entry_with_its_source(shared_workspace: Workspace, name: str) -> None:
    listed = json.loads(shared_workspace.run("ls", name, "--json"))
    catalog = next(catalog for catalog in catalogs() if catalog.name == name)
    assert [row["name"] for row in listed] == catalog.names()
    assert all(row["summary"] and ".py:" in row["source"] for row in listed)
    printed = shared_workspace.run("ls", name)
    assert all(row["name"] in printed for row in listed)


def test_ls_suggests_a_catalog_for_a_misspelt_one(shared_workspace: Workspace) -> None:
    result = shared_workspace.invoke("ls", "tokenizr")
    assert result.exit_code == 2
    assert "did you mean tokenizer?" in result.error


def test_corpus_stats_count_documents_and_tokens(workspace: Workspace) -> None:
    stats = json.loads(workspace.run("corpus", "stats", "generated.txt", "--json"))
    splits = stats["splits"]
    assert sum(split["documents"] for split in splits.values()) == 400
    assert sum(split["tokens"] for split in splits.values()) == 400 * 6
    assert "documents" in workspace.run("corpus", "stats", "generated.txt")


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram", "word", "character"])
def test_tokenizer_train_show_and_advise(workspace: Workspace, kind: str) -> None:
    workspace.run("tokenizer", "train", "generated.txt", "--kind", kind, "--out", kind)
    shown = json.loads(workspace.run("tokenizer", "show", kind, "--text", "the cat sees", "--json"))
    assert shown["encoding"]["unknown"] == 0
    assert shown["encoding"]["decoded"].split() == ["the", "cat", "sees"]
    advice = workspace.run("tokenizer", "advise", "generated.txt", "--tokenizer", kind)
    assert "held-out documents" in advice

    result = workspace.invoke("tokenizer", "train", "generated.txt", "--out", kind)
    assert result.exit_code == 2
    assert f"{kind}: exists already" in result.error


def test_dropped_rows_are_reported(workspace: Workspace) -> None:
    workspace.write("generated.txt", generated_text().replace("\n", "\n\n", 12))
    workspace.recipe()
    assert "data: left out 12 empty rows" in workspace.invoke("validate", "tiny.toml").stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--top-p", "0"), "generate: top_p = 0.0 is not allowed: give a number greater than 0"),
        (("caf\udce9",), "generate: prompt 1 is not valid UTF-8"),
    ],
)
def test_invalid_prompts_and_sampling_settings_are_refused(
    shared_workspace: Workspace, arguments: tuple[str, ...], expected: str
) -> None:
    result = shared_workspace.invoke("generate", "runs/tiny", *arguments)
    assert result.exit_code == 2
    assert expected in result.error
