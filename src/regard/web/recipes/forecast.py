"""What a recipe costs, for the form: `regard validate` in a worker process.

It tokenizes the data, which is cached for the training, and times a few updates of a throw-away
model with all cores, as the training would take them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from regard.web import plots


def forecast(params: Mapping[str, Any]) -> dict[str, Any]:
    """The cost of the recipe in `params`, whose paths are seen from the folder `home`."""
    from regard.runs.observer import SILENT
    from regard.runs.preflight.validate import validate_recipe
    from regard.runs.recipe import Recipe

    with contextlib.chdir(params["home"]), _threads_kept():
        recipe = Recipe.from_dictionary(params["recipe"])
        found = validate_recipe(recipe, runs=Path(params["runs"]), observer=SILENT)
    more = {"vocabulary": found.vocabulary, "advice": found.advice, "trained": found.ledger.total}
    return {key: plots.finite(one) for key, one in {**found.as_dict(), **more}.items()}


@contextlib.contextmanager
def _threads_kept() -> Iterator[None]:
    """A forecast takes as many threads as its training would; lessons after it have theirs."""
    import torch

    threads = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(threads)
