"""All that lies ready when a training begins: text, model, batches, machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regard import __version__
from regard.experiment.figures import choose_documents
from regard.experiment.prepare import Prepared, prepare, said_dropped
from regard.experiment.samples import can_write, strategy_of, write_texts
from regard.experiment.start import Start, inherit
from regard.experiment.watch import Watch
from regard.model.model import Model
from regard.objectives import Vocabulary
from regard.recipe import Recipe
from regard.text.corpus import PARTS, Part
from regard.text.rows import Blocks, Pieces
from regard.training.checkpoint import load_weights
from regard.training.device import Machine, choose_machine
from regard.training.forecast import Forecast, forecast
from regard.training.stream import Stream
from regard.trust.ngrams import check_keys_fit


@dataclass
class Bench:
    """A recipe, resolved, and what was made from it."""

    recipe: Recipe
    prepared: Prepared
    model: Model
    stream: Stream
    machine: Machine
    start: Start | None

    def config(self) -> dict[str, Any]:
        return {
            "regard": __version__,
            "model": self.recipe.to_table()["model"],
            "objective": self.recipe.to_table()["objective"],
            "vocabulary": self.prepared.tokenizer.size,
            "tokenizer": self.prepared.tokenizer.fingerprint,
        }

    def samples(self) -> list[str]:
        """What the model writes now, after the recipe's prompts; nothing where it cannot write."""
        if not can_write(self.model):
            return []
        samples = self.recipe.samples
        return write_texts(
            self.model,
            self.prepared.tokenizer,
            samples.prompts,
            strategy=strategy_of(samples),
            max_new=samples.max_new,
            seed=self.recipe.train.seed,
        )


def set_up(recipe: Recipe, *, start: Start | None, watch: Watch) -> Bench:
    """Everything up to the first step."""
    recipe = inherit(recipe, start)
    prepared = prepare(recipe, tokenizer=start.tokenizer if start else None, watch=watch)
    if left_out := said_dropped(prepared.statistics):
        watch.on_event({"event": "remark", "text": left_out})
    check_keys_fit(recipe.evaluate.ngram, prepared.tokenizer.size)  # now, not after the training
    machine = choose_machine(recipe.train.device, threads=recipe.train.threads)
    model = recipe.model.build(vocabulary=prepared.tokenizer.size, seed=recipe.train.seed)
    if start is not None:
        load_weights(model, start.folder / "model.safetensors")
    stream = _stream(recipe, prepared)
    stream.plan(0)  # says now, not after the forecast, where the text does not fill a batch
    return Bench(recipe, prepared, model.to(machine.device), stream, machine, start)


def predict(bench: Bench) -> Forecast:
    """Steps, time and memory, from a few real updates of a copy."""
    first = bench.stream.plan(0)[:2]
    return forecast(
        bench.model,
        [bench.stream.batch(rows, epoch=0) for rows in first],
        bench.recipe.train,
        steps=bench.stream.steps,
        places_measured=_places_measured(bench),
        machine=bench.machine,
    )


def _places_measured(bench: Bench) -> int:
    """In all looks at dev and in the final figures."""
    settings, cache = bench.recipe.train, bench.prepared.cache

    def places(part: Part, most: int) -> int:
        drawn_by = bench.recipe.data.split_seed
        chosen = choose_documents(cache, part, most=most, seed=drawn_by)
        lengths = np.array([len(ids) for ids in chosen.documents])
        context = bench.recipe.model.context
        return bench.recipe.objective.places_scored(lengths, context=context)

    looks = bench.stream.steps // settings.evaluate_every if settings.evaluate_every else 0
    final = sum(places(part, bench.recipe.evaluate.documents) for part in PARTS)
    return looks * places("dev", settings.evaluate_documents) + final


def _stream(recipe: Recipe, prepared: Prepared) -> Stream:
    tokenizer = prepared.tokenizer
    kind = Blocks if recipe.train.batches == "packed" else Pieces
    rows = kind(
        prepared.cache.part("train"),
        context=recipe.model.context,
        start=tokenizer.require("start"),
        stop=tokenizer.require("stop"),
    )
    return Stream(
        rows,
        recipe.objective,
        recipe.train,
        vocabulary=Vocabulary.of(tokenizer),
        pad=tokenizer.require("pad"),
    )
