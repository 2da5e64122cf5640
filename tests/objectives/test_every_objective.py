"""What every objective in the catalogue owes, and that each trains as `regard train` does it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.objectives.shelf import biographies, row_of, tokenizer, vocabulary

import regard
from regard.batch import Example
from regard.models.families import FAMILIES
from regard.objectives import OBJECTIVES, Objective

ALONE = ("infill", "salient", "spans-in-row")
"Those that make an example of one document."


def same(one: Example, other: Example) -> bool:
    pairs = [(getattr(one, name), getattr(other, name)) for name in vars(one)]
    return all((a is None and b is None) or np.array_equal(a, b) for a, b in pairs)


def made(name: str) -> Objective:
    return OBJECTIVES.get(name).part()


@pytest.mark.parametrize("name", OBJECTIVES.names())
def test_the_same_document_and_generator_give_the_same_example(name):
    known = vocabulary("bpe")
    for text in biographies()[:20]:
        document = row_of(text, "bpe", context=64)
        before = document.ids.copy()
        first, second, other = (
            made(name).example(document, np.random.default_rng(seed), vocabulary=known)
            for seed in (0, 0, 1)
        )
        assert same(first, second)
        assert np.array_equal(document.ids, before)
        assert len(first.inputs) == len(first.targets) == len(first.weights) <= 64
        assert first.weights.sum() > 0
        if name != "causal" and not same(first, other):
            break
    else:
        assert name == "causal", "nothing is ever drawn"


@pytest.mark.parametrize("name", OBJECTIVES.names())
def test_families_and_objectives_agree_on_who_learns_what(name):
    entry = OBJECTIVES.get(name)
    assert entry.summary
    assert all(field.description for field in entry.part.model_fields.values())
    for family in entry.properties["families"]:
        assert name in FAMILIES.get(family).properties["objectives"]


def test_sentinels_never_stand_in_text():
    ids = tokenizer("word").encode("a <extra_0> b")
    assert not set(ids) & set(tokenizer("word").sentinels)


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("objectives")
    (folder / "generated.txt").write_text("\n".join(biographies(200)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        yield folder


def recipe(desk, objective: dict[str, object], **model: object) -> regard.Recipe:
    family = OBJECTIVES.get(str(objective["kind"])).properties["families"][0]
    shape = {"family": family, "layers": 1, "heads": 2, "width": 16, "context": 48}
    batches = "padded" if objective["kind"] in ALONE else "packed"
    return regard.Recipe.from_table(
        {
            "name": "walk",
            "data": {"corpus": str(desk / "generated.txt"), "dev": 0.1, "test": 0.1},
            "tokenizer": {"kind": "bpe", "vocabulary": 320, "sentinels": 12},
            "model": shape | model,
            "objective": objective,
            "train": {"max_steps": 3, "batch_tokens": 192, "batches": batches, "threads": 1},
            "evaluate": {"documents": 5},
            "samples": {"prompts": [""], "max_new": 3},
        }
    )


@pytest.mark.parametrize(
    ("objective", "model"),
    [
        ({"kind": "infill"}, {}),
        ({"kind": "salient", "spans": "salient"}, {}),
        ({"kind": "spans-in-row"}, {}),
        ({"kind": "spans"}, {}),
        ({"kind": "masked", "choose": "salient"}, {}),
        ({"kind": "spanbert"}, {"boundary": True}),
    ],
    ids=lambda table: str(table.get("kind", "")),
)
def test_each_trains_and_is_measured(desk, tmp_path, objective, model):
    run = regard.train(recipe(desk, objective, **model), out=tmp_path / "run")
    figures = run.figures()
    assert figures["audit"]["verdict"] == "clean"
    assert not [one for one in figures["audit"]["unreached"] if "boundary" in one["name"]]
    told = {(row["part"], row["of"]): row for row in figures["figures"]}
    assert np.isfinite(told["dev", "model"]["value"])
    assert f"tells:{objective['kind']}" in told["dev", "model"]["signature"]
    again = regard.load(run.folder)
    assert np.isfinite(again.loss(["Ada Lovelace. Born in Ghent, they moved to London in 1822 ."]))


def test_spanbert_without_its_network_is_refused(desk, tmp_path):
    with pytest.raises(regard.UserError, match=r"Set model\.boundary = true"):
        regard.train(recipe(desk, {"kind": "spanbert"}), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
