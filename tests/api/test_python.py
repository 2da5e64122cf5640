"""Python as a first class way in: dictionaries, rows in memory, loaded models, short reprs."""

import contextlib
import json

import numpy as np
import pyarrow as pa
import pytest
import torch
from tests.in_process_trainings import in_process_trainings as in_process_trainings

import regard
from regard import UserError

TRAIN = {"max_steps": 2, "batch_tokens": 128, "threads": 1}
OPINIONS = {
    "name": "opinions",
    "data": {"corpus": "texts.jsonl", "dev": 0.2, "test": 0.2},
    "tokenizer": {"kind": "word"},
    "model": {"family": "encoder", "layers": 1, "heads": 2, "width": 8, "context": 12},
    "task": {"kind": "classification", "label": "stars"},
    "train": TRAIN,
}
WORDS = ("film", "plot", "cast", "scene", "ending", "music", "story", "camera")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder with labelled texts, as the working directory, and one run of them."""
    folder = tmp_path_factory.mktemp("python")
    lines = [
        json.dumps({"text": f"{word} {other} {n}", "stars": (n + k) % 2, "id": n})
        for n, word in enumerate(WORDS)
        for k, other in enumerate(WORDS)
    ]
    (folder / "texts.jsonl").write_text("\n".join(lines))
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(folder):
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        regard.train(OPINIONS, set={"train.seed": 3})
        yield folder


@pytest.fixture
def loaded(project):
    return regard.load("runs/opinions")


def test_a_dictionary_is_a_recipe_and_set_changes_it(project):
    recipe = regard.Recipe.load("runs/opinions")
    assert recipe.train.seed == 3
    assert recipe.train.max_steps == 2
    assert OPINIONS["train"] is TRAIN, "the caller's dictionary is left as it was"
    assert "seed" not in TRAIN
    by_recipe = regard.validate(recipe, set={"train.max_steps": 7})
    by_dictionary = regard.validate(OPINIONS, set={"train.max_steps": 7})
    assert by_recipe.forecast.steps == by_dictionary.forecast.steps == 7


@pytest.mark.parametrize(
    ("recipe", "changes", "said"),
    [
        ({**OPINIONS, "modle": {}}, {}, "model"),
        (OPINIONS, {"train.lrr": 1}, "train.lr"),
        (OPINIONS, {"train.lr": "fast"}, "train.lr"),
        ({"base": "a.toml", "variants": {}}, {}, "regard.compare"),
        (7, {}, "path"),
    ],
)
def test_a_wrong_dictionary_is_refused_by_its_key(project, recipe, changes, said):
    with pytest.raises(UserError, match=said):
        regard.validate(recipe, set=changes)


@pytest.mark.usefixtures("in_process_trainings")
def test_a_dictionary_is_a_study(project):
    study = {
        "name": "seeds-of-a-dictionary",
        "base": OPINIONS,
        "seeds": [0],
        "grid": {"model.width": [4, 8]},
    }
    outcome = regard.sweep(study, jobs=1)
    assert len({variant.parameters for variant in outcome.variants}) == 2
    again = regard.compare("runs/seeds-of-a-dictionary")
    assert again.decides == outcome.decides
    with pytest.raises(UserError, match="grid"):
        regard.sweep({**study, "grid": {}, "variants": {"a": {}}})


def test_rows_in_memory_are_predicted_as_those_of_a_file(loaded, project):
    texts = ["film plot 0", "cast cast 2", "music"]
    from_texts = regard.predict(loaded, texts)
    (project / "new.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    from_file = regard.predict("runs/opinions", "new.jsonl")
    table = pa.table({"id": [1, 2, 3], "text": texts})
    for found in (from_texts, regard.predict(loaded, [{"text": t} for t in texts]), from_file):
        assert [row["predicted"] for row in found] == [row["predicted"] for row in from_file]
        assert [row["confidence"] for row in found] == [row["confidence"] for row in from_file]
        assert [row["record"]["text"] for row in found] == texts
    for frame in (table, Frame(table), ProtocolFrame(table)):
        found = regard.predict(loaded, frame)
        assert [row["confidence"] for row in found] == [row["confidence"] for row in from_file]
        assert [row["record"]["id"] for row in found] == [1, 2, 3]


class Frame:
    """A data frame of a library that Arrow reads, and nothing else of it."""

    columns = ("id", "text")

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


class ProtocolFrame:
    """A data frame of a library with the data frame protocol alone."""

    def __init__(self, table):
        self.table = table

    def __dataframe__(self, nan_as_null=False, allow_copy=True):
        return self.table.__dataframe__(nan_as_null, allow_copy)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"review": "a"}], "'text'"),
        ([("a", "b")], "tuple of 2"),
        ([3], "int"),
        ({"text": "a"}, "dict"),
        (7, "int"),
        ("nowhere.csv", "nowhere.csv"),
        (pa.table({"review": ["a"]}), "'text'"),
    ],
)
def test_rows_of_another_shape_are_refused(loaded, rows, said):
    with pytest.raises(UserError, match=said):
        regard.predict(loaded, rows)


def test_a_loaded_model_predicts_labels_and_probabilities(loaded):
    texts = ["film plot 0", "", "cast cast 2"]
    predicted = loaded.predict(texts)
    assert predicted[1] is None
    probabilities = loaded.predict_proba(texts)
    assert probabilities.shape == (3, len(loaded.labels))
    assert np.isnan(probabilities[1]).all()
    assert np.allclose(probabilities[[0, 2]].sum(axis=1), 1)
    assert predicted[0] == loaded.labels[probabilities[0].argmax()]
    with pytest.raises(UserError, match="list"):
        loaded.predict("film plot 0")


def test_a_loaded_model_shows_its_attention(loaded):
    [layer] = loaded.attention("film plot 0")
    assert layer.weights.shape[0] == 2
    assert np.allclose(layer.weights.sum(axis=-1), 1, atol=1e-5)


def test_errors_are_the_items_of_a_split(project):
    found = regard.errors("runs/opinions", split="test")
    wrong = found.worst(3)
    assert all(item.predicted[0] != item.truth for item in wrong)
    both = regard.errors("runs/opinions", "runs/opinions")
    assert both.differing(3) == []
    with pytest.raises(UserError, match="split"):
        regard.errors("runs/opinions", split="validation")


def test_reprs_are_short_and_say_the_result(project, loaded):
    run = regard.train(OPINIONS, resume=True, set={"train.seed": 3})
    results = run.results()
    estimate = next(row for row in results.estimates if (row.split, row.of) == ("dev", "model"))
    assert repr(run).startswith("<Run opinions: dev ")
    assert f"{estimate.value:.2f}" in repr(run)
    assert "audit clean" in repr(run)
    assert "not finished" in repr(regard.train.__globals__["Run"](project / "cache"))
    ledger = regard.ledger(loaded)
    assert f"{ledger.total:,}" in repr(ledger)
    lesson = regard.lesson("average-of-two")
    for shown, words in (
        (loaded, ("LoadedModel", "encoder", "classification")),
        (results, ("Results", "dev")),
        (results.audit, ("Audit", "clean")),
        (regard.audit(loaded), ("Audit", "clean")),
        (lesson, ("Lesson average-of-two", "passed")),
        (regard.errors("runs/opinions"), ("dev", "items")),
    ):
        assert all(word in repr(shown) for word in words), repr(shown)
        assert len(repr(shown)) < 300
        assert str(shown) == repr(shown)


@pytest.mark.parametrize("leading", [(), (2,), (2, 3)])
def test_attention_takes_tensors_without_heads_or_batch(leading):
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(*leading, n, 4, generator=generator) for n in (5, 5, 5))
    bias = torch.randn(*leading, 5, 5, generator=generator)
    mask = regard.mask.causal()
    output = regard.attend(q, k, v, mask, bias=bias, need_weights=True)
    full = [
        t.reshape(*(1,) * (2 - len(leading)), *t.shape) if len(leading) != 1 else t[:, None]
        for t in (q, k, v, bias)
    ]
    expected = regard.attend(*full[:3], mask, bias=full[3], need_weights=True)
    assert output.out.shape == (*leading, 5, 4)
    assert torch.equal(output.out.flatten(), expected.out.flatten())
    assert torch.equal(output.weights.flatten(), expected.weights.flatten())
    assert torch.allclose(regard.attend(q, k, v, mask, bias=bias).out, output.out, atol=1e-6)


def test_a_model_answers_texts_alone(loaded):
    assert loaded.predict([]) == []
    assert loaded.predict(["", " "]) == [None, None]
    assert np.isnan(loaded.predict_proba([""])).all()


def test_settings_are_changed_by_a_dictionary(project):
    with pytest.raises(UserError, match="set is of type str"):
        regard.validate({}, set="train.lr=1")


def test_attention_of_other_types_is_refused():
    q = torch.zeros(1, 1, 5, 4)
    with pytest.raises(UserError, match="the keys are of type ndarray"):
        regard.attend(q, q.numpy(), q)
    with pytest.raises(UserError, match="Give floating-point numbers"):
        regard.attend(q.long(), q, q)
    with pytest.raises(UserError, match="queries of width 4 and keys of width 3"):
        regard.attend(q, q[..., :3], q)


def test_attention_of_other_shapes_is_refused_by_them():
    q = torch.zeros(5)
    with pytest.raises(UserError, match=r"\(5,\)"):
        regard.attend(q, q, q)
    with pytest.raises(UserError, match=r"\(1, 2, 3\)"):
        regard.attend(torch.zeros(2, 3), torch.zeros(1, 2, 3), torch.zeros(2, 3))
