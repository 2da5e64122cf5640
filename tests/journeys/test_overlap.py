"""Train and test that overlap, typed as by somebody who does not know: labels are random, so every
score above one half is memory."""

from __future__ import annotations

import json
import random
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from tests.in_process_trainings import in_process_trainings
from tests.journeys.workspace import Workspace

__all__ = ["in_process_trainings"]

RECIPE: dict[str, Any] = {
    "name": "stranger",
    "data": {"corpus": "train.csv", "dev": "dev.csv", "test": "test.csv"},
    "tokenizer": {"kind": "word"},
    "model": {"family": "encoder", "layers": 1, "heads": 2, "width": 16, "context": 32},
    "task": {"kind": "classification"},
    "train": {
        "max_steps": 40,
        "batch_tokens": 640,
        "lr": 1e-2,
        "evaluate_every": 0,
        "checkpoint_every": 0,
        "threads": 1,
    },
}
SYLLABLES = ["ba", "de", "fi", "go", "ku", "lam", "men", "nir", "pos", "rut"]
Row = tuple[str, str]
Edit = Callable[[str], str]


def random_rows(count: int, *, words: int, seed: int) -> list[Row]:
    generator = random.Random(seed)
    return [
        (
            " ".join("".join(generator.choices(SYLLABLES, k=3)) for _ in range(words)),
            generator.choice("01"),
        )
        for _ in range(count)
    ]


def write_rows(file: Path, rows: list[Row]) -> None:
    file.write_text("text,label\n" + "".join(f'"{text}",{label}\n' for text, label in rows))


def write_data(
    workspace: Workspace,
    *,
    copied: int = 75,
    fresh: int = 75,
    words: int = 20,
    edit: Edit = str,
    flip: bool = False,
) -> None:
    """A test file with some rows of the training file, edited, and some of its own."""
    train = random_rows(300, words=words, seed=0)
    copies = [
        (edit(text), str(1 - int(label)) if flip else label) for text, label in train[:copied]
    ]
    write_rows(workspace.folder / "train.csv", train)
    write_rows(workspace.folder / "dev.csv", random_rows(30, words=words, seed=1))
    write_rows(workspace.folder / "test.csv", copies + random_rows(fresh, words=words, seed=2))
    workspace.write("stranger.toml", tomli_w.dumps(RECIPE))


def change_a_word(text: str) -> str:
    words = text.split()
    return " ".join([*words[:3], "changed", *words[4:]])


def add_commas(text: str) -> str:
    return " ".join(f"{word}," for word in text.split())


def lines(printed: str) -> list[str]:
    return [line.strip() for line in printed.splitlines() if line.strip()]


def results(workspace: Workspace, run: str = "stranger") -> dict[str, Any]:
    table: dict[str, Any] = json.loads(
        (workspace.folder / "runs" / run / "results.json").read_text()
    )
    return table


@pytest.mark.parametrize(
    ("edit", "flip", "words", "exact"),
    [
        (str, False, 20, 75),
        (change_a_word, False, 20, 0),
        (str, True, 20, 75),
        (lambda text: text[:-1], False, 5, 0),
        (add_commas, False, 20, 75),
    ],
    ids=["copied", "one word changed", "labels flipped", "short rows", "commas"],
)
def test_overlap_leads_and_scores_rest_on_clean_rows(
    workspace: Workspace, edit: Edit, flip: bool, words: int, exact: int
) -> None:
    write_data(workspace, edit=edit, flip=flip, words=words)
    trained = workspace.invoke("train", "stranger.toml")
    assert trained.exit_code == 0, trained.stderr
    first = lines(trained.stdout)[0]
    assert first == (f"CONTAMINATED  75 of 150 test rows stand in training ({exact} word for word)")
    assert "data.drop_overlap" in trained.stderr
    table = results(workspace)
    [found] = table["contamination"]
    assert (found["split"], found["n"], found["overlapping"]) == ("test", 150, 75)
    assert (found["agree"], found["flipped"]) == ((0, 75) if flip else (75, 0))
    ours = {row["of"]: row["n"] for row in table["estimates"] if row["split"] == "test"}
    assert set(ours.values()) == {75}
    assert len(ours) == 3
    assert {row["n"] for row in found["estimates"]} == {150}
    assert {row["n"] for row in table["comparisons"] if row["split"] == "test"} == {75}
    items = [
        json.loads(line)
        for line in (workspace.folder / "runs/stranger/items/test.jsonl").read_text().splitlines()
    ]
    kind = "exact" if exact else "near"
    assert [row["overlap"] for row in items] == [kind] * 75 + [None] * 75
    page = (workspace.folder / "runs/stranger/report.html").read_text()
    assert 0 < page.index("CONTAMINATED") < page.index('class="headline')
    evaluated = workspace.invoke("evaluate", "runs/stranger")
    assert lines(evaluated.stdout)[0] == first


def test_no_verdict_where_every_row_overlaps(workspace: Workspace) -> None:
    write_data(workspace, fresh=0)
    trained = workspace.invoke("train", "stranger.toml")
    assert trained.exit_code == 0, trained.stderr
    assert lines(trained.stdout)[0].startswith("CONTAMINATED  75 of 75 test rows")
    table = results(workspace)
    assert not [row for row in table["estimates"] if row["split"] == "test"]
    assert not [row for row in table["comparisons"] if row["split"] == "test"]


def test_no_verdict_on_few_clean_rows(workspace: Workspace) -> None:
    write_data(workspace, fresh=19)
    assert workspace.invoke("train", "stranger.toml").exit_code == 0
    verdicts = [row["verdict"] for row in results(workspace)["comparisons"] if row["n"] == 19]
    assert verdicts == ["on too few items to compare with"] * 2


def test_clean_data_is_silent(workspace: Workspace) -> None:
    write_data(workspace, copied=0)
    trained = workspace.invoke("train", "stranger.toml")
    assert "CONTAMINATED" not in trained.stdout
    assert "training" not in [line.split(":")[0] for line in lines(trained.stderr)]
    assert "data:" not in trained.stderr
    assert results(workspace)["contamination"] == []
    assert "CONTAMINATED" not in (workspace.folder / "runs/stranger/report.html").read_text()


def test_dropped_overlap_is_said_recorded_and_gone(workspace: Workspace) -> None:
    write_data(workspace, edit=change_a_word)
    recipe = {**RECIPE, "data": {**RECIPE["data"], "drop_overlap": True}}
    workspace.write("stranger.toml", tomli_w.dumps(recipe))
    trained = workspace.invoke("train", "stranger.toml")
    assert trained.exit_code == 0, trained.stderr
    assert "CONTAMINATED" not in trained.stdout
    assert "left out 75 rows of training" in trained.stderr
    corpus = results(workspace)["corpus"]
    assert corpus["dropped"]["overlapping"] == 75
    assert corpus["splits"]["train"]["documents"] == 225
    assert corpus["overlap"]["test"]["near"] == 0


@pytest.mark.usefixtures("in_process_trainings")
def test_a_study_leads_with_it_and_compares_clean_rows(workspace: Workspace) -> None:
    write_data(workspace)
    study = {
        "base": "stranger.toml",
        "seeds": [0, 1],
        "decides": "test.accuracy",
        "variants": {"low": {}, "high": {"train.lr": 2e-2}},
    }
    workspace.write("study.toml", tomli_w.dumps(study))
    compared = workspace.invoke("compare", "study.toml")
    assert compared.exit_code == 0, compared.stderr
    assert lines(compared.stdout)[0].split()[:4] == ["CONTAMINATED", "75", "of", "150"]
    outcome = json.loads((workspace.folder / "runs/study/outcome.json").read_text())
    [found] = outcome["contamination"]
    assert found["overlap"]["overlapping"] == 75
    assert {spread["n"] for spread in found["estimates"].values()} == {150}
    assert {one["estimates"]["test.accuracy"]["n"] for one in outcome["variants"]} == {75}
    page = (workspace.folder / "runs/study/report.html").read_text()
    assert 0 < page.index("CONTAMINATED") < page.index('class="headline')


def write_authored(workspace: Workspace, edit: Callable[[str, str], str], **data: Any) -> None:
    """Rows of 30 authors, each with a favourite label; `edit` makes a row of text and label."""
    generator = random.Random(3)
    favourite = {f"author {number}": generator.choice("01") for number in range(30)}
    rows = ["text,label,author"]
    for text, label in random_rows(300, words=12, seed=4):
        author = generator.choice(list(favourite))
        label = favourite[author] if generator.random() < 0.9 else label
        rows.append(f"{edit(text, label)},{label},{author}")
    workspace.write("train.csv", "\n".join(rows) + "\n")
    recipe = {**RECIPE, "data": {"corpus": "train.csv", "dev": 0.1, "test": 0.3, **data}}
    workspace.write("stranger.toml", tomli_w.dumps(recipe))


def said_before_training(workspace: Workspace) -> list[str]:
    validated = workspace.invoke("validate", "stranger.toml")
    assert validated.exit_code == 0, validated.stderr
    return [line for line in lines(validated.stderr) if line.startswith("data:")]


def test_authors_in_several_splits_are_said_until_they_are_grouped(workspace: Workspace) -> None:
    write_authored(workspace, lambda text, label: text)
    [said] = said_before_training(workspace)
    assert 'data.group = "author"' in said
    write_authored(workspace, lambda text, label: text, group="author")
    assert said_before_training(workspace) == []


def test_new_proposes_the_group(workspace: Workspace) -> None:
    write_authored(workspace, lambda text, label: text)
    workspace.run("new", "train.csv", "--text", "text", "--out", "new.toml")
    assert tomllib.loads((workspace.folder / "new.toml").read_text())["data"]["group"] == "author"
    workspace.run("new", "generated.txt", "--out", "plain.toml")
    assert "group" not in tomllib.loads((workspace.folder / "plain.toml").read_text())["data"]


def test_a_label_that_stands_in_the_text_is_said(workspace: Workspace) -> None:
    def give_away(text: str, label: str) -> str:
        return f"{text} {'yes' if label == '1' else 'no'}"

    write_authored(workspace, give_away, group="author")
    [said] = said_before_training(workspace)
    assert "'yes' is 1" in said
    assert "task.text" in said


def test_conflicting_labels_are_said_with_the_first_row(workspace: Workspace) -> None:
    write_authored(workspace, lambda text, label: text, group="author")
    file = workspace.folder / "train.csv"
    header, first, *rest = file.read_text().splitlines()
    text, label, author = first.split(",")
    flipped = f"{text},{1 - int(label)},{author}"
    file.write_text("\n".join([header, first, *rest, flipped]) + "\n")
    [said] = said_before_training(workspace)
    assert "train.csv, row 2" in said
    assert "2 rows" in said


@pytest.mark.usefixtures("in_process_trainings")
def test_flaws_of_the_data_stand_before_the_scores(workspace: Workspace) -> None:
    write_authored(
        workspace, lambda text, label: f"{text} {'yes' if label == '1' else 'no'}", group="author"
    )
    [said] = said_before_training(workspace)
    trained = workspace.run("train", "stranger.toml")
    assert trained.index(said) < trained.index("accuracy")
    evaluated = workspace.run("evaluate", "runs/stranger")
    assert evaluated.index(said) < evaluated.index("accuracy")
    page = (workspace.folder / "runs/stranger/report.html").read_text()
    assert 0 < page.index("the label stands in text") < page.index('class="headline')
    study = {
        "base": "stranger.toml",
        "seeds": [0, 1],
        "decides": "test.accuracy",
        "variants": {"low": {}, "high": {"train.lr": 2e-2}},
    }
    workspace.write("study.toml", tomli_w.dumps(study))
    compared = workspace.run("compare", "study.toml")
    assert compared.index("DATA") < compared.index("the label stands in text")
    assert compared.index("the label stands in text") < compared.index("VERDICT")
    runs = workspace.folder / "runs/study"
    assert json.loads((runs / "outcome.json").read_text())["data_flaws"] == [said]
    for page in ((runs / name).read_text() for name in ("report.html", "report.md")):
        assert page.count("he label stands in text") == 1


def test_labels_spelled_in_two_ways_are_said(workspace: Workspace) -> None:
    write_data(workspace, copied=0)
    file = workspace.folder / "train.csv"
    header, *rows = file.read_text().splitlines()
    respelled = [f"{row}.0" if number % 2 else row for number, row in enumerate(rows)]
    file.write_text("\n".join([header, *respelled]) + "\n")
    said = said_before_training(workspace)
    assert len(said) == 2
    assert "'0' (" in said[0]
    assert "'0.0' (" in said[0]
    assert "2 classes" in said[0]


def test_a_test_that_stands_in_dev_is_said(workspace: Workspace) -> None:
    write_data(workspace, copied=0)
    (workspace.folder / "dev.csv").write_text((workspace.folder / "test.csv").read_text())
    [said] = said_before_training(workspace)
    assert "75 of 75 in test stand in dev, 75 word for word" in said


def test_pairs_with_swapped_sides_are_said(workspace: Workspace) -> None:
    rows = random_rows(480, words=12, seed=5)
    pairs = [
        (first, second, label)
        for (first, label), (second, _) in zip(rows[::2], rows[1::2], strict=True)
    ]
    swapped = [(second, first, label) for first, second, label in pairs[:40]]
    for name, some in (("train", pairs[:160]), ("dev", pairs[160:200]), ("test", swapped)):
        lines_of_file = ["first,second,label", *map(",".join, some)]
        (workspace.folder / f"{name}.csv").write_text("\n".join(lines_of_file) + "\n")
    workspace.write("stranger.toml", tomli_w.dumps({**RECIPE, "task": {"kind": "pairs"}}))
    [said] = said_before_training(workspace)
    assert "40 of 40 in test stand in training with their two texts swapped, 40 with" in said


def test_pairs_may_be_grouped_by_one_of_their_texts(workspace: Workspace) -> None:
    """A column that says whose a row is, besides, makes the columns of a file be searched."""
    rows = random_rows(600, words=12, seed=6)
    table = [
        f"{rows[n // 2][0]},{text},{label},author {n % 40}"
        for n, (text, label) in enumerate(rows[300:])
    ]
    workspace.write("train.csv", "\n".join(["first,second,label,author", *table]) + "\n")
    data = {"corpus": "train.csv", "dev": 0.2, "test": 0.2, "group": "first"}
    recipe = {**RECIPE, "data": data, "task": {"kind": "pairs"}}
    workspace.write("stranger.toml", tomli_w.dumps(recipe))
    said_before_training(workspace)


def test_a_tokenizer_that_knows_hardly_a_word_is_said(workspace: Workspace) -> None:
    generator = random.Random(6)
    rows = [
        "".join(generator.choices("的一是不了人我在有他这中大来上国", k=12)) for _ in range(300)
    ]
    file = workspace.folder / "train.csv"
    file.write_text("\n".join(["text,label", *(f"{row},{row[0] < row[1]}" for row in rows)]))
    recipe = {
        **RECIPE,
        "data": {"corpus": "train.csv", "dev": 0.2, "test": 0.2},
        "tokenizer": {"kind": "word", "minimum_count": 2},
        "train": {**RECIPE["train"], "batch_tokens": 64},
    }
    workspace.write("stranger.toml", tomli_w.dumps(recipe))
    said = said_before_training(workspace)
    assert "100.0% of the tokens of dev are unknown to the tokenizer" in " ".join(said)
    recipe["tokenizer"] = {"kind": "character"}
    workspace.write("stranger.toml", tomli_w.dumps(recipe))
    assert said_before_training(workspace) == []


def test_corpus_stats_say_what_overlaps(workspace: Workspace) -> None:
    write_data(workspace)
    command = ("corpus", "stats", "train.csv", "--dev", "dev.csv", "--test", "test.csv")
    counted = json.loads(workspace.run(*command, "--json"))
    assert counted["overlap"]["test"] == {**counted["overlap"]["dev"], "items": 150, "exact": 75}
    assert "75 of 150 in test" in workspace.invoke(*command).stderr


def test_documents_of_a_corpus_are_items_too(shared_workspace: Workspace) -> None:
    """Short generated sentences repeat each other."""
    table = results(shared_workspace, "tiny")
    assert {one["split"] for one in table["contamination"]} == {"dev", "test"}
    for one in table["contamination"]:
        assert one["unit"] == "documents"
        items = shared_workspace.folder / "runs" / "tiny" / "items" / f"{one['split']}.jsonl"
        kinds = [json.loads(line)["overlap"] for line in items.read_text().splitlines()]
        assert len(kinds) == one["n"]
        assert len(kinds) - kinds.count(None) == one["overlapping"] > 0
        clean = {row["n"] for row in table["estimates"] if row["split"] == one["split"]}
        assert clean == {kinds.count(None)}


def test_documents_are_dropped_from_training(workspace: Workspace) -> None:
    workspace.recipe(data__drop_overlap=True)
    said = workspace.invoke("validate", "tiny.toml")
    assert said.exit_code == 0, said.stderr
    assert "(data.drop_overlap)" in said.stderr
    assert "stand in training" not in said.stderr
