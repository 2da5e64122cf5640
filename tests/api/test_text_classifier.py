"""`TextClassifier` keeps scikit-learn's conventions, which its own checks skip for texts."""

import pickle
import random

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from regard import TextClassifier, UserError

RECIPE = {
    "tokenizer": {"kind": "word"},
    "model": {"family": "encoder", "layers": 1, "heads": 1, "width": 8, "context": 12},
    "train": {"max_steps": 2, "batch_tokens": 64, "threads": 1, "checkpoint_every": 0},
}
LEARN = {"train.max_steps": 60, "train.lr": 0.02}
WORDS = ("film", "plot", "cast", "scene", "ending", "music", "story", "camera", "light", "voice")


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def reviews(count=120):
    generator = random.Random(0)
    labels = [number % 2 for number in range(count)]
    texts = [
        " ".join(["dull", "fine"][label : label + 1] + generator.sample(WORDS, 5))
        for label in labels
    ]
    return texts, np.array([-5, 7])[labels]


@pytest.fixture(scope="module")
def fitted():
    return TextClassifier(RECIPE, set=LEARN).fit(*reviews())


def test_it_learns_and_its_classes_are_the_labels_given(fitted):
    texts, labels = reviews()
    assert fitted.classes_.tolist() == [-5, 7]
    assert set(fitted.predict(texts)) <= {-5, 7}
    assert fitted.score(texts, labels) > 0.9
    assert {row.split for row in fitted.results_.estimates} == {"train", "dev", "test"}
    assert fitted.results_.audit.is_valid


def test_probabilities_are_those_of_the_model_in_the_order_of_the_classes(fitted):
    probabilities = fitted.predict_proba(["fine film", "dull plot", ""])
    assert probabilities.shape == (3, 2)
    assert np.allclose(probabilities.sum(axis=1), 1)
    assert probabilities[0, 1] > 0.5 > probabilities[1, 1]
    assert np.allclose(probabilities[2], 0.5), "no word: the classes are equally frequent"
    by_label = fitted.model_.predict_proba(["fine film"])[0]
    assert by_label[fitted.model_.labels.index("7")] == probabilities[0, 1]


def test_before_fit_it_says_that_it_is_not_fitted():
    with pytest.raises(NotFittedError):
        TextClassifier().predict(["fine"])


def test_clone_and_parameters():
    classifier = TextClassifier(RECIPE, lr=0.1, seed=3)
    parameters = classifier.get_params()
    assert parameters.keys() == {"recipe", "set", "lr", "epochs", "seed", "out"}
    copy = clone(classifier)
    assert copy is not classifier
    assert copy.get_params() == parameters
    assert copy.set_params(lr=0.2).lr == 0.2
    assert classifier.lr == 0.1
    with pytest.raises(ValueError, match="learning_rate"):
        copy.set_params(learning_rate=1)
    assert is_classifier(classifier)
    assert classifier.__sklearn_tags__().input_tags.string
    assert "seed=3" in repr(classifier)


def test_parameters_reach_the_recipe(tmp_path):
    out = tmp_path / "kept"
    TextClassifier(RECIPE, lr=0.5, seed=4, set={"model.width": 4}, out=out).fit(*reviews(60))
    recipe = (out / "recipe.toml").read_text()
    for line in ("lr = 0.5", "seed = 4", "width = 4", 'kind = "classification"'):
        assert line in recipe
    with pytest.raises(UserError, match="exists already"):
        TextClassifier(RECIPE, out=out).fit(*reviews(60))


def test_without_a_recipe_a_few_texts_are_enough():
    small = {"model.layers": 1, "model.heads": 1, "model.width": 4, "train.max_steps": 2}
    texts, labels = reviews(60)
    assert TextClassifier(set=small).fit(texts, labels).predict(texts).shape == (60,)


def test_grid_search_over_a_pipeline():
    texts, labels = reviews(60)
    upper = FunctionTransformer(lambda texts: [text.upper() for text in texts])
    pipeline = Pipeline([("upper", upper), ("classify", TextClassifier(RECIPE))])
    search = GridSearchCV(pipeline, {"classify__lr": [2e-2]}, cv=2, error_score="raise")
    search.fit(texts, labels)
    assert 0 <= search.best_score_ <= 1
    assert search.best_estimator_["classify"].lr == 2e-2
    assert search.predict(texts[:3]).shape == (3,)


def test_cross_validation_of_string_labels_in_arrays():
    texts, labels = reviews(60)
    names = np.where(labels < 0, "bad", "good")
    scores = cross_val_score(TextClassifier(RECIPE), np.array(texts)[:, None], names, cv=2)
    assert scores.shape == (2,)
    assert ((scores >= 0) & (scores <= 1)).all()


def test_a_fitted_classifier_survives_a_copy_to_another_process(fitted):
    texts, _ = reviews(6)
    copy = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(copy.predict_proba(texts), fitted.predict_proba(texts))


@pytest.mark.parametrize(
    ("texts", "labels", "said"),
    [
        (["a", "b"], [1], "2 texts"),
        ("one text", [1], "str"),
        ([["a", "b"], ["c", "d"]], [1, 2], "list"),
        (["fine", None], [1, 2], "text 2"),
        (["fine film", "fine plot"] * 20, [1, 1] * 20, "every text"),
        (["a", "b", "c"], ["x", None, "y"], "text 2 is missing"),
        (["a", "b", "c"], [1.0, 2.0, float("nan")], "text 3 is missing"),
        (["a", "b"], np.array([1, "x"], dtype=object), "int, str"),
        (["a", "b", "c"], ["x", " x", "y"], "but for spaces"),
        (["a", "b"], ["x", " "], "nothing but spaces"),
        (["a \ud800", "b"], ["x", "y"], "text 1 has half"),
        (["a", "b"], ["x\ud800", "y"], "label .* has half"),
    ],
)
def test_unusable_texts_and_labels_are_refused(texts, labels, said):
    with pytest.raises(UserError, match=said):
        TextClassifier(RECIPE).fit(texts, labels)
