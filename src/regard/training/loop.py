"""The training loop: batches in, updates out, events told along the way.

One update: each micro-batch's loss terms are divided by the weight of the whole batch before the
backward pass, so accumulation equals the full batch. All randomness of step s is drawn from
(seed, s), so a run that resumes at s draws the same. A loss that is not finite stops the training
before it can touch the weights.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.optim import Optimizer

from regard.batch import Batch
from regard.core.errors import UserError
from regard.models.init_weights import named_generator
from regard.training.batch_loader import BatchLoader, Cursor
from regard.training.checkpoint import TrainingState
from regard.training.device import Machine
from regard.training.events import OnEvent
from regard.training.prefetch import Prefetcher
from regard.training.schedule import learning_rate
from regard.training.settings import Train

MOST_STEPS_TOLD_TOGETHER = 20
"A step event tells the mean over the steps since the last one."
EARLY = 0.1
"Share of the steps in which nothing is said yet of answers that tell nothing."


@dataclass(frozen=True)
class EvalResult:
    """What a look at dev shows."""

    loss: float
    "Mean over all that counts: tokens, or rows."
    n: int
    figures: Mapping[str, float]
    "By name, for people to watch: perplexity, accuracy."
    items: str = "documents"
    trouble: str = ""
    "What is wrong with the answers as a whole and what to try, in words; nothing where nothing is."


@dataclass(frozen=True)
class Hooks:
    """What the loop asks of the world around it."""

    on_event: OnEvent
    look: Callable[[], EvalResult]
    "At some of dev."
    samples: Callable[[], list[str]]
    save: Callable[[TrainingState], None]
    stop_asked: Callable[[], bool]
    "Whether the person has pressed Ctrl-C."


@dataclass(frozen=True)
class FitResult:
    """Where a training ended, and why."""

    state: TrainingState
    reason: str  # "finished", "early" or "asked"


@dataclass
class Trouble:
    """What looks at dev find wrong: told when it begins and when it ends, not in between."""

    after_step: int
    "Until then a model may well know nothing yet."
    told: bool = False

    def told_at(self, step: int, look: EvalResult, on_event: OnEvent) -> None:
        if step <= self.after_step or bool(look.trouble) == self.told:
            return
        self.told = bool(look.trouble)
        words = look.trouble or "dev: more than one class is answered again"
        on_event({"event": "remark", "step": step, "text": f"step {step:,}: {words}"})


@dataclass
class LossWindow:
    """Loss over the steps since the last event: a mean, never one batch's loss."""

    loss: float = 0.0
    weight: float = 0.0


def fit(
    model: nn.Module,
    optimizer: Optimizer,
    stream: BatchLoader,
    settings: Train,
    *,
    state: TrainingState,
    machine: Machine,
    hooks: Hooks,
) -> FitResult:
    """Train from `state` to the end of the plan, or until told to stop."""
    with Prefetcher(stream.after(state.cursor)) as batches:
        return _fit(
            model,
            optimizer,
            batches,
            settings,
            steps=stream.steps,
            state=state,
            machine=machine,
            hooks=hooks,
        )


def _fit(
    model: nn.Module,
    optimizer: Optimizer,
    batches: Prefetcher[tuple[Batch, Cursor]],
    settings: Train,
    *,
    steps: int,
    state: TrainingState,
    machine: Machine,
    hooks: Hooks,
) -> FitResult:
    began = time.perf_counter() - state.seconds
    waited_before = state.waited
    window = LossWindow()
    trouble = Trouble(after_step=round(max(settings.warmup, EARLY) * steps))
    # Counted in steps, not seconds: runs on a slow machine tell the same curve.
    told_every = max(1, min(MOST_STEPS_TOLD_TOGETHER, steps // 200))
    model.train()
    if _out_of_patience(state, settings):  # stopped early, then killed before it was measured
        return FitResult(state, "early")
    while state.step < steps:
        batch, cursor = next(batches)
        step = state.step + 1
        rate = learning_rate(step, steps=steps, settings=settings)
        loss, norm = update(
            model, optimizer, batch, step=step, lr=rate, settings=settings, machine=machine
        )
        weight = float(batch.weights.sum())
        window.loss += loss * weight
        window.weight += weight
        state = replace(
            state,
            step=step,
            cursor=cursor,
            tokens=state.tokens + batch.tokens,
            seconds=time.perf_counter() - began,
            waited=waited_before + batches.waited,
        )
        look = _due(step, settings.evaluate_every)
        if look or step == steps or step % told_every == 0:
            hooks.on_event(
                {
                    "event": "step",
                    **_progress(state),
                    "loss": window.loss / max(window.weight, 1e-9),
                    "lr": rate,
                    "gradient_norm": norm,
                }
            )
            window = LossWindow()
        if look:
            state = _look_at_dev(model, state, hooks, trouble)
        if _due(step, settings.sample_every) or (look and not settings.sample_every):
            model.eval()
            if texts := hooks.samples():
                hooks.on_event({"event": "sample", "step": step, "texts": texts})
            model.train()
        early = _out_of_patience(state, settings)
        asked = hooks.stop_asked()
        is_best = bool(settings.patience) and state.best_step == step
        if early or asked or is_best or step == steps or _due(step, settings.checkpoint_every):
            hooks.save(state)
            hooks.on_event({"event": "checkpoint", "step": step})
        if early or (asked and step < steps):
            return FitResult(state, "early" if early else "asked")
    return FitResult(state, "finished")


def update(
    model: nn.Module,
    optimizer: Optimizer,
    batch: Batch,
    *,
    step: int,
    lr: float,
    settings: Train,
    machine: Machine,
) -> tuple[float, float]:
    """One step of the optimiser; the batch's loss and the gradient's length before clipping."""
    seed = named_generator(settings.seed, f"step {step}").initial_seed()
    # On a CPU the generator itself: `torch.manual_seed` also writes down where it was called from,
    # for devices that are not in use, and takes a hundred times as long.
    (torch.default_generator if machine.device == "cpu" else torch).manual_seed(seed)
    batch = batch.to(machine.device)
    weight = batch.weights.sum()
    total = torch.zeros((), device=machine.device)
    optimizer.zero_grad(set_to_none=True)
    for part in batch.split(settings.accumulate):
        with machine.autocast():
            terms = model(part)
        loss = sum((term.sum / weight for term in terms.values()), torch.zeros_like(total))
        loss.backward()
        total += loss.detach()
    _refuse_unless_finite(float(total), batch, step=step, lr=lr)
    norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
    _refuse_unless_finite(float(norm), batch, step=step, lr=lr)
    if settings.clip:
        torch.nn.utils.clip_grads_with_norm_(model.parameters(), settings.clip, norm)
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.step()
    return float(total), float(norm)


def _look_at_dev(
    model: nn.Module, state: TrainingState, hooks: Hooks, trouble: Trouble
) -> TrainingState:
    model.eval()
    look = hooks.look()
    model.train()
    seen = {"loss": look.loss, "figures": dict(look.figures), "n": look.n, "items": look.items}
    hooks.on_event({"event": "evaluation", **_progress(state), **seen})
    trouble.told_at(state.step, look, hooks.on_event)
    if state.best_loss is None or look.loss < state.best_loss:
        return replace(state, best_loss=look.loss, best_step=state.step, looks_since_best=0)
    return replace(state, looks_since_best=state.looks_since_best + 1)


def _out_of_patience(state: TrainingState, settings: Train) -> bool:
    return bool(settings.patience) and state.looks_since_best >= settings.patience


def _refuse_unless_finite(value: float, batch: Batch, *, step: int, lr: float) -> None:
    if not math.isfinite(value):
        rows = ", ".join(str(row) for row in batch.rows[:4])
        raise UserError(
            f"the loss is not finite at step {step} (batch of {len(batch.rows)} rows: {rows} …, "
            f"lr {lr:.2g}); the weights were not touched",
            topic="train",
            hint="Lower train.lr, raise train.warmup or set train.clip; earlier checkpoints stand.",
        )


def _progress(state: TrainingState) -> dict[str, float]:
    return {"step": state.step, "tokens": state.tokens, "seconds": round(state.seconds, 3)}


def _due(step: int, every: int) -> bool:
    return bool(every) and step % every == 0
