"""A complete experiment: prepare, audit, train, evaluate, and write the run folder.

Every stage leaves the folder in a state that `resume` can continue: before the first checkpoint
training starts again, after the last step only the evaluation is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from regard.core.errors import DivergenceError, UserError
from regard.core.files import sync_file
from regard.core.json_records import record_table, restore_record
from regard.core.process.address_limit import address_limit
from regard.data.tokenizers.tokenizer import check_same_tokenizer
from regard.runs.audit_cache.audit_reuse import audit_or_reuse
from regard.runs.event_log import event_log, start_event
from regard.runs.experiment import Experiment, build_experiment, choose_rank_machine
from regard.runs.finish import finish
from regard.runs.locking.lock import lock_run
from regard.runs.models.init_from import find_initial_model, inherit_settings
from regard.runs.observer import SILENT, Observer
from regard.runs.preflight.rank_facts import experiment_facts, file_facts, recipe_facts
from regard.runs.recipe import Recipe
from regard.runs.results import AuditEvent, AuditRecord, read_audit, write_audit
from regard.runs.run import Run, check_new_folder, create_run, reopen_run, write_paths
from regard.training.checkpoint import (
    WEIGHTS_FILE,
    TrainingState,
    latest_intact_checkpoint,
    load_state,
    load_weights,
    prune_checkpoints,
)
from regard.training.compiled import compiled_training
from regard.training.events import DivergenceEvent, OnEvent, RemarkEvent, ignore_event
from regard.training.interrupt import (
    TrainingInterrupt,
    keep_stopping,
    stop_at_once,
    stop_on_signals,
)
from regard.training.loop import EvalResult, FitResult, Hooks, fit
from regard.training.parallel.rank_batches import RankLoader
from regard.training.parallel.ranks import ONE_RANK, OneRank
from regard.training.parallel.training_model import TrainingModel, begin_training

LIMITED = (
    "this process may address {gigabytes:,.1f} GB (ulimit -v): where memory runs short, matrix "
    "products are silently computed in another order, and last bits may differ"
)
"Measured with MKL: with room for the result but not for its own buffers it takes another path."


def run_experiment(
    recipe: Recipe,
    folder: Path,
    *,
    resume: bool = False,
    audit_again: bool = False,
    observer: Observer = SILENT,
    ranks: OneRank = ONE_RANK,
) -> Run:
    """Run a recipe into `folder`; with `resume`, continue what is there. `audit_again`: also where
    the same architecture was audited for an earlier run. Of several `ranks` all call this: rank 0
    reads and writes the folder, audits and evaluates, and the others know what it decides."""
    if not ranks.is_first:
        observer = SILENT
    ranks.check_same(lambda: recipe_facts(recipe))
    with lock_run(folder, "training") if ranks.is_first else nullcontext():

        def resumes() -> bool:
            if resume:
                return True
            if ranks.has_begun() and folder.exists():
                observer.on_event(RemarkEvent(text=f"run: torchrun started {folder} again"))
                return True
            check_new_folder(folder)  # before the work, not after it
            return False

        return _run_locked(
            recipe,
            folder,
            resume=ranks.first_decides("resume", resumes),
            audit_again=audit_again,
            observer=observer,
            ranks=ranks,
        )


def _run_locked(
    recipe: Recipe,
    folder: Path,
    *,
    resume: bool,
    audit_again: bool,
    observer: Observer,
    ranks: OneRank,
) -> Run:
    def run_first(first: Recipe, first_folder: Path) -> Run:
        return run_experiment(
            first,
            first_folder,
            resume=True,
            audit_again=audit_again,
            observer=observer,
            ranks=ranks,
        )

    initial_model = find_initial_model(recipe, runs=folder.parent, run_recipe=run_first)
    resolved = inherit_settings(recipe, initial_model)

    def reopen() -> bool | None:
        """Whether the run is finished; None where there is none."""
        return reopen_run(folder, resolved).is_finished if resume and folder.exists() else None

    run, is_finished = Run(folder), ranks.first_decides("run", reopen)
    if is_finished:
        observer.on_event(RemarkEvent(text=f"{folder} is finished: nothing to do"))
        return run
    ranks.check_same(lambda: file_facts(resolved))
    with ranks.first_before_others("data"):  # who find in the cache what rank 0 has made
        experiment = build_experiment(
            recipe, initial_model=initial_model, observer=observer, ranks=ranks
        )
    ranks.check_same(lambda: experiment_facts(experiment))
    audit: AuditRecord | None = None

    def audit_and_prepare() -> None:
        nonlocal audit
        audit = read_audit(run.audit_file) if is_finished is not None else None
        if audit is None:
            observer.on_progress("auditing", 0, None)
            audit = audit_or_reuse(experiment, again=audit_again)
        experiment.prepare_evaluation(observer)
        if is_finished is None:
            create_run(folder, resolved)  # only now: a recipe that fails leaves no folder
        write_audit(run.audit_file, audit)

    ranks.first_decides("audit", audit_and_prepare)
    ranks.note_begun()
    state, trained = _restore(experiment, run, observer.on_event, ranks)
    if resume and ranks.is_first:
        write_paths(run, resolved)
    with _events(run, experiment, state, observer, ranks) as on_event:
        if state.step == 0 and audit is not None:
            on_event(AuditEvent(audit=audit.without_leaks()))
        on_event(start_event(experiment, state))
        if (limit := address_limit()) is not None:
            on_event(RemarkEvent(step=state.step, text=LIMITED.format(gigabytes=limit / 2**30)))
        fit_result = _train(experiment, run, trained, state, on_event=on_event, ranks=ranks)
        trained.complete()

        def finish_run() -> None:
            try:
                finish(experiment, run, fit_result, replace(observer, on_event=on_event))
            except DivergenceError as problem:  # the last update made the loss infinite
                on_event(DivergenceEvent(step=fit_result.state.step, text=problem.what))
                raise

        ranks.first_decides("results", finish_run)
    return run


def _train(
    experiment: Experiment,
    run: Run,
    trained: TrainingModel,
    state: TrainingState,
    *,
    on_event: OnEvent,
    ranks: OneRank,
) -> FitResult:
    """The training itself; an interrupt if a signal stopped it, on whichever rank."""
    loader = experiment.loader
    with stop_on_signals(stop_at_once if ranks.size == 1 else keep_stopping) as request:
        sync = trained.sync(lambda: request.number)
        hooks = _hooks(experiment, run, trained, on_event, lambda: sync.stop > 0, ranks)
        # Only now: audits run eagerly.
        with compiled_training(experiment.model, experiment.recipe.train):
            fit_result = fit(
                trained.module,
                trained.optimizer,
                loader if ranks.size == 1 else RankLoader(loader, rank=ranks.rank, size=ranks.size),
                experiment.recipe.train,
                state=state,
                machine=experiment.machine,
                hooks=hooks,
                sync=sync,
            )
        number = sync.agree_on_stop()
    if number:
        raise TrainingInterrupt(f"saved at step {fit_result.state.step:,}", number)
    return fit_result


def _restore(
    experiment: Experiment, run: Run, on_event: OnEvent, ranks: OneRank
) -> tuple[TrainingState, TrainingModel]:
    """Training state, model and optimizer of the latest intact checkpoint, or those of step 0."""

    def choose_checkpoint() -> str | None:
        checkpoint, damaged = latest_intact_checkpoint(run.checkpoints)
        for damage in damaged:
            on_event(RemarkEvent(text=f"run: {damage}; skipped"))
        if damaged and checkpoint is None:
            raise UserError(
                f"no checkpoint of {run.folder} is intact ({damaged[0]})",
                topic="run",
                hint="Start again with --out ANOTHER_FOLDER; this one was left as it is.",
            )
        return None if checkpoint is None else checkpoint.name

    train, machine = experiment.recipe.train, experiment.machine
    name = ranks.first_decides("checkpoint", choose_checkpoint)
    if name is None:
        return _initial_state(experiment), begin_training(
            experiment.model, train, machine=machine, ranks=ranks
        )
    checkpoint = run.checkpoints / name
    state = load_state(checkpoint)
    load_weights(experiment.model, checkpoint / WEIGHTS_FILE)
    trained = begin_training(experiment.model, train, machine=machine, ranks=ranks)
    trained.load_moments(checkpoint)
    check_same_tokenizer(state.tokenizer, experiment.prepared.tokenizer, owner=f"run {run.folder}")
    if state.source != experiment.prepared.source:
        raise UserError(
            f"the text of {run.folder} has changed since it began, so it cannot be resumed",
            topic="run",
            hint="Put the old text back, or start again with --out ANOTHER_FOLDER.",
        )
    # The number of threads decides how sums are split, and so the last bits: keep it on resume.
    experiment.machine = choose_rank_machine(
        train.model_copy(update={"precision": machine.precision}),
        ranks,
        threads=int(state.machine["threads"]),
    )
    for key, before in state.machine.items():
        now = experiment.machine.as_dict()[key]
        if now != before:
            text = f"{key} was {before} when this run began and is {now} now: bits may differ"
            on_event(RemarkEvent(text=text))
    return state, trained


def _initial_state(experiment: Experiment) -> TrainingState:
    return TrainingState(
        source=experiment.prepared.source,
        tokenizer=experiment.prepared.tokenizer.fingerprint,
        machine=experiment.machine.as_dict(),
    )


@contextmanager
def _events(
    run: Run, experiment: Experiment, state: TrainingState, observer: Observer, ranks: OneRank
) -> Iterator[OnEvent]:
    """The log of the run, which rank 0 writes."""
    if not ranks.is_first:
        yield ignore_event
        return
    with event_log(run, experiment, state, observer) as on_event:
        yield on_event


def _hooks(
    experiment: Experiment,
    run: Run,
    trained: TrainingModel,
    on_event: OnEvent,
    stop_requested: Callable[[], bool],
    ranks: OneRank,
) -> Hooks:
    """What the loop calls, on every rank; rank 0 does what is not training."""
    settings, prepared = experiment.recipe.train, experiment.prepared

    def evaluate() -> EvalResult:
        trained.complete()

        def evaluate_dev() -> object:
            device = experiment.machine.device
            documents = settings.evaluate_documents
            result = prepared.evaluate_dev(experiment.model, device=device, documents=documents)
            return record_table(result)

        return restore_record(EvalResult, ranks.first_decides("evaluation", evaluate_dev))

    def samples() -> list[str]:
        trained.complete()
        texts: list[str] = ranks.first_decides("samples", experiment.samples)
        return texts

    def save(state: TrainingState) -> None:
        if ranks.is_first:
            sync_file(run.events_file)  # resuming from this checkpoint repeats none of them
        trained.save(run.checkpoints, state, tokenizer=prepared.tokenizer, config=experiment.config)
        best = state.best_step if settings.patience else 0
        if ranks.is_first:
            prune_checkpoints(
                run.checkpoints,
                latest_step=state.step,
                keep=settings.keep_checkpoints,
                best_step=best,
            )

    return Hooks(
        on_event=on_event,
        evaluate=evaluate,
        samples=samples,
        save=save,
        stop_requested=stop_requested,
    )
