"""A classifier of texts with the interface of scikit-learn: a recipe, trained by `fit`.

    classifier = regard.TextClassifier(epochs=20).fit(texts, labels)
    classifier.predict(["A fine film."])     classifier.results_     # scores beside the baselines

Each fit is a whole run: the model is audited before it is trained, and a tenth of the rows each is
held out as dev and as test. scikit-learn is imported with this module only.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped]

from regard.api.arguments import as_path
from regard.api.models import load
from regard.api.recipes import as_recipe
from regard.core.errors import UserError
from regard.core.files import write_text
from regard.runs.observer import SILENT
from regard.runs.recipe import Recipe
from regard.runs.run import Run, check_new_folder
from regard.runs.train import run_experiment
from regard.training.interrupt import TrainingInterrupt

DEFAULT_RECIPE: Mapping[str, Any] = {
    "name": "text-classifier",
    "tokenizer": {"kind": "word"},
    "model": {"family": "encoder", "layers": 2, "heads": 4, "width": 64, "context": 128},
    "train": {"epochs": 10, "lr": 2e-3, "checkpoint_every": 0},
}
BATCHES_PER_EPOCH = 10
"Of the default recipe, between the least and the most tokens of a batch."
MIN_BATCH_TOKENS, MAX_BATCH_TOKENS = 128, 2048
HELD_OUT = 0.1


class TextClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classify texts; works in `Pipeline`, `GridSearchCV` and `cross_val_score`.

    `recipe` is a file or a dictionary of settings (model, tokenizer, init_from, adapt, train);
    `set` changes settings, {"model.width": 32}. `lr`, `epochs` and `seed` are those of its [train],
    None: as the recipe says. `out` keeps the run in that folder, which must be new at every fit.
    """

    def __init__(
        self,
        recipe: Mapping[str, Any] | str | PathLike[str] | None = None,
        *,
        set: Mapping[str, Any] | None = None,
        lr: float | None = None,
        epochs: float | None = None,
        seed: int | None = None,
        out: str | PathLike[str] | None = None,
    ) -> None:
        # scikit-learn clones estimators by these attributes, so they stay as they were given.
        self.recipe = recipe
        self.set = set
        self.lr = lr
        self.epochs = epochs
        self.seed = seed
        self.out = out

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Train on texts and their labels."""
        texts, labels = _texts(X), np.asarray(y)
        if labels.ndim != 1 or len(labels) != len(texts):
            raise UserError(
                f"{len(texts):,} texts and labels of shape {labels.shape}",
                topic="classifier",
                hint="Give one label for each text.",
            )
        self.classes_, indices = _classes(labels)
        names = [_label_name(label) for label in self.classes_]
        _check_names(names, self.classes_.tolist())
        with _folder(self.out) as home:
            run = self._train(texts, [names[index] for index in indices], home)
            self.model_ = load(run)
            self.results_ = run.results()
        by_name = {name: column for column, name in enumerate(self.model_.labels)}
        self._columns = [by_name.get(name) for name in names]
        self._frequencies = np.bincount(indices) / len(indices)
        return self

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The likeliest class of each text."""
        probabilities = self.predict_proba(X)
        best: NDArray[Any] = self.classes_[probabilities.argmax(axis=1)]
        return best

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """(n,c): the probability of each of `classes_`; for a text without a word, their
        frequencies in training."""
        check_is_fitted(self, "model_")
        found = self.model_.predict_proba(_texts(X))
        unknown = np.zeros(len(found))  # a class of which no row fell into the train split
        columns = [unknown if column is None else found[:, column] for column in self._columns]
        probabilities = np.stack(columns, axis=1)
        is_empty = np.isnan(found).any(axis=1)
        probabilities[is_empty] = self._frequencies
        return probabilities

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags

    def _train(self, texts: Sequence[str], labels: Sequence[str], home: Path) -> Run:
        check_new_folder(home)
        data = home.with_name(f"{home.name}.texts.jsonl")
        data.parent.mkdir(parents=True, exist_ok=True)
        rows = ({"text": text, "label": label} for text, label in zip(texts, labels, strict=True))
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        write_text(data, "".join(lines))
        words = sum(len(text.split()) + 2 for text in texts)  # and the special tokens
        batch_tokens = min(max(words // BATCHES_PER_EPOCH, MIN_BATCH_TOKENS), MAX_BATCH_TOKENS)
        recipe = self._recipe(data, default_batch_tokens=batch_tokens)
        try:
            return run_experiment(recipe, home, observer=SILENT)
        except TrainingInterrupt as stopped:
            # A search catches other exceptions, counts the fit as failed, and goes on.
            raise KeyboardInterrupt(str(stopped)) from None

    def _recipe(self, data: Path, *, default_batch_tokens: int) -> Recipe:
        train = {"lr": self.lr, "epochs": self.epochs, "seed": self.seed}
        changes = {
            "data.corpus": str(data.resolve()),
            "data.dev": HELD_OUT,
            "data.test": HELD_OUT,
            "task.kind": "classification",
            **({"train.batch_tokens": default_batch_tokens} if self.recipe is None else {}),
            **{f"train.{key}": value for key, value in train.items() if value is not None},
            **(self.set or {}),
        }
        recipe = DEFAULT_RECIPE if self.recipe is None else self.recipe
        if isinstance(recipe, Mapping):
            recipe = {"name": DEFAULT_RECIPE["name"], **recipe}
        return as_recipe(recipe, changes)


@contextmanager
def _folder(out: str | PathLike[str] | None) -> Iterator[Path]:
    """The run's folder; a temporary one if none is wanted."""
    if out is not None:
        yield as_path(out, "out")
        return
    with tempfile.TemporaryDirectory(prefix="regard-", ignore_cleanup_errors=True) as home:
        yield Path(home) / "run"


def _texts(X: Any) -> list[str]:  # noqa: N803
    """The texts of a list, an array, a series, or a table with one column."""
    values = X.to_numpy() if hasattr(X, "to_numpy") else X
    array = np.asarray(None if isinstance(values, str) else values, dtype=object)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    texts = array.tolist() if array.ndim == 1 else [X]
    for number, text in enumerate(texts, start=1):
        if array.ndim != 1 or not isinstance(text, str):
            where = f"text {number:,} is" if array.ndim == 1 else "the texts are"
            raise UserError(
                f"{where} of type {type(text).__name__}",
                topic="classifier",
                hint="Give a list of texts, or one column of them.",
            )
        _check_unicode(text, f"text {number:,}")
    return texts


def _check_unicode(text: str, which: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as problem:
        raise UserError(
            f"{which} has half a character at position {problem.start:,}, which no file can hold",
            topic="classifier",
            hint="Decode the texts with errors='replace'.",
        ) from None


def _classes(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The distinct labels in order, and the number of each text's."""
    for number, label in enumerate(labels.tolist(), start=1):
        if label is None or label != label:
            raise UserError(
                f"the label of text {number:,} is missing ({label})",
                topic="classifier",
                hint="Leave such texts out, or give them a label.",
            )
    try:
        classes, indices = np.unique(labels, return_inverse=True)
    except TypeError:
        types = sorted({type(label).__name__ for label in labels.tolist()})
        raise UserError(
            f"labels are of types that have no order: {', '.join(types)}",
            topic="classifier",
            hint="Give labels of one type.",
        ) from None
    if len(classes) < 2:
        raise UserError(
            f"every text has the label {classes.tolist()[:1]}",
            topic="classifier",
            hint="Give texts of at least two labels.",
        )
    return classes, indices


def _label_name(label: Any) -> str:
    """A class as a task's rows name it: `True` and `true` are one label there, and spaces around
    it do not count."""
    if isinstance(label, bool | np.bool_):
        return "true" if label else "false"
    return str(label).strip()


def _check_names(names: Sequence[str], classes: Sequence[Any]) -> None:
    """Two labels with one name would be trained as one, and the other never predicted."""
    first: dict[str, Any] = {}
    for name, label in zip(names, classes, strict=True):
        _check_unicode(name, f"the label {label!r}")
        if not name or name in first:
            same = f"{first[name]!r} and {label!r} are the same label" if name else "a label"
            raise UserError(
                f"{same} but for spaces" if name else f"{same} holds nothing but spaces: {label!r}",
                topic="classifier",
                hint="Give labels that differ, and say something.",
            )
        first[name] = label
