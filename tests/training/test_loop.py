"""The loop: accumulation equals the full batch, randomness follows the step, NaN stops in time."""

import math
from itertools import pairwise

import pytest
import torch
from tests.training.tiny import stream

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


def model(**settings):
    return Decoder(layers=1, heads=2, width=8, context=8, **settings).build(vocabulary=90, seed=0)


def one_update(settings: Train, *, batch: Batch, dropout: float = 0.0, step: int = 1):
    made = model(dropout=dropout).train()
    optimizer = build_optimizer(made, settings)
    loss, norm = update(
        made, optimizer, batch, step=step, lr=settings.lr, settings=settings, machine=MACHINE
    )
    return loss, norm, made


def a_batch(**settings) -> Batch:
    made = stream(batches="bucketed", **settings)
    return made.batch(made.plan(0)[0], epoch=0)


@pytest.mark.parametrize("parts", [2, 3, 100])
def test_accumulation_equals_the_full_batch(parts):
    batch = a_batch()
    whole = one_update(Train(clip=0.1), batch=batch)
    split = one_update(Train(clip=0.1, accumulate=parts), batch=batch)
    assert math.isclose(whole[0], split[0], rel_tol=1e-5)
    assert math.isclose(whole[1], split[1], rel_tol=1e-4)
    gradients = zip(whole[2].parameters(), split[2].parameters(), strict=True)
    for full, accumulated in gradients:
        assert torch.allclose(full.grad, accumulated.grad, atol=1e-6)


def test_dropout_follows_seed_and_step_not_history():
    batch = a_batch()
    first = one_update(Train(), batch=batch, dropout=0.5, step=7)[0]
    torch.rand(100)
    assert one_update(Train(), batch=batch, dropout=0.5, step=7)[0] == first
    assert one_update(Train(), batch=batch, dropout=0.5, step=8)[0] != first
    assert one_update(Train(seed=1), batch=batch, dropout=0.5, step=7)[0] != first


def test_a_loss_that_is_not_finite_stops_before_the_update():
    made = model().train()
    with torch.no_grad():
        made.stack.norm.bias[0] = math.inf
    before = [parameter.clone() for parameter in made.parameters()]
    settings = Train()
    optimizer = build_optimizer(made, settings)
    with pytest.raises(UserError, match=r"not finite at step 12 \(batch of \d+ rows: \d+"):
        update(made, optimizer, a_batch(), step=12, lr=1.0, settings=settings, machine=MACHINE)
    for parameter, was in zip(made.parameters(), before, strict=True):
        assert torch.equal(parameter, was)


class World:
    """Hooks that remember; dev losses, and what is wrong with answers, come from lists."""

    def __init__(self, dev=(), stop_at=None, troubles=()):
        self.events, self.saved, self.dev, self.stop_at = [], [], list(dev), stop_at
        self.troubles = list(troubles)

    def hooks(self) -> Hooks:
        return Hooks(
            on_event=self.events.append,
            look=self.look,
            samples=lambda: ["…"],
            save=self.saved.append,
            stop_asked=lambda: bool(self.stop_at) and len(self.steps()) >= self.stop_at,
        )

    def look(self):
        trouble = self.troubles.pop(0) if self.troubles else ""
        loss = self.dev.pop(0) if self.dev else 1.0
        return EvalResult(loss, 5, {"perplexity": 2.0}, trouble=trouble)

    def steps(self):
        return [event["step"] for event in self.events if event["event"] == "evaluation"]

    def train(self, settings: Train, state: TrainingState | None = None):
        made = model()
        return fit(
            made,
            build_optimizer(made, settings),
            stream(batches="packed", **settings.model_dump(exclude_unset=True)),
            settings,
            state=state or TrainingState(),
            machine=MACHINE,
            hooks=self.hooks(),
        )


def test_a_training_tells_what_it_does_and_saves():
    world = World()
    ended = world.train(Train(max_steps=10, evaluate_every=4, checkpoint_every=5))
    assert (ended.reason, ended.state.step) == ("finished", 10)
    assert world.steps() == [4, 8]
    assert [state.step for state in world.saved] == [5, 10]
    tokens = [event["tokens"] for event in world.events if event["event"] == "step"]
    assert all(earlier < later for earlier, later in pairwise(tokens))


WRONG, RIGHT = "dev: all 5 rows are answered 'a'", "dev: more than one class is answered again"


@pytest.mark.parametrize(
    ("warmup", "told"), [(0.15, {6: WRONG, 9: RIGHT, 15: WRONG}), (0.5, {15: WRONG})]
)
def test_answers_of_one_class_are_told_when_they_begin_and_when_they_end(warmup, told):
    world = World(troubles=[WRONG, WRONG, "", "", WRONG, WRONG])  # at steps 3, 6, … 18
    world.train(Train(max_steps=20, evaluate_every=3, warmup=warmup))
    remarks = {event["step"]: event["text"] for event in world.events if event["event"] == "remark"}
    assert remarks == {step: f"step {step}: {words}" for step, words in told.items()}


def test_training_learns_what_can_be_learned():
    world = World()
    world.train(Train(max_steps=80, evaluate_every=20, lr=0.03))
    losses = [event["loss"] for event in world.events if event["event"] == "step"]
    assert losses[-1] < losses[0] - 0.5


def test_early_stopping_keeps_the_best():
    world = World(dev=[3.0, 2.0, 2.5, 2.4, 1.0])
    ended = world.train(Train(max_steps=50, evaluate_every=2, checkpoint_every=0, patience=2))
    assert (ended.reason, ended.state.step, ended.state.best_step) == ("early", 8, 4)
    assert 4 in [state.step for state in world.saved]
    # Killed before it was measured: resuming must not train one step further.
    again = World().train(Train(max_steps=50, patience=2), state=ended.state)
    assert (again.reason, again.state) == ("early", ended.state)


def test_a_wish_to_stop_saves_first():
    world = World(stop_at=1)
    ended = world.train(Train(max_steps=50, evaluate_every=3, checkpoint_every=0))
    assert (ended.reason, ended.state.step) == ("asked", 3)
    assert [state.step for state in world.saved] == [3]


def test_the_learning_rate_warms_up_and_falls_to_its_floor():
    settings = Train(lr=1e-2, warmup=0.1, lr_floor=0.1)
    rates = [learning_rate(step, steps=100, settings=settings) for step in range(1, 101)]
    assert math.isclose(rates[0], 1e-3)
    assert math.isclose(max(rates), 1e-2)
    assert rates.index(max(rates)) == 9
    assert math.isclose(rates[-1], 1e-3)
    assert all(earlier > later for earlier, later in pairwise(rates[9:]))


def test_decay_spares_biases_norms_and_embeddings():
    made = model(tied=False)
    decayed, spared = build_optimizer(made, Train(weight_decay=0.5)).param_groups
    assert decayed["weight_decay"] == 0.5
    assert spared["weight_decay"] == 0.0
    names = {id(p): name for name, p in made.named_parameters()}
    assert all(names[id(p)].endswith("weight") for p in decayed["params"])
    assert any(id(p) == id(made.embedding.tokens.weight) for p in spared["params"])
    assert all(p.ndim == 1 or "embedding" in names[id(p)] for p in spared["params"])
