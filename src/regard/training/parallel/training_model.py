"""What is trained, and how it is saved: a model that is whole in one process or replicated on every
rank, or one that is sharded over the ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from torch import nn
from torch.optim import Optimizer

from regard.core.errors import UserError
from regard.core.files import folder_with_manifest
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.models.model import Model
from regard.training.checkpoint import (
    TrainingState,
    check_finite,
    checkpoint_path,
    load_moments,
    model_tensors,
    moments_of,
    save_checkpoint,
    save_model,
    write_state,
)
from regard.training.device import Machine
from regard.training.optimizer import build_optimizer
from regard.training.parallel.gradient_sync import (
    DataParallelSync,
    GradientSync,
    OneProcess,
    same_bits,
)
from regard.training.parallel.moments import write_moments
from regard.training.parallel.ranks import OneRank
from regard.training.settings import Train


class TrainingModel(Protocol):
    """A model with its optimizer. On several ranks, each method is called by all of them."""

    @property
    def module(self) -> nn.Module:
        """What computes the loss terms of a rank's rows."""
        ...

    @property
    def optimizer(self) -> Optimizer: ...

    def sync(self, stop_signal: Callable[[], int]) -> GradientSync: ...

    def load_moments(self, checkpoint: Path) -> None: ...

    def complete(self) -> None:
        """The experiment's model has the present weights, at least on rank 0."""
        ...

    def save(
        self,
        folder: Path,
        state: TrainingState,
        *,
        tokenizer: Tokenizer,
        config: Callable[[], Mapping[str, Any]],
    ) -> None: ...


def begin_training(
    model: Model, settings: Train, *, machine: Machine, ranks: OneRank
) -> TrainingModel:
    """Ranks begin with the same weights, or not at all."""
    if ranks.size > 1 and not same_bits(model):
        raise UserError(
            "the ranks begin with different weights",
            topic="ranks",
            hint="Start all of them on machines of one kind, with the same versions.",
        )
    if ranks.size > 1 and settings.parallel == "fsdp":
        return ShardedTrainingModel(model, settings, machine=machine, ranks=ranks)
    return ReplicatedTrainingModel(model, settings, ranks=ranks)


class ReplicatedTrainingModel:
    """Of one process, or the same on every rank."""

    def __init__(self, model: Model, settings: Train, *, ranks: OneRank) -> None:
        self.module = model
        self.optimizer: Optimizer = build_optimizer(model, settings)
        self.ranks = ranks

    def sync(self, stop_signal: Callable[[], int]) -> GradientSync:
        kind = OneProcess if self.ranks.size == 1 else DataParallelSync
        return kind(stop_signal=stop_signal)

    def load_moments(self, checkpoint: Path) -> None:
        load_moments(checkpoint, dict(self.module.named_parameters()), self.optimizer)

    def complete(self) -> None:
        """It always is; but if ranks have drifted apart, nothing of it is used."""
        if self.ranks.size > 1 and not same_bits(self.module):
            raise UserError(
                "the weights of the ranks have drifted apart, so none of them is saved or scored",
                topic="ranks",
                hint="A machine computes wrongly, or its kernels differ; continue with --resume "
                "on other machines.",
            )

    def save(
        self,
        folder: Path,
        state: TrainingState,
        *,
        tokenizer: Tokenizer,
        config: Callable[[], Mapping[str, Any]],
    ) -> None:
        self.complete()

        def write() -> None:
            save_checkpoint(
                folder, self.module, self.optimizer, state, tokenizer=tokenizer, config=config()
            )

        self.ranks.first_decides("checkpoint", write)


class ShardedTrainingModel:
    """Sharded over the ranks; rank 0 also keeps the whole model, for all but training."""

    def __init__(self, model: Model, settings: Train, *, machine: Machine, ranks: OneRank) -> None:
        # Loaded where it is used: with it come a hundred modules of torch.
        from regard.training.parallel.sharded import shard

        self.ranks = ranks
        self.whole = model.eval() if ranks.is_first else None
        self.sharded = shard(model, machine, keep_whole=ranks.is_first)
        self.module: nn.Module = self.sharded.module
        self._gathered = 0
        self.parts = self.sharded.trained_parts()
        self.parameters = {name: part.tensor for name, part in self.parts.items()}
        self.optimizer: Optimizer = build_optimizer(self.module, settings, parts=self.parameters)

    def sync(self, stop_signal: Callable[[], int]) -> GradientSync:
        from regard.training.parallel.sharded import ShardedSync

        return ShardedSync(self.sharded, stop_signal=stop_signal)

    def load_moments(self, checkpoint: Path) -> None:
        rows = {name: part.rows for name, part in self.parts.items()}
        load_moments(checkpoint, self.parameters, self.optimizer, rows=rows)

    def complete(self) -> None:
        if self._gathered < self.sharded.updates:
            self.sharded.gather_into(self.whole)
            self._gathered = self.sharded.updates

    def save(
        self,
        folder: Path,
        state: TrainingState,
        *,
        tokenizer: Tokenizer,
        config: Callable[[], Mapping[str, Any]],
    ) -> None:
        """Each rank writes its moments; rank 0 the rest, and completes the folder."""
        self.complete()
        ranks = self.ranks
        moments = moments_of(self.parameters, self.optimizer)
        if self.whole is not None:
            with folder_with_manifest(checkpoint_path(folder, state)) as temporary:
                ranks.first_decides("checkpoint", lambda: str(temporary))
                check_finite(model_tensors(self.whole), moments, state)
                save_model(temporary, self.whole, tokenizer, config())
                write_moments(temporary, moments, rank=ranks.rank, size=ranks.size)
                write_state(temporary, state)
                ranks.meet("moments")
        else:
            temporary = Path(ranks.first_decides("checkpoint", str))
            if not temporary.is_dir():
                raise UserError(
                    f"{temporary.parent} is not the folder of rank 0",
                    topic="ranks",
                    hint="Ranks on several machines need a folder that all of them see: --out.",
                )
            check_finite({}, moments, state)
            write_moments(temporary, moments, rank=ranks.rank, size=ranks.size)
            ranks.meet("moments")
        ranks.meet("checkpoint")
