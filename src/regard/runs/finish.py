"""The end of a run: final weights, figures beside baselines, samples, cost."""

from __future__ import annotations

from datetime import UTC, datetime

from regard.core.files import folder_with_manifest, write_json, write_text
from regard.core.peak_memory import peak_memory_bytes
from regard.runs.experiment import Experiment
from regard.runs.items import write_items
from regard.runs.models.adapter_files import save_adapter
from regard.runs.models.base_model import weights_fingerprint
from regard.runs.models.init_from import identity_of
from regard.runs.observer import Observer
from regard.runs.run import FIGURES_SCHEMA, Run, check_whole
from regard.runs.training_audit import recorded_audit, summary_of
from regard.training.checkpoint import WEIGHTS_FILE, TrainingState, load_weights, save_model
from regard.training.loop import FitResult


def finish(bench: Experiment, run: Run, ended: FitResult, watch: Observer) -> None:
    """The final weights, the figures and the samples; figures.json last, it means finished."""
    recipe, state = bench.recipe, ended.state
    remarks = list(bench.start.remarks) if bench.start else []
    if recipe.train.patience and 0 < state.best_step < state.step:
        best = run.checkpoints / f"step-{state.best_step:06d}"
        load_weights(bench.model, check_whole(best) / WEIGHTS_FILE)
        remarks.append(
            f"dev was best at step {state.best_step:,}; its weights were kept"
            + (f" and training stopped early at {state.step:,}" if ended.reason == "early" else "")
            + ". Dev chose them, so judge by test."
        )
    bench.model.eval()
    remarks += bench.prepared.tune(bench.model, device=bench.machine.device)
    with folder_with_manifest(run.final) as inside:
        if recipe.adapt.saves_adapter_only:
            remarks += save_adapter(inside, bench)
        else:
            save_model(inside, bench.model, bench.prepared.tokenizer, bench.config())
    measured = bench.prepared.measure(bench.model, device=bench.machine.device, watch=watch)
    write_items(run.folder, measured.items)
    written = bench.prepared.samples(bench.model)
    watch.on_progress("judging samples", 0, None)
    health = bench.prepared.health(bench.model, measured)
    write_text(run.samples_file, "\n\n".join(f"» {s['prompt']}⟩{s['text']}" for s in written))
    watch.on_event({"event": "finish", "step": state.step, "seconds": state.seconds})
    tokenizer = bench.prepared.tokenizer
    write_json(
        run.figures_file,
        {
            "schema": FIGURES_SCHEMA,
            "run": recipe.name,
            "finished": now(),
            "identity": identity_of(recipe, source=bench.prepared.source, start=bench.start),
            "weights": weights_fingerprint(run.final),
            "figures": measured.figures,
            "comparisons": measured.comparisons,
            "tables": measured.tables,
            "measure": measured.measure,
            "items": measured.fingerprints,
            "order": bench.stream.order_fingerprint(),
            "audit": summary_of(recorded_audit(run) or {}),
            "remarks": measured.remarks + remarks,
            "corpus": bench.prepared.statistics,
            "tokenizer": {
                "name": tokenizer.name,
                "size": tokenizer.size,
                "fingerprint": tokenizer.fingerprint,
            },
            "cost": _cost(bench, state),
            "ledger": bench.ledger().as_dict(),
            "samples": written,
            "health": health,
            "environment": bench.machine.as_dict(),
        },
    )


def _cost(bench: Experiment, state: TrainingState) -> dict[str, float | None]:
    return {
        "seconds": state.seconds,
        "waiting_share": state.data_wait_seconds / max(state.seconds, 1e-9),
        "steps": state.step,
        "tokens": state.tokens,
        "tokens_per_second": state.tokens / max(state.seconds, 1e-9),
        "peak_memory_bytes": peak_memory_bytes(),
        "parameters": sum(p.numel() for p in bench.model.parameters()),
        "padding_waste": bench.stream.padding_waste(),
    }


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
