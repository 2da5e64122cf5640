"""How many documents of each split the final evaluation of a language model takes."""

from types import SimpleNamespace

import pytest

from regard.runs.preparation.evaluate_text import document_limits


@pytest.mark.parametrize(
    ("dev", "test", "limit", "train"),
    [(350, 372, 2000, 744), (350, 372, 500, 500), (20, 5000, 2000, 2000), (1, 1, 2000, 2)],
)
def test_training_is_evaluated_on_twice_as_many_documents_as_what_judges(dev, test, limit, train):
    lengths = {"train": 6000, "dev": dev, "test": test}
    cache = SimpleNamespace(split=lambda name: range(lengths[name]))
    assert document_limits(cache, limit) == {"train": train, "dev": limit, "test": limit}
