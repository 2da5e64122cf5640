"""The training loop: gradient accumulation equals the full batch, randomness is a function of the
step, non-finite losses stop training, early stopping keeps the best checkpoint."""

import math
from itertools import islice, pairwise

import numpy as np
import pytest
import torch
from tests.training.toy_loader import build_loader

from regard.batch import Batch
from regard.core.errors import UserError
from regard.models.families.decoder import Decoder
from regard.training.checkpoint import TrainingState
from regard.training.device import choose_machine
from regard.training.loop import EvalResult, Hooks, fit, update
from regard.training.optimizer import build_optimizer
from regard.training.schedule import learning_rate
from regard.training.settings import Train

MACHINE = choose_machine("cpu", threads=1)


def build_model(**settings):
    return Decoder(layers=1, heads=2, width=8, context=8, **settings).build(vocabulary=90, seed=0)


def one_update(settings: Train, *, batch: Batch, dropout: float = 0.0, step: int = 1):
    model = build_model(dropout=dropout).train()
    optimizer = build_optimizer(model, settings)
    loss, norm = update(
        model, optimizer, batch, step=step, lr=settings.lr, settings=settings, machine=MACHINE
    )
    return loss, norm, model


def build_batch(**settings) -> Batch:
    loader = build_loader(batches="bucketed", **settings)
    return loader.build_batch(loader.plan(0)[0], epoch=0)


@pytest.mark.parametrize("accumulate", [2, 3, 100])
def test_gradient_accumulation_equals_the_full_batch(accumulate):
    batch = build_batch()
    full = one_update(Train(max_grad_norm=0.1), batch=batch)
    accumulated = one_update(Train(max_grad_norm=0.1, accumulate=accumulate), batch=batch)
    assert math.isclose(full[0], accumulated[0], rel_tol=1e-5)
    assert math.isclose(full[1], accumulated[1], rel_tol=1e-4)
    for one, other in zip(full[2].parameters(), accumulated[2].parameters(), strict=True):
        assert torch.allclose(one.grad, other.grad, atol=1e-6)


@pytest.mark.usefixtures("bf16_matmul")
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_bf16_trains_as_fp32_does_but_for_rounding(dropout):
    batch, losses = build_batch(), {}
    for precision in ("fp32", "bf16"):
        machine = choose_machine("cpu", threads=1, precision=precision)
        model = build_model(dropout=dropout).train()
        optimizer = build_optimizer(model, Train())
        losses[precision] = [
            update(model, optimizer, batch, step=1, lr=0.01, settings=Train(), machine=machine)[0]
            for _ in range(20)
        ]
        assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert losses["bf16"] != losses["fp32"]
    assert losses["bf16"] == pytest.approx(losses["fp32"], rel=0.02)
    assert losses["bf16"][-1] < 0.8 * losses["bf16"][0]


def test_dropout_is_a_function_of_seed_and_step():
    batch = build_batch()
    first = one_update(Train(), batch=batch, dropout=0.5, step=7)[0]
    torch.rand(100)
    assert one_update(Train(), batch=batch, dropout=0.5, step=7)[0] == first
    assert one_update(Train(), batch=batch, dropout=0.5, step=8)[0] != first
    assert one_update(Train(seed=1), batch=batch, dropout=0.5, step=7)[0] != first


@pytest.mark.parametrize("skipping", [(), ("cpu",)], ids=["read before", "skipped"])
def test_non_finite_loss_stops_before_the_update(skipping, monkeypatch):
    """A GPU, which is not read before the update, skips it itself; torch's CPU can, too."""
    monkeypatch.setattr("regard.training.loop.SKIPPING_DEVICES", skipping)
    model = build_model().train()
    with torch.no_grad():
        model.stack.norm.bias[0] = math.inf
    before = [parameter.clone() for parameter in model.parameters()]
    settings = Train()
    optimizer = build_optimizer(model, settings)
    with pytest.raises(UserError, match=r"not finite at step 12 .*rows: \d+"):
        update(model, optimizer, build_batch(), step=12, lr=1.0, settings=settings, machine=MACHINE)
    for parameter, old in zip(model.parameters(), before, strict=True):
        assert torch.equal(parameter, old)
    assert all(not state["exp_avg"].any() for state in optimizer.state.values())


@pytest.mark.parametrize("max_grad_norm", [0.0, 1e-3, 1e3])
def test_a_device_that_skips_by_itself_updates_alike(max_grad_norm, monkeypatch):
    settings, batch = Train(max_grad_norm=max_grad_norm), build_batch()
    loss, norm, model = one_update(settings, batch=batch)
    monkeypatch.setattr("regard.training.loop.SKIPPING_DEVICES", ("cpu",))
    again = one_update(settings, batch=batch)
    assert (loss, norm) == again[:2]
    assert all(map(torch.equal, model.parameters(), again[2].parameters()))


class RecordingHooks:
    """Hooks that record their calls; dev losses and warnings come from lists."""

    def __init__(self, dev=(), stop_at=None, warnings=()):
        self.events, self.saved, self.dev, self.stop_at = [], [], list(dev), stop_at
        self.warnings = list(warnings)

    def hooks(self) -> Hooks:
        return Hooks(
            on_event=self.events.append,
            evaluate=self.evaluate,
            samples=lambda: ["…"],
            save=self.saved.append,
            stop_requested=lambda: (
                bool(self.stop_at) and len(self.evaluated_steps()) >= self.stop_at
            ),
        )

    def evaluate(self):
        warning = self.warnings.pop(0) if self.warnings else ""
        loss = self.dev.pop(0) if self.dev else 1.0
        return EvalResult(loss, 5, {"perplexity": 2.0}, warning=warning)

    def evaluated_steps(self):
        return [event.step for event in self.events if event.event == "evaluation"]

    def train(self, settings: Train, state: TrainingState | None = None):
        model = build_model()
        return fit(
            model,
            build_optimizer(model, settings),
            build_loader(batches="packed", **settings.model_dump(exclude_unset=True)),
            settings,
            state=state or TrainingState(),
            machine=MACHINE,
            hooks=self.hooks(),
        )


def test_training_emits_events_and_saves_checkpoints():
    recorder = RecordingHooks()
    result = recorder.train(Train(max_steps=10, evaluate_every=4, checkpoint_every=5))
    assert (result.reason, result.state.step) == ("finished", 10)
    assert recorder.evaluated_steps() == [4, 8]
    assert [state.step for state in recorder.saved] == [5, 10]
    tokens = [event.tokens for event in recorder.events if event.event == "step"]
    assert all(earlier < later for earlier, later in pairwise(tokens))


def test_a_point_of_the_curve_is_the_mean_over_its_steps():
    single, windows = RecordingHooks(), RecordingHooks()
    single.train(Train(max_steps=400, evaluate_every=1, checkpoint_every=0))
    windows.train(Train(max_steps=400, evaluate_every=0, checkpoint_every=0))
    steps, points = (
        [event for event in each.events if event.event == "step"] for each in (single, windows)
    )
    assert (len(steps), len(points)) == (400, 200)
    batches = islice(build_loader(max_steps=400).batches_after(TrainingState().cursor), 400)
    weights = np.array([float(batch.weights.sum()) for batch, _ in batches]).reshape(200, 2)
    losses = np.array([step.loss for step in steps]).reshape(200, 2)
    means = (losses * weights).sum(axis=1) / weights.sum(axis=1)
    assert [point.loss for point in points] == pytest.approx(means, abs=1e-6)
    assert min(abs(means - losses[:, 1])) > 1e-5  # none is the loss of its last batch


COLLAPSED = "dev: all 5 rows are answered 'a'"
RECOVERED = "dev: more than one class is answered again"


@pytest.mark.parametrize(
    ("warmup_ratio", "expected"),
    [(0.15, {6: COLLAPSED, 9: RECOVERED, 15: COLLAPSED}), (0.5, {15: COLLAPSED})],
)
def test_warning_is_reported_when_it_begins_and_when_it_ends(warmup_ratio, expected):
    by_step = [COLLAPSED, COLLAPSED, "", "", COLLAPSED, COLLAPSED]  # at steps 3, 6, … 18
    recorder = RecordingHooks(warnings=by_step)
    recorder.train(Train(max_steps=20, evaluate_every=3, warmup_ratio=warmup_ratio))
    remarks = {event.step: event.text for event in recorder.events if event.event == "remark"}
    assert remarks == {step: f"step {step}: {text}" for step, text in expected.items()}


def test_training_lowers_the_loss():
    recorder = RecordingHooks()
    recorder.train(Train(max_steps=80, evaluate_every=20, lr=0.03))
    losses = [event.loss for event in recorder.events if event.event == "step"]
    assert losses[-1] < losses[0] - 0.5


def test_early_stopping_keeps_the_best_checkpoint():
    recorder = RecordingHooks(dev=[3.0, 2.0, 2.5, 2.4, 1.0])
    result = recorder.train(Train(max_steps=50, evaluate_every=2, checkpoint_every=0, patience=2))
    assert (result.reason, result.state.step, result.state.best_step) == ("early", 8, 4)
    assert 4 in [state.step for state in recorder.saved]
    # Killed before the final results: resuming must not train one step further.
    resumed = RecordingHooks().train(Train(max_steps=50, patience=2), state=result.state)
    assert (resumed.reason, resumed.state) == ("early", result.state)


def test_requested_stop_saves_a_checkpoint_first():
    recorder = RecordingHooks(stop_at=1)
    result = recorder.train(Train(max_steps=50, evaluate_every=3, checkpoint_every=0))
    assert (result.reason, result.state.step) == ("interrupted", 3)
    assert [state.step for state in recorder.saved] == [3]


def test_learning_rate_warms_up_and_decays_to_its_minimum():
    settings = Train(lr=1e-2, warmup_ratio=0.1, min_lr_ratio=0.1)
    rates = [learning_rate(step, steps=100, settings=settings) for step in range(1, 101)]
    assert math.isclose(rates[0], 1e-3)
    assert math.isclose(max(rates), 1e-2)
    assert rates.index(max(rates)) == 9
    assert math.isclose(rates[-1], 1e-3)
    assert all(earlier > later for earlier, later in pairwise(rates[9:]))


def test_biases_norms_and_embeddings_are_not_decayed():
    model = build_model(tied=False)
    decayed, not_decayed = build_optimizer(model, Train(weight_decay=0.5)).param_groups
    assert decayed["weight_decay"] == 0.5
    assert not_decayed["weight_decay"] == 0.0
    names = {id(p): name for name, p in model.named_parameters()}
    assert all(names[id(p)].endswith("weight") for p in decayed["params"])
    assert any(id(p) == id(model.embedding.tokens.weight) for p in not_decayed["params"])
    assert all(p.ndim == 1 or "embedding" in names[id(p)] for p in not_decayed["params"])
