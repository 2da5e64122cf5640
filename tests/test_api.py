"""The Python API, with the names of the commands, on a tiny run (generated text)."""

import json
import math
import random

import pytest
import torch

import regard
from regard.attention.masks.mask import causal
from regard.models.inputs import ModelInputs


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("api")
    generator = random.Random(0)
    words = ["the", "cat", "dog", "sees", "likes", "a", "red", "small", "house"]
    text = "\n".join(
        " ".join(generator.choices(words, k=generator.randint(4, 12))) for _ in range(500)
    )
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


def test_public_functions_stay_callable_after_use(run):
    assert callable(regard.train)
    assert callable(regard.load)
    assert callable(regard.evaluate)


def test_results_hold_the_model_and_its_baselines(run):
    estimates = {(row.split, row.of, row.metric): row for row in run.results().estimates}
    model = estimates["dev", "model", "perplexity"]
    assert model.low <= model.value <= model.high
    assert model.value < 30
    for baseline in ("unigram", "Kneser-Ney 3-gram"):
        assert estimates["dev", baseline, "perplexity"].n == model.n
    assert "split:dev:" in model.signature
    verdicts = {(row.split, row.against) for row in run.results().comparisons}
    assert verdicts == {
        (split, of) for split in ("dev", "test") for of in ("unigram", "Kneser-Ney 3-gram")
    }


def test_loss_is_the_mean_cross_entropy_per_token(run):
    loaded = regard.load(run.folder)
    text = "the cat sees a red house"
    [loss] = loaded.loss([text])
    ids = [loaded.tokenizer.start, *loaded.tokenizer.encode(text), loaded.tokenizer.stop]
    with torch.no_grad():
        logits = loaded.model.logits(ModelInputs(torch.tensor([ids[:-1]])))
    expected = torch.nn.functional.cross_entropy(logits[0], torch.tensor(ids[1:]))
    assert math.isclose(loss, float(expected), rel_tol=1e-5)


def test_generation_is_seeded_and_independent_of_the_batch(run):
    loaded = regard.load(run.folder)
    texts = loaded.generate(["the cat", "a small red dog likes"], seed=3, max_new_tokens=8)
    assert texts == loaded.generate(["the cat", "a small red dog likes"], seed=3, max_new_tokens=8)
    assert loaded.generate(["the cat"], seed=3, max_new_tokens=8) == texts[:1]
    assert loaded.generate(["the cat"], seed=4, max_new_tokens=8) != texts[:1]


def test_evaluate_reproduces_the_results_of_training(run):
    evaluated = regard.evaluate(run.folder)
    assert evaluated.estimates == run.results().estimates
    assert evaluated.weights == run.results().weights


def test_training_is_reproducible_to_the_bit(run, tmp_path):
    second = regard.train(run.recipe(), out=tmp_path / "again")
    assert second.results().weights == run.results().weights
    assert second.results().identity == run.results().identity


def test_attend_and_masks_are_public():
    q = torch.randn(1, 1, 3, 2)
    assert regard.attend(q, q, q, regard.mask.causal()).path == "fused-causal"
    assert regard.mask.causal().draw(3) == causal().draw(3)


def test_files_of_a_run_folder(run):
    names = {path.name for path in run.folder.iterdir()}
    assert names == {
        "recipe.toml",
        "events.jsonl",
        "audit.json",
        "items",
        "results.json",
        "samples.txt",
        "checkpoints",
        "final",
    }
    events = [json.loads(line) for line in run.events_file.read_text().splitlines()]
    types = {event["event"] for event in events}
    assert {"forecast", "start", "step", "evaluation", "sample", "checkpoint", "finish"} <= types
