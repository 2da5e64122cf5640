"""A complete experiment: prepare, audit, train, evaluate, and write the run folder.

Every stage leaves the folder in a state that `resume` can continue: before the first checkpoint
training starts again, after the last step only the evaluation is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from torch.optim import Optimizer

from regard.core.errors import DivergenceError, UserError
from regard.core.files import sync_file
from regard.core.process.address_limit import address_limit
from regard.core.seal import break_seal
from regard.data.tokenizers.tokenizer import check_same_tokenizer
from regard.runs.audit_cache.audit_reuse import audit_or_reuse
from regard.runs.experiment import Experiment, build_experiment, training_plan
from regard.runs.finish import finish, now
from regard.runs.locking.lock import lock_run
from regard.runs.models.init_from import find_initial_model, inherit_settings
from regard.runs.observer import SILENT, Observer
from regard.runs.recipe import Recipe
from regard.runs.results import AuditEvent, read_audit, write_audit
from regard.runs.run import Run, check_new_folder, create_run, reopen_run, write_paths
from regard.training.checkpoint import (
    TrainingState,
    latest_intact_checkpoint,
    load_checkpoint,
    prune_checkpoints,
    save_checkpoint,
)
from regard.training.compiled import compiled_training
from regard.training.device import choose_machine
from regard.training.events import (
    DivergenceEvent,
    Event,
    EventLog,
    OnEvent,
    RemarkEvent,
    ResumeEvent,
    StartEvent,
)
from regard.training.forecast import StepForecast
from regard.training.interrupt import TrainingInterrupt, stop_on_signals
from regard.training.loop import EvalResult, Hooks, fit
from regard.training.optimizer import build_optimizer

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
) -> Run:
    """Run a recipe into `folder`; with `resume`, continue what is there. `audit_again`: also where
    the same architecture was audited for an earlier run."""
    with lock_run(folder, "training"):
        if not resume:
            check_new_folder(folder)  # before the work, not after it
        return _run_locked(
            recipe, folder, resume=resume, audit_again=audit_again, observer=observer
        )


def _run_locked(
    recipe: Recipe, folder: Path, *, resume: bool, audit_again: bool, observer: Observer
) -> Run:
    def run_first(first: Recipe, first_folder: Path) -> Run:
        return run_experiment(
            first, first_folder, resume=True, audit_again=audit_again, observer=observer
        )

    initial_model = find_initial_model(recipe, runs=folder.parent, run_recipe=run_first)
    resolved = inherit_settings(recipe, initial_model)
    run = reopen_run(folder, resolved) if resume and folder.exists() else None
    if run is not None and run.is_finished:
        observer.on_event(RemarkEvent(text=f"{folder} is finished: nothing to do"))
        return run
    experiment = build_experiment(recipe, initial_model=initial_model, observer=observer)
    audit = read_audit(run.audit_file) if run is not None else None
    if audit is None:
        observer.on_progress("auditing", 0, None)
        audit = audit_or_reuse(experiment, again=audit_again)
    run = run or create_run(folder, resolved)  # only now: a recipe that fails leaves no folder
    write_audit(run.audit_file, audit)
    state, optimizer = _restore(experiment, run, observer.on_event)
    if resume:
        write_paths(run, resolved)
    with _event_log(run, experiment, state, observer) as on_event:
        if state.step == 0:
            on_event(AuditEvent(audit=audit.without_leaks()))
        on_event(_start_event(experiment, state))
        if (limit := address_limit()) is not None:
            on_event(RemarkEvent(step=state.step, text=LIMITED.format(gigabytes=limit / 2**30)))
        with stop_on_signals() as stop_requested:
            hooks = _hooks(experiment, run, optimizer, on_event, stop_requested)
            # Only now: audits run eagerly.
            with compiled_training(experiment.model, experiment.recipe.train):
                fit_result = fit(
                    experiment.model,
                    optimizer,
                    experiment.loader,
                    experiment.recipe.train,
                    state=state,
                    machine=experiment.machine,
                    hooks=hooks,
                )
        if stop_requested():
            saved = f"saved at step {fit_result.state.step:,}"
            raise TrainingInterrupt(saved, stop_requested.number)
        try:
            finish(experiment, run, fit_result, replace(observer, on_event=on_event))
        except DivergenceError as problem:  # the last update made the loss infinite
            on_event(DivergenceEvent(step=fit_result.state.step, text=problem.what))
            raise
    return run


def _restore(
    experiment: Experiment, run: Run, on_event: OnEvent
) -> tuple[TrainingState, Optimizer]:
    """Training state and optimizer of the latest intact checkpoint, or those of step 0."""
    optimizer = build_optimizer(experiment.model, experiment.recipe.train)
    checkpoint, damaged = latest_intact_checkpoint(run.checkpoints)
    for damage in damaged:
        on_event(RemarkEvent(text=f"run: {damage}; skipped"))
    if checkpoint is None:
        if damaged:
            raise UserError(
                f"no checkpoint of {run.folder} is intact ({damaged[0]})",
                topic="run",
                hint="Start again with --out ANOTHER_FOLDER; this one was left as it is.",
            )
        return _initial_state(experiment), optimizer
    state = load_checkpoint(checkpoint, experiment.model, optimizer)
    check_same_tokenizer(state.tokenizer, experiment.prepared.tokenizer, owner=f"run {run.folder}")
    if state.source != experiment.prepared.source:
        raise UserError(
            f"the text of {run.folder} has changed since it began, so it cannot be resumed",
            topic="run",
            hint="Put the old text back, or start again with --out ANOTHER_FOLDER.",
        )
    # The number of threads decides how sums are split, and so the last bits: keep it on resume.
    threads = int(state.machine["threads"])
    experiment.machine = choose_machine(
        experiment.machine.device, threads=threads, precision=experiment.machine.precision
    )
    for key, before in state.machine.items():
        now = experiment.machine.as_dict()[key]
        if now != before:
            text = f"{key} was {before} when this run began and is {now} now: bits may differ"
            on_event(RemarkEvent(text=text))
    return state, optimizer


def _initial_state(experiment: Experiment) -> TrainingState:
    return TrainingState(
        source=experiment.prepared.source,
        tokenizer=experiment.prepared.tokenizer.fingerprint,
        machine=experiment.machine.as_dict(),
    )


@contextmanager
def _event_log(
    run: Run, experiment: Experiment, state: TrainingState, observer: Observer
) -> Iterator[OnEvent]:
    """Sends events to events.jsonl, to the observer, and to TensorBoard if the recipe wants it."""
    # Of a finished run that lost its results or its model; both are made again.
    run.results_file.unlink(missing_ok=True)
    break_seal(run.folder)
    with ExitStack() as stack:
        log = EventLog(run.events_file, after_step=state.step)
        stack.callback(log.close)
        listeners: list[OnEvent] = [log, observer.on_event]
        if experiment.recipe.train.tensorboard:
            from regard.training.tensorboard import TensorBoardLog

            board = TensorBoardLog(run.folder / "tensorboard", after_step=state.step)
            stack.callback(board.close)
            listeners.append(board)

        forecast = StepForecast(training_plan(experiment))

        def on_event(event: Event) -> None:
            for listener in listeners:
                listener(event)
            if (forecast_event := forecast.update(event)) is not None:
                on_event(forecast_event)

        if log.damaged_lines:
            dropped = f"{run.events_file}: damaged lines were dropped ({log.damaged_lines})"
            on_event(RemarkEvent(step=state.step, text=dropped))
        yield on_event


def _start_event(experiment: Experiment, state: TrainingState) -> Event:
    steps = experiment.loader.steps
    if state.step:
        return ResumeEvent(time=now(), step=state.step, steps=steps)
    parameters = sum(p.numel() for p in experiment.model.parameters())
    return StartEvent(time=now(), steps=steps, parameters=parameters)


def _hooks(
    experiment: Experiment,
    run: Run,
    optimizer: Optimizer,
    on_event: OnEvent,
    stop_requested: Callable[[], bool],
) -> Hooks:
    settings, tokenizer = experiment.recipe.train, experiment.prepared.tokenizer

    def evaluate() -> EvalResult:
        return experiment.prepared.evaluate_dev(experiment.model, device=experiment.machine.device)

    def save(state: TrainingState) -> None:
        sync_file(run.events_file)  # resuming from this checkpoint repeats none of them
        save_checkpoint(
            run.checkpoints,
            experiment.model,
            optimizer,
            state,
            tokenizer=tokenizer,
            config=experiment.config(),
        )
        best = state.best_step if settings.patience else 0
        prune_checkpoints(
            run.checkpoints,
            latest_step=state.step,
            keep=settings.keep_checkpoints,
            best_step=best,
        )

    return Hooks(
        on_event=on_event,
        evaluate=evaluate,
        samples=experiment.samples,
        save=save,
        stop_requested=stop_requested,
    )
