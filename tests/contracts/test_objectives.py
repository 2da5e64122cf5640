"""Properties of every objective in the catalogue; each one trains end to end by `regard.train`."""

from __future__ import annotations

import numpy as np
import pytest
from tests.objectives.toy_data import biographies, encode_row, tokenizer, vocabulary

import regard
from regard.batch import Example
from regard.core.setting_docs import setting_docs
from regard.models.families import FAMILIES
from regard.objectives import OBJECTIVES, Objective
from regard.objectives.causal import Causal

ONE_DOCUMENT = ("infill", "salient", "spans-in-row")
"Objectives that make an example from one document and refuse packed rows."


def equal_examples(one: Example, other: Example) -> bool:
    pairs = [(getattr(one, name), getattr(other, name)) for name in vars(one)]
    return all((a is None and b is None) or np.array_equal(a, b) for a, b in pairs)


def build(name: str) -> Objective:
    return OBJECTIVES.get(name).part()


@pytest.mark.parametrize("name", OBJECTIVES.names())
def test_example_is_a_function_of_document_and_generator(name):
    for text in biographies()[:20]:
        document = encode_row(text, "bpe", context=64)
        before = document.ids.copy()
        first, second, other = (
            build(name).example(document, np.random.default_rng(seed), vocabulary=vocabulary("bpe"))
            for seed in (0, 0, 1)
        )
        assert equal_examples(first, second)
        assert np.array_equal(document.ids, before)
        assert len(first.inputs) == len(first.targets) == len(first.weights) <= 64
        assert first.weights.sum() > 0
        if not equal_examples(first, other):
            break
    else:
        assert isinstance(build(name), Causal), "the generator is never used"


@pytest.mark.parametrize("name", OBJECTIVES.names())
def test_a_document_is_scored_by_its_own_tokens(name):
    """Evaluation scores each token at most once, and its targets are the original tokens."""
    scored = 0
    for text in biographies()[:10]:
        ids = encode_row(text, "bpe").ids[1:-1]
        document = [*ids, vocabulary("bpe").stop]
        examples, again = (
            build(name).evaluation_examples(
                ids, np.random.default_rng(0), context=64, vocabulary=vocabulary("bpe")
            )
            for _ in range(2)
        )
        seen: list[int] = []
        for (example, indices), (same, same_indices) in zip(examples, again, strict=True):
            assert equal_examples(example, same)
            assert np.array_equal(indices, same_indices)
            assert len(example.inputs) <= 64
            targets = example.targets[example.weights > 0]
            assert [document[index] for index in indices] == targets.tolist()
            seen += indices.tolist()
        assert len(set(seen)) == len(seen)
        scored += len(seen)
    assert scored


@pytest.mark.parametrize("name", OBJECTIVES.names())
def test_families_list_the_objectives_that_list_them(name):
    entry = OBJECTIVES.get(name)
    assert entry.summary
    assert setting_docs(entry.part).keys() >= entry.part.model_fields.keys()
    for family in entry.properties["families"]:
        assert name in FAMILIES.get(family).properties["objectives"]


def test_sentinels_in_text_are_not_encoded_as_sentinels():
    ids = tokenizer("word").encode("a <extra_0> b")
    assert not set(ids) & set(tokenizer("word").sentinels)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("objectives")
    (folder / "generated.txt").write_text("\n".join(biographies(200)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        yield folder


def recipe(workspace, objective: dict[str, object], **model: object) -> regard.Recipe:
    family = OBJECTIVES.get(str(objective["kind"])).properties["families"][0]
    shape = {"family": family, "layers": 1, "heads": 2, "width": 16, "context": 48}
    batches = "padded" if objective["kind"] in ONE_DOCUMENT else "packed"
    return regard.Recipe.from_table(
        {
            "name": "objective",
            "data": {"corpus": str(workspace / "generated.txt"), "dev": 0.1, "test": 0.1},
            "tokenizer": {"kind": "bpe", "vocabulary": 320, "sentinels": 12},
            "model": shape | model,
            "objective": objective,
            "train": {"max_steps": 3, "batch_tokens": 192, "batches": batches, "threads": 1},
            "evaluate": {"documents": 5},
            "samples": {"prompts": [""], "max_new_tokens": 3},
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
def test_objective_trains_and_is_evaluated(workspace, tmp_path, objective, model):
    run = regard.train(recipe(workspace, objective, **model), out=tmp_path / "run")
    results = run.results()
    assert results.audit.verdict == "clean"
    assert not [row for row in results.audit.unused_parameters if "boundary" in row.name]
    estimates = {(row.split, row.of): row for row in results.estimates}
    assert np.isfinite(estimates["dev", "model"].value)
    assert f"objective:{objective['kind']}" in estimates["dev", "model"].signature
    loaded = regard.load(run.folder)
    assert np.isfinite(loaded.loss(["Ada Lovelace. Born in Ghent, they moved to London in 1822 ."]))


def test_spanbert_without_a_boundary_head_is_refused(workspace, tmp_path):
    with pytest.raises(regard.UserError, match=r"needs model\.boundary = true"):
        regard.train(recipe(workspace, {"kind": "spanbert"}), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
