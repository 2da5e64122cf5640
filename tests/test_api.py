"""The Python interface: the same words as the commands, on a tiny run (generated text)."""

import json
import math
import random

import pytest
import torch

import regard
from regard.attention.masks.mask import causal


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("api")
    draw = random.Random(0)
    words = ["the", "cat", "dog", "sees", "likes", "a", "red", "small", "house"]
    text = "\n".join(" ".join(draw.choices(words, k=draw.randint(4, 12))) for _ in range(500))
    (folder / "generated.txt").write_text(text)
    recipe = regard.Recipe.from_table(
        {
            "name": "tiny",
            "data": {"corpus": str(folder / "generated.txt")},
            "tokenizer": {"kind": "word"},
            "model": {"family": "decoder", "layers": 1, "heads": 2, "width": 16, "context": 12},
            "train": {"max_steps": 30, "batch_tokens": 240, "lr": 0.01, "evaluate_every": 10},
        }
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        yield regard.train(recipe, out=folder / "run")


def test_the_verbs_stay_what_they_are_after_use(run):
    assert callable(regard.train)
    assert callable(regard.load)
    assert callable(regard.evaluate)


def test_a_run_learns_and_stands_beside_its_baselines(run):
    figures = {(row["part"], row["of"], row["metric"]): row for row in run.figures()["figures"]}
    model = figures["dev", "model", "perplexity"]
    assert model["low"] <= model["value"] <= model["high"]
    assert model["value"] < 30
    for baseline in ("unigram", "Kneser-Ney 3-gram"):
        assert figures["dev", baseline, "perplexity"]["n"] == model["n"]
    assert "part:dev:" in model["signature"]
    verdicts = {(row["part"], row["against"]) for row in run.figures()["comparisons"]}
    assert verdicts == {
        (part, of) for part in ("dev", "test") for of in ("unigram", "Kneser-Ney 3-gram")
    }


def test_loss_of_texts_is_what_the_figures_say(run):
    loaded = regard.load(run.folder)
    text = "the cat sees a red house"
    [loss] = loaded.loss([text])
    ids = [loaded.tokenizer.start, *loaded.tokenizer.encode(text), loaded.tokenizer.stop]
    with torch.no_grad():
        logits = loaded.model.logits(torch.tensor([ids[:-1]]))
    expected = torch.nn.functional.cross_entropy(logits[0], torch.tensor(ids[1:]))
    assert math.isclose(loss, float(expected), rel_tol=1e-5)


def test_generation_is_seeded_and_does_not_depend_on_neighbours(run):
    loaded = regard.load(run.folder)
    both = loaded.generate(["the cat", "a small red dog likes"], seed=3, max_new_tokens=8)
    assert both == loaded.generate(["the cat", "a small red dog likes"], seed=3, max_new_tokens=8)
    assert loaded.generate(["the cat"], seed=3, max_new_tokens=8) == both[:1]
    assert loaded.generate(["the cat"], seed=4, max_new_tokens=8) != both[:1]


def test_evaluating_again_gives_the_same_figures(run):
    again = regard.evaluate(run.folder)
    assert again["figures"] == run.figures()["figures"]
    assert again["weights"] == run.figures()["weights"]


def test_a_second_run_of_the_recipe_is_the_same_to_the_bit(run, tmp_path):
    again = regard.train(run.recipe(), out=tmp_path / "again")
    assert again.figures()["weights"] == run.figures()["weights"]
    assert again.figures()["identity"] == run.figures()["identity"]


def test_attend_and_masks_are_public():
    q = torch.randn(1, 1, 3, 2)
    assert regard.attend(q, q, q, regard.mask.causal()).path == "fused-causal"
    assert regard.mask.causal().draw(3) == causal().draw(3)


def test_a_run_folder_holds_what_it_should(run):
    names = {path.name for path in run.folder.iterdir()}
    assert names == {
        "recipe.toml",
        "events.jsonl",
        "audit.json",
        "items",
        "figures.json",
        "samples.txt",
        "checkpoints",
        "final",
    }
    events = [json.loads(line) for line in run.events_file.read_text().splitlines()]
    kinds = {event["event"] for event in events}
    assert {"forecast", "start", "step", "evaluation", "sample", "checkpoint", "finish"} <= kinds
