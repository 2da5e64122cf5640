"""An experiment assembled for training: data, model, batch loader, machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from regard import __version__
from regard.adapters.ledger import ledger
from regard.core.ledger import Ledger
from regard.evaluation.baselines.ngrams import check_keys_fit
from regard.models.families import build_model
from regard.models.model import Model
from regard.runs.models.base_model import base_entry
from regard.runs.models.init_from import InitialModel, inherit_settings, load_body
from regard.runs.observer import Observer
from regard.runs.preflight.checks import check_before_data, preflight, small_splits
from regard.runs.preparation.data_remarks import data_remarks
from regard.runs.preparation.prepare import prepare
from regard.runs.preparation.prepared import PreparedData
from regard.runs.recipe import Recipe
from regard.training.batch_loader import BatchLoader
from regard.training.compiled import check_compilable
from regard.training.device import Machine, choose_machine
from regard.training.events import RemarkEvent
from regard.training.forecast import Forecast, Plan, forecast_by_trial
from regard.training.parallel.ranks import ONE_RANK, OneRank
from regard.training.settings import Train
from regard.training.threads import training_threads

TRIAL_BATCHES = 8
"Different batches of a trial: where rows are bucketed by length, batches differ."


@dataclass
class Experiment:
    """A resolved recipe and everything built from it."""

    recipe: Recipe
    prepared: PreparedData
    model: Model
    loader: BatchLoader
    machine: Machine
    initial_model: InitialModel | None
    remarks: tuple[str, ...] = ()
    "How the settings fit the data and the machine, as said before training."
    position_seconds: float | None = None
    "Of a position in evaluation, once `prepare_evaluation` has timed it."

    def prepare_evaluation(self, observer: Observer) -> None:
        """Before training: what evaluations take of the data alone, and their speed."""
        self.prepared.prepare_evaluation(observer)
        device = self.machine.device
        self.position_seconds = self.prepared.position_seconds(self.model, device=device)

    def config(self) -> dict[str, Any]:
        """What it takes to build the model again, for config.json."""
        table = self.recipe.to_table()
        initial_model = self.initial_model
        config = {
            "regard": __version__,
            "model": table["model"],
            "objective": table["objective"],
            "vocabulary": self.vocabulary,
            "tokenizer": self.prepared.tokenizer.fingerprint,
        }
        if initial_model is not None and initial_model.architecture is not None:
            config["architecture"] = initial_model.architecture
        if initial_model is not None and self.recipe.adapt.saves_adapter_only:
            init_from = str(self.recipe.init_from)
            base = base_entry(initial_model.path, initial_model.folder, init_from=init_from)
            config |= {"adapt": table["adapt"], "base": base}
        if self.recipe.task is None:
            return config
        return {**config, "task": table["task"], "task_state": self.prepared.task_state()}

    @property
    def vocabulary(self) -> int:
        """Rows of the token embedding."""
        if self.initial_model is not None:
            return self.initial_model.vocabulary
        return self.prepared.tokenizer.size

    def ledger(self) -> Ledger:
        """Trained parameters, counted by tensor and by formula."""
        recipe = self.recipe
        return ledger(self.model, recipe.adapt, recipe.model, vocabulary=self.vocabulary)

    def samples(self) -> list[str]:
        """Texts that the model generates in its present state."""
        return [sample.text for sample in self.prepared.samples(self.model)]


def build_experiment(
    recipe: Recipe,
    *,
    initial_model: InitialModel | None,
    observer: Observer,
    ranks: OneRank = ONE_RANK,
) -> Experiment:
    """Prepare the data and build the model: everything before the first step."""
    recipe = inherit_settings(recipe, initial_model)
    check_before_data(recipe, ranks=ranks)
    tokenizer = initial_model.tokenizer if initial_model else None
    prepared = prepare(recipe, tokenizer=tokenizer, observer=observer)
    check_keys_fit(recipe.evaluate.ngram, prepared.tokenizer.size)  # now, not after the training
    loader = BatchLoader(prepared.examples(), recipe.train, pad=prepared.tokenizer.padding_id)
    vocabulary = initial_model.vocabulary if initial_model else prepared.tokenizer.size
    remarks = preflight(recipe, prepared, loader, vocabulary=vocabulary, ranks=ranks)
    seed = recipe.train.seed
    if initial_model is None:
        body = build_model(recipe.model, vocabulary=prepared.tokenizer.size, seed=seed)
    else:
        body = load_body(initial_model)
    model = prepared.attach_head(body, seed=seed)
    recipe.adapt.apply(model, seed=seed)
    threads = recipe.train.threads or _threads(model, loader, ranks)
    machine = choose_rank_machine(recipe.train, ranks, threads=threads)
    check_compilable(recipe.train, model, device=machine.device, ranks=ranks.size)
    # Last: an error is one sentence, with nothing before it.
    import_remarks = initial_model.remarks if initial_model else ()
    data = data_remarks(prepared.statistics, prepared.data_flaws)
    for text in (*import_remarks, *data, *remarks, *small_splits(prepared), *prepared.remarks()):
        observer.on_event(RemarkEvent(text=text))
    return Experiment(
        recipe,
        prepared,
        model.to(machine.device),
        loader,
        machine,
        initial_model,
        tuple(remarks),
    )


def choose_rank_machine(train: Train, ranks: OneRank, *, threads: int) -> Machine:
    """The machine of this process, and on a machine of several GPUs its own."""
    device = ranks.device(train.device)
    machine = choose_machine(device, threads=threads, precision=train.precision)
    if ranks.size == 1:
        return machine
    if machine.device.startswith("cuda"):
        torch.cuda.set_device(machine.device)  # where collectives compute
    return replace(machine, ranks=ranks.size, parallel=train.parallel)


def _threads(model: Model, loader: BatchLoader, ranks: OneRank) -> int:
    positions = loader.mean_positions() / loader.settings.accumulate / ranks.size
    return ranks.threads(training_threads(model, positions))


def training_plan(experiment: Experiment) -> Plan:
    """How much there is to train and to evaluate."""
    loader, prepared = experiment.loader, experiment.prepared
    return Plan(
        steps=loader.steps,
        evaluate_every=experiment.recipe.train.evaluate_every,
        batch_positions=loader.mean_positions(),
        dev_positions=prepared.dev_positions(experiment.recipe.train.evaluate_documents),
        final_positions=prepared.final_positions(),
        parameters=sum(p.numel() for p in experiment.model.parameters()),
        position_seconds=experiment.position_seconds,
    )


def forecast_experiment(experiment: Experiment) -> Forecast:
    """Steps, time and memory, from a few real updates of a copy."""
    loader, machine = experiment.loader, experiment.machine
    return forecast_by_trial(
        experiment.model,
        [loader.build_batch(rows, epoch=0) for rows in loader.plan(0)[:TRIAL_BATCHES]],
        experiment.recipe.train,
        training_plan(experiment),
        evaluate=lambda copy: experiment.prepared.evaluate_dev(
            copy,
            device=machine.device,
            documents=experiment.recipe.train.evaluate_documents,
        ),
        machine=machine,
    )
