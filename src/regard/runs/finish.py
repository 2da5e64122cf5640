"""The end of a run: final weights, estimates with baselines, samples, cost."""

from __future__ import annotations

from datetime import UTC, datetime

from regard.core.files import folder_with_manifest, write_text
from regard.core.process.peak_memory import peak_memory_bytes
from regard.runs.archive.read_run import read_run
from regard.runs.experiment import Experiment
from regard.runs.items import write_items
from regard.runs.models.adapter_files import save_adapter
from regard.runs.models.base_model import weights_fingerprint
from regard.runs.models.init_from import run_identity
from regard.runs.observer import Observer
from regard.runs.results import (
    CostRecord,
    ResultsRecord,
    TokenizerRecord,
    read_audit,
    write_results,
)
from regard.runs.run import Run, check_intact
from regard.training.checkpoint import WEIGHTS_FILE, TrainingState, load_weights, save_model
from regard.training.events import FinishEvent
from regard.training.loop import FitResult


def finish(experiment: Experiment, run: Run, fit_result: FitResult, observer: Observer) -> None:
    """Final weights, evaluation and samples; results.json is written last and means finished."""
    recipe, prepared, model = experiment.recipe, experiment.prepared, experiment.model
    state, device = fit_result.state, experiment.machine.device
    remarks = list(experiment.initial_model.remarks) if experiment.initial_model else []
    remarks += experiment.remarks
    if recipe.train.patience and 0 < state.best_step < state.step:
        best = run.checkpoints / f"step-{state.best_step:06d}"
        load_weights(model, check_intact(best) / WEIGHTS_FILE)
        stopped_early = fit_result.reason == "early"
        remarks.append(
            f"dev was best at step {state.best_step:,}; its weights were kept"
            + (f" and training stopped early at {state.step:,}" if stopped_early else "")
            + ". Dev chose them, so judge by test."
        )
    if diverged := read_run(run.folder).events.diverged:
        remarks.append(f"DIVERGED: {diverged}; the scores are those of a failed training")
    model.eval()
    remarks += prepared.tune(model, device=device)
    with folder_with_manifest(run.final) as temporary:
        if recipe.adapt.saves_adapter_only:
            remarks += save_adapter(temporary, experiment)
        else:
            save_model(temporary, model, prepared.tokenizer, experiment.config())
    results = prepared.evaluate(model, device=device, observer=observer)
    write_items(run.folder, results.items)
    samples = prepared.samples(model)
    observer.on_progress("evaluating samples", 0, None)
    health = prepared.health(model, results)
    write_text(run.samples_file, "\n\n".join(f"» {s.prompt}⟩{s.text}" for s in samples))
    observer.on_event(FinishEvent(step=state.step, seconds=state.seconds))
    tokenizer, audit = prepared.tokenizer, read_audit(run.audit_file)
    write_results(
        run.results_file,
        ResultsRecord(
            run=recipe.name,
            finished=now(),
            identity=run_identity(
                recipe, source=prepared.source, initial_model=experiment.initial_model
            ),
            weights=weights_fingerprint(run.final),
            estimates=results.estimates,
            comparisons=results.comparisons,
            contamination=results.contamination,
            tables=results.tables,
            metric=results.metric,
            items=results.fingerprints,
            order=experiment.loader.order_fingerprint(),
            audit=audit.without_leaks() if audit is not None else None,
            remarks=(*results.remarks, *remarks),
            data_flaws=prepared.data_flaws,
            corpus=prepared.statistics,
            tokenizer=TokenizerRecord(
                name=tokenizer.name, size=tokenizer.size, fingerprint=tokenizer.fingerprint
            ),
            cost=_cost(experiment, state),
            ledger=experiment.ledger(),
            samples=samples,
            health=health,
            environment=experiment.machine.as_dict(),
        ),
    )


def _cost(experiment: Experiment, state: TrainingState) -> CostRecord:
    return CostRecord(
        seconds=state.seconds,
        data_wait_fraction=state.data_wait_seconds / max(state.seconds, 1e-9),
        steps=state.step,
        tokens=state.tokens,
        tokens_per_second=state.tokens / max(state.seconds, 1e-9),
        peak_memory_bytes=peak_memory_bytes(),
        parameters=sum(p.numel() for p in experiment.model.parameters()),
        padding_waste=experiment.loader.padding_waste(),
    )


def now() -> str:
    """To the millisecond: short trainings last seconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
