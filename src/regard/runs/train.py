"""A whole experiment: prepare, train, measure, and write the run folder.

Every stage leaves the folder in a state from which `resume` goes on: before the first checkpoint
it begins again, after the last it only measures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch.optim import Optimizer

from regard.core.errors import UserError
from regard.data.tokenizers.tokenizer import check_same_tokenizer
from regard.runs.experiment import Experiment, build_experiment, forecast_experiment
from regard.runs.finish import finish, now
from regard.runs.lock import lock_run
from regard.runs.models.init_from import find_initial_model, inherit_settings
from regard.runs.observer import SILENT, Observer
from regard.runs.recipe import Recipe
from regard.runs.run import Run, create_run, refuse_existing, reopen_run
from regard.runs.training_audit import (
    audit_before_training,
    record_audit,
    recorded_audit,
    summary_of,
)
from regard.training.checkpoint import (
    TrainingState,
    latest_intact_checkpoint,
    load_checkpoint,
    prune_checkpoints,
    save_checkpoint,
)
from regard.training.device import choose_machine
from regard.training.events import EventLog, OnEvent
from regard.training.interrupt import TrainingInterrupt, stop_on_ctrl_c
from regard.training.loop import Hooks, fit
from regard.training.optimizer import build_optimizer


def run_experiment(
    recipe: Recipe, folder: Path, *, resume: bool = False, watch: Observer = SILENT
) -> Run:
    """Run a recipe into `folder`; with `resume`, go on with what is there."""
    if not resume:
        refuse_existing(folder)  # before the work, not after it
    with lock_run(folder):
        return _run_locked(recipe, folder, resume=resume, watch=watch)


def _run_locked(recipe: Recipe, folder: Path, *, resume: bool, watch: Observer) -> Run:
    def run_first(first: Recipe, first_folder: Path) -> Run:
        return run_experiment(first, first_folder, resume=True, watch=watch)

    start = find_initial_model(recipe, runs=folder.parent, run_recipe=run_first)
    resolved = inherit_settings(recipe, start)
    run = reopen_run(folder, resolved) if resume and folder.exists() else None
    if run is not None and run.is_finished:
        watch.on_event({"event": "remark", "text": f"{folder} is finished: nothing to do"})
        return run
    bench = build_experiment(recipe, start=start, watch=watch)
    seen = recorded_audit(run) if run is not None else None
    if seen is None:
        watch.on_progress("auditing", 0, None)
        seen = audit_before_training(bench.model, bench.recipe.model, bench.stream)
    foreseen = forecast_experiment(bench) if run is None else None  # by a few steps of a copy
    run = run or create_run(folder, resolved)  # not before: what cannot be used leaves none
    record_audit(run, seen)
    state, optimizer = _restore(bench, run, watch.on_event)
    with _event_log(run, bench, state, watch) as on_event:
        if state.step == 0:
            on_event({"event": "audit", **summary_of(seen)})
            on_event({"event": "forecast", **(foreseen or forecast_experiment(bench)).as_dict()})
        on_event(_opening(bench, state))
        with stop_on_ctrl_c() as stop_requested:
            hooks = _hooks(bench, run, optimizer, on_event, stop_requested)
            ended = fit(
                bench.model,
                optimizer,
                bench.stream,
                bench.recipe.train,
                state=state,
                machine=bench.machine,
                hooks=hooks,
            )
            asked = ended.reason == "interrupted" or stop_requested()
        if asked:
            raise TrainingInterrupt(f"saved at step {ended.state.step:,}")
        finish(bench, run, ended, replace(watch, on_event=on_event))
    return run


def _restore(bench: Experiment, run: Run, on_event: OnEvent) -> tuple[TrainingState, Optimizer]:
    """The state of the newest whole checkpoint, or of the very beginning."""
    optimizer = build_optimizer(bench.model, bench.recipe.train)
    newest, damaged = latest_intact_checkpoint(run.checkpoints)
    for complaint in damaged:
        on_event({"event": "remark", "text": f"run: {complaint}; passed over"})
    if newest is None:
        if damaged:
            raise UserError(
                f"no checkpoint of {run.folder} is whole ({damaged[0]})",
                topic="run",
                hint="Begin anew with --out ANOTHER_FOLDER; this one was left as it is.",
            )
        return _first_state(bench), optimizer
    state = load_checkpoint(newest, bench.model, optimizer)
    check_same_tokenizer(state.tokenizer, bench.prepared.tokenizer, owner=f"run {run.folder}")
    if state.source != bench.prepared.source:
        raise UserError(
            f"the text of {run.folder} has changed since it began, so it cannot go on with it",
            topic="run",
            hint="Put the old text back, or begin anew with --out ANOTHER_FOLDER.",
        )
    # Threads decide how sums are split and so the last bits: a resumed run keeps those it had.
    bench.machine = choose_machine(bench.machine.device, threads=int(state.machine["threads"]))
    for key, then in state.machine.items():
        now = bench.machine.as_dict()[key]
        if now != then:
            text = f"{key} was {then} when this run began and is {now} now: bits may differ"
            on_event({"event": "remark", "text": text})
    return state, optimizer


def _first_state(bench: Experiment) -> TrainingState:
    return TrainingState(
        source=bench.prepared.source,
        tokenizer=bench.prepared.tokenizer.fingerprint,
        machine=bench.machine.as_dict(),
    )


@contextmanager
def _event_log(
    run: Run, bench: Experiment, state: TrainingState, watch: Observer
) -> Iterator[OnEvent]:
    """Tells the folder, TensorBoard where asked for, and whoever watches."""
    with ExitStack() as stack:
        log = EventLog(run.events_file, after_step=state.step)
        stack.callback(log.close)
        listeners: list[OnEvent] = [log, watch.on_event]
        if bench.recipe.train.tensorboard:
            from regard.training.tensorboard import TensorBoardLog

            board = TensorBoardLog(run.folder / "tensorboard", after_step=state.step)
            stack.callback(board.close)
            listeners.append(board)

        def on_event(event: dict[str, Any]) -> None:
            for listener in listeners:
                listener(event)

        yield on_event


def _opening(bench: Experiment, state: TrainingState) -> dict[str, Any]:
    if state.step:
        steps = bench.stream.steps
        return {"event": "resume", "time": now(), "step": state.step, "steps": steps}
    return {
        "event": "start",
        "time": now(),
        "steps": bench.stream.steps,
        "parameters": sum(p.numel() for p in bench.model.parameters()),
    }


def _hooks(
    bench: Experiment,
    run: Run,
    optimizer: Optimizer,
    on_event: OnEvent,
    stop_requested: Callable[[], bool],
) -> Hooks:
    settings, tokenizer = bench.recipe.train, bench.prepared.tokenizer

    def save(state: TrainingState) -> None:
        save_checkpoint(
            run.checkpoints,
            bench.model,
            optimizer,
            state,
            tokenizer=tokenizer,
            config=bench.config(),
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
        evaluate=lambda: bench.prepared.look(bench.model, device=bench.machine.device),
        samples=bench.samples,
        save=save,
        stop_requested=stop_requested,
    )
