"""All that lies ready when a training begins: text, model, batches, machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regard import __version__
from regard.adapters.ledger import Ledger, ledger
from regard.evaluation.baselines.ngrams import check_keys_fit
from regard.models.model import Model
from regard.runs.models.base_model import base_table
from regard.runs.models.init_from import InitialModel, body_of, inherit_settings
from regard.runs.observer import Observer
from regard.runs.preparation.prepare import prepare, said_dropped
from regard.runs.preparation.prepared import PreparedData
from regard.runs.recipe import Recipe
from regard.training.batch_loader import BatchLoader
from regard.training.device import Machine, choose_machine
from regard.training.forecast import Forecast, forecast


@dataclass
class Experiment:
    """A recipe, resolved, and what was made from it."""

    recipe: Recipe
    prepared: PreparedData
    model: Model
    stream: BatchLoader
    machine: Machine
    start: InitialModel | None

    def config(self) -> dict[str, Any]:
        """What it takes to build the model again, for config.json."""
        table = self.recipe.to_table()
        config = {
            "regard": __version__,
            "model": table["model"],
            "objective": table["objective"],
            "vocabulary": self.vocabulary,
            "tokenizer": self.prepared.tokenizer.fingerprint,
        }
        if self.start is not None and self.start.architecture is not None:
            config["architecture"] = self.start.architecture
        if self.start is not None and self.recipe.adapt.saves_adapter_only:
            named = str(self.recipe.start)
            base = base_table(self.start.place, self.start.folder, named=named)
            config |= {"adapt": table["adapt"], "base": base}
        if self.recipe.task is None:
            return config
        return {**config, "task": table["task"], "learnt": self.prepared.learnt()}

    @property
    def vocabulary(self) -> int:
        """Rows of the token table."""
        return self.prepared.tokenizer.size if self.start is None else self.start.vocabulary

    def ledger(self) -> Ledger:
        """What is trained, counted twice."""
        recipe = self.recipe
        return ledger(self.model, recipe.adapt, recipe.model, vocabulary=self.vocabulary)

    def samples(self) -> list[str]:
        """What the model writes now."""
        return [sample["text"] for sample in self.prepared.samples(self.model)]


def build_experiment(recipe: Recipe, *, start: InitialModel | None, watch: Observer) -> Experiment:
    """Everything up to the first step."""
    recipe = inherit_settings(recipe, start)
    prepared = prepare(recipe, tokenizer=start.tokenizer if start else None, watch=watch)
    said = start.remarks if start else ()
    for text in (*said, said_dropped(prepared.statistics), *prepared.remarks()):
        if text:
            watch.on_event({"event": "remark", "text": text})
    check_keys_fit(recipe.evaluate.ngram, prepared.tokenizer.size)  # now, not after the training
    machine = choose_machine(recipe.train.device, threads=recipe.train.threads)
    seed = recipe.train.seed
    if start is None:
        body = recipe.model.build(vocabulary=prepared.tokenizer.size, seed=seed)
    else:
        body = body_of(start)
    model = prepared.fitted(body, seed=seed)
    recipe.adapt.apply(model, seed=seed)
    stream = BatchLoader(prepared.examples(), recipe.train, pad=prepared.tokenizer.padding_id)
    stream.plan(0)  # says now, not after the forecast, where the text does not fill a batch
    return Experiment(recipe, prepared, model.to(machine.device), stream, machine, start)


def forecast_experiment(bench: Experiment) -> Forecast:
    """Steps, time and memory, from a few real updates of a copy."""
    first = bench.stream.plan(0)[:2]
    every = bench.recipe.train.evaluate_every
    looks = bench.stream.steps // every if every else 0
    return forecast(
        bench.model,
        [bench.stream.build_batch(rows, epoch=0) for rows in first],
        bench.recipe.train,
        steps=bench.stream.steps,
        evaluation_positions=bench.prepared.places_measured(looks=looks),
        machine=bench.machine,
    )
