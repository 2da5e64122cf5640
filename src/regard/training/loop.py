"""The training loop: updates, evaluation on dev, early stopping, checkpoints, events.

One update with gradient accumulation: each micro-batch's loss terms are divided by the weight of
the whole batch before the backward pass, so accumulation equals the full batch. All randomness of
step s is a function of (seed, s), so a resumed run draws the same. A non-finite loss or gradient
norm stops training, and its update is skipped.

A GPU is read once a step, after the whole step has been queued. So it skips the update itself, by
`found_inf` of the fused optimizer, and the host says so afterwards.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from regard.core.errors import DivergenceError
from regard.models.init_weights import named_generator
from regard.training.batch_loader import Cursor
from regard.training.checkpoint import TrainingState
from regard.training.device import Machine
from regard.training.events import (
    CheckpointEvent,
    DivergenceEvent,
    EvaluationEvent,
    OnEvent,
    RemarkEvent,
    SamplesEvent,
    StepEvent,
)
from regard.training.parallel.gradient_sync import ONE_PROCESS, GradientSync, StepBatch
from regard.training.prefetch import Prefetcher
from regard.training.schedule import learning_rate
from regard.training.settings import Train

MAX_STEPS_PER_EVENT = 20
"A step event holds the mean loss over the steps since the last one."
SKIPPING_DEVICES = ("cuda", "meta")
"""Where the fused optimizer heeds `found_inf`. Apple's GPUs ignored it in torch's earlier versions;
the CPU is read before the update, and would only lose time by it."""
NO_WARNING_FRACTION = 0.1
"Fraction of the steps before the first warning about collapsed predictions."


class Batches(Protocol):
    """What the loop asks of a loader: that of one process, or of a rank."""

    @property
    def steps(self) -> int: ...

    def batches_after(self, cursor: Cursor) -> Iterator[tuple[StepBatch, Cursor]]: ...


@dataclass(frozen=True)
class EvalResult:
    """Result of an evaluation on dev during training."""

    loss: float
    "Mean over all scored tokens or rows."
    n: int
    "Number of items."
    scores: Mapping[str, float]
    "By metric, for display: perplexity, accuracy."
    items: str = "documents"
    "What n counts."
    warning: str = ""
    "What is wrong with the predictions as a whole and what to try; empty where nothing is."


@dataclass(frozen=True)
class Hooks:
    """Callbacks of the loop."""

    on_event: OnEvent
    evaluate: Callable[[], EvalResult]
    "On a sample of dev."
    samples: Callable[[], list[str]]
    save: Callable[[TrainingState], None]
    stop_requested: Callable[[], bool]
    "Whether a signal, such as Ctrl-C, has requested it."


@dataclass(frozen=True)
class FitResult:
    """Final state of a training, and why it ended."""

    state: TrainingState
    reason: str
    "finished, early (early stopping) or interrupted (by a signal)"


@dataclass
class WarningState:
    """Warnings of evaluations: reported when they begin and when they end, not in between."""

    after_step: int
    "No warnings up to this step: early predictions may well be constant."
    is_active: bool = False

    def update(self, step: int, result: EvalResult, on_event: OnEvent) -> None:
        if step <= self.after_step or bool(result.warning) == self.is_active:
            return
        self.is_active = bool(result.warning)
        text = result.warning or "dev: more than one class is answered again"
        on_event(RemarkEvent(step=step, text=f"step {step:,}: {text}"))


def fit(
    model: nn.Module,
    optimizer: Optimizer,
    loader: Batches,
    settings: Train,
    *,
    state: TrainingState,
    machine: Machine,
    hooks: Hooks,
    sync: GradientSync = ONE_PROCESS,
) -> FitResult:
    """Train from `state` to the last step, to early stopping, or until a signal stops it. Of ranks
    that train together all call this, and do the same."""
    steps = loader.steps
    began = time.perf_counter() - state.seconds
    wait_before = state.data_wait_seconds
    window_loss = window_weight = 0.0  # since the last step event
    warnings = WarningState(
        after_step=round(max(settings.warmup_ratio, NO_WARNING_FRACTION) * steps)
    )
    # In steps, not seconds: the loss curve has the same points on a slow machine.
    log_every = max(1, min(MAX_STEPS_PER_EVENT, steps // 200))
    model.train()
    if _out_of_patience(state, settings):  # stopped early, then killed before the final results
        return FitResult(state, "early")
    with Prefetcher(loader.batches_after(state.cursor)) as batches:
        while state.step < steps:
            batch, cursor = next(batches)
            step = state.step + 1
            lr = learning_rate(step, steps=steps, settings=settings)
            try:
                loss, gradient_norm = update(
                    model,
                    optimizer,
                    batch,
                    step=step,
                    lr=lr,
                    settings=settings,
                    machine=machine,
                    sync=sync,
                )
            except DivergenceError as problem:
                hooks.on_event(DivergenceEvent(step=step, text=problem.what))
                raise
            weight, tokens = sync.totals(batch)
            window_loss += loss * weight
            window_weight += weight
            state = replace(
                state,
                step=step,
                cursor=cursor,
                tokens=state.tokens + tokens,
                seconds=time.perf_counter() - began,
                data_wait_seconds=wait_before + batches.wait_seconds,
            )
            evaluates = _is_due(step, settings.evaluate_every)
            if evaluates or step == steps or step % log_every == 0:
                hooks.on_event(
                    StepEvent(
                        **_progress(state),
                        loss=window_loss / max(window_weight, 1e-9),
                        lr=lr,
                        gradient_norm=gradient_norm,
                    )
                )
                window_loss = window_weight = 0.0
            if evaluates:
                state = _evaluate(model, state, hooks, warnings)
            if _is_due(step, settings.sample_every) or (evaluates and not settings.sample_every):
                model.eval()
                if texts := hooks.samples():
                    hooks.on_event(SamplesEvent(step=step, texts=tuple(texts)))
                model.train()
            stops_early = _out_of_patience(state, settings)
            stop_requested = hooks.stop_requested()
            is_best = bool(settings.patience) and state.best_step == step
            saves = step == steps or _is_due(step, settings.checkpoint_every)
            if stops_early or stop_requested or is_best or saves:
                hooks.save(state)
                hooks.on_event(CheckpointEvent(step=step))
            if stops_early or (stop_requested and step < steps):
                return FitResult(state, "early" if stops_early else "interrupted")
    return FitResult(state, "finished")


def update(
    model: nn.Module,
    optimizer: Optimizer,
    batch: StepBatch,
    *,
    step: int,
    lr: float,
    settings: Train,
    machine: Machine,
    sync: GradientSync = ONE_PROCESS,
) -> tuple[float, float]:
    """One optimizer step; returns the batch's loss and the gradient norm before clipping."""
    measured = queue_update(
        model, optimizer, batch, step=step, lr=lr, settings=settings, machine=machine, sync=sync
    )
    loss, gradient_norm = measured.tolist()  # the one wait of a step
    _check_finite(loss, gradient_norm, batch, step=step, lr=lr)
    return loss, gradient_norm


def queue_update(
    model: nn.Module,
    optimizer: Optimizer,
    batch: StepBatch,
    *,
    step: int,
    lr: float,
    settings: Train,
    machine: Machine,
    sync: GradientSync = ONE_PROCESS,
) -> Tensor:
    """One optimizer step, for which an accelerator is never waited for: loss and gradient norm, (2)
    on the device. If one of them is not finite, the weights stay as they are."""
    seed = named_generator(settings.seed, sync.draws(step)).initial_seed()
    # On a CPU the generator itself: `torch.manual_seed` also records its call site for unused
    # devices, which is 100× slower.
    (torch.default_generator if machine.device == "cpu" else torch).manual_seed(seed)
    weight = sync.begin(batch)
    total = torch.zeros((), device=machine.device)
    optimizer.zero_grad(set_to_none=True)
    for micro_batch in batch.micro_batches(settings.accumulate):
        with machine.autocast():
            terms = model(micro_batch.to(machine.device))
        divisor = sync.divisor(micro_batch, weight)
        loss = sum((term.sum / divisor for term in terms.values()), torch.zeros_like(total))
        loss.backward()
        total += loss.detach()
    # Those of the optimizer are all that are trained; a walk through the modules takes longer than
    # their norm.
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    sync.finish(parameters, total)
    norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
    norm = sync.norm(norm)
    clips = settings.max_grad_norm > 0
    if norm.device.type in SKIPPING_DEVICES:
        optimizer.found_inf = (~(total + norm).isfinite()).float()  # type: ignore[attr-defined]
    else:
        _check_finite(float(total), float(norm), batch, step=step, lr=lr)
        clips = clips and float(norm) > settings.max_grad_norm  # times 1 changes no bit
    if clips:
        torch.nn.utils.clip_grads_with_norm_(parameters, settings.max_grad_norm, norm)
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.step()
    return torch.stack((total, norm))


def _evaluate(
    model: nn.Module, state: TrainingState, hooks: Hooks, warnings: WarningState
) -> TrainingState:
    model.eval()
    result = hooks.evaluate()
    model.train()
    hooks.on_event(
        EvaluationEvent(
            **_progress(state),
            loss=result.loss,
            scores=dict(result.scores),
            n=result.n,
            items=result.items,
        )
    )
    warnings.update(state.step, result, hooks.on_event)
    if state.best_loss is None or result.loss < state.best_loss:
        return replace(state, best_loss=result.loss, best_step=state.step, evaluations_since_best=0)
    return replace(state, evaluations_since_best=state.evaluations_since_best + 1)


def _out_of_patience(state: TrainingState, settings: Train) -> bool:
    return bool(settings.patience) and state.evaluations_since_best >= settings.patience


def _check_finite(
    loss: float, gradient_norm: float, batch: StepBatch, *, step: int, lr: float
) -> None:
    if not (math.isfinite(loss) and math.isfinite(gradient_norm)):
        rows = ", ".join(str(row) for row in batch.rows[:4])
        raise DivergenceError(
            f"the loss is not finite at step {step} (batch of {len(batch.rows)} rows: {rows} …, "
            f"lr {lr:.2g}); the weights were not updated",
            topic="train",
            hint="Lower train.lr, raise train.warmup_ratio or set train.max_grad_norm; earlier "
            "checkpoints are intact.",
        )


def _progress(state: TrainingState) -> dict[str, Any]:
    return {"step": state.step, "tokens": state.tokens, "seconds": round(state.seconds, 3)}


def _is_due(step: int, every: int) -> bool:
    return bool(every) and step % every == 0
