"""A model in memory with the tokenizer it belongs to: it generates, encodes and scores texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import UserError
from regard.core.files import MANIFEST
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.generation.generate import Sampling, Strategy
from regard.models.architectures.sequence_model import SequenceModel
from regard.models.heads.task_heads import PooledHead, SentenceHead
from regard.models.model import Model
from regard.models.task_models.sentence_model import SentenceEncoder
from regard.objectives import Objective, Vocabulary
from regard.runs.models.saved_model import SavedModel, load_saved
from regard.runs.recipe import tools_of
from regard.runs.run import Run, check_whole
from regard.runs.samples import write_texts
from regard.tasks import Problem, Task
from regard.tasks.retrieval.sentence_vectors import vectors_of
from regard.training.document_losses import document_losses


@dataclass(frozen=True)
class LoadedModel:
    """A trained model and the tokenizer it belongs to."""

    saved: SavedModel
    folder: Path

    @property
    def model(self) -> Model:
        return self.saved.model

    @property
    def tokenizer(self) -> Tokenizer:
        return self.saved.tokenizer

    @property
    def objective(self) -> Objective:
        """What it was trained to tell of texts."""
        return self.saved.objective

    @property
    def task(self) -> Task | None:
        return self.saved.task

    @property
    def problem(self) -> Problem | None:
        """Its task with what was learnt of it, where it has one."""
        return self.saved.problem

    def generate(
        self,
        texts: Sequence[str],
        *,
        strategy: Strategy | None = None,
        max_new_tokens: int = 60,
        seed: int = 0,
    ) -> list[str]:
        """What the model writes after each text. The default draws with temperature 0.8."""
        return write_texts(
            self.model,
            self.tokenizer,
            texts,
            strategy=strategy or Sampling(temperature=0.8, top_p=0.95),
            max_new_tokens=max_new_tokens,
            seed=seed,
        )

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(b,w): a vector of length 1 for each text, so that products are cosines; an imported
        model cuts texts, pools places and keeps or drops lengths as its checkpoint says."""
        if self.problem is not None:
            return vectors_of(self.model, texts, self.problem.tools)
        said = self.saved.config.get("imported", {})
        if said.get("pooling") is None or not isinstance(self.model, SequenceModel):
            raise UserError(
                f"{self.folder} was trained on texts and gives no vectors of whole texts",
                topic="encode",
                hint='Train one with task.kind = "retrieval" or "similarity".',
            )
        head = SentenceHead if said["normalise"] else PooledHead
        model = SentenceEncoder(self.model, head(pooling=said["pooling"]), seed=0).eval()
        tools = tools_of(None, self.saved.family, self.tokenizer)
        longest = min(tools.context, said.get("longest") or tools.context)
        return vectors_of(model, texts, replace(tools, context=longest))

    def loss(self, texts: Sequence[str]) -> list[float]:
        """Mean loss of each text in nats, over the tokens that the objective tells of it."""
        if not texts:
            return []
        told = document_losses(
            self.model,
            [np.asarray(ids, dtype=np.int64) for ids in self.tokenizer.encode_many(list(texts))],
            self.objective,
            vocabulary=Vocabulary.from_tokenizer(self.tokenizer),
            pad=self.tokenizer.padding_id,
        )
        for number, tokens in enumerate(told.tokens, start=1):
            if not tokens:
                raise UserError(
                    f"text {number} has no token to tell, so it has no loss",
                    topic="loss",
                    hint="Give a text with at least one word.",
                )
        return [float(value) for value in told.losses / told.tokens]


def load_model(
    folder: Path, *, tokenizer: str | Path | None = None, base: Path | None = None
) -> LoadedModel:
    """From a run folder, a checkpoint, a `final` or imported folder; checked against its seal."""
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise UserError(f"{folder} {what}", topic="run", hint="`regard train` makes run folders.")
    home = _model_folder(folder)
    saved = load_saved(home, place=folder, tokenizer=Tokenizer.load(tokenizer or home), base=base)
    return LoadedModel(saved, home)


def _model_folder(place: Path) -> Path:
    if (place / "recipe.toml").is_file():
        return Run(place).model_folder()
    if not (place / "config.json").is_file() and not (place / MANIFEST).is_file():
        raise UserError(
            f"{place} is neither a run nor a model: it has no recipe.toml and no config.json",
            topic="run",
            hint="Give the folder that `regard train` wrote, such as runs/mini-gpt.",
        )
    return check_whole(place)
