"""A model in memory with the tokenizer it belongs to: it generates, encodes and scores texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import UserError
from regard.core.files import MANIFEST
from regard.core.settings import catalog_name
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.generation.generate import Sampling, Strategy
from regard.models.families import FAMILIES
from regard.models.heads.task_heads import PooledHead, SentenceHead
from regard.models.model import Model
from regard.models.task_models.sentence_model import SentenceEncoder
from regard.objectives import Objective, Vocabulary
from regard.runs.missing_run import missing_run
from regard.runs.models.saved_model import SavedModel, load_saved_model
from regard.runs.recipe import build_tools
from regard.runs.run import Run, check_intact
from regard.runs.samples import generate_texts
from regard.tasks import TASKS, Problem, Task
from regard.tasks.retrieval.sentence_embeddings import embed_texts
from regard.training.document_losses import document_losses

if TYPE_CHECKING:
    from regard.runs.inspection.inspection import AttentionMap


@dataclass(frozen=True)
class LoadedModel:
    """A trained model and the tokenizer it belongs to."""

    saved: SavedModel
    folder: Path

    def __repr__(self) -> str:
        """`<LoadedModel runs/mini-gpt/final: decoder, 1,130,000 parameters>`"""
        family = catalog_name(self.saved.family, FAMILIES)
        task = "" if self.task is None else f" for {catalog_name(self.task, TASKS)}"
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        return f"<LoadedModel {self.folder}: {family}{task}, {parameters:,} parameters>"

    @property
    def model(self) -> Model:
        return self.saved.model

    @property
    def tokenizer(self) -> Tokenizer:
        return self.saved.tokenizer

    @property
    def objective(self) -> Objective:
        """Its training objective on texts."""
        return self.saved.objective

    @property
    def task(self) -> Task | None:
        return self.saved.task

    @property
    def problem(self) -> Problem[Any] | None:
        """Its task with the state derived from the training rows, if it has one."""
        return self.saved.problem

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of its task, in the order of `predict_proba`; empty if it has none."""
        return tuple(getattr(self.problem, "labels", ()))

    def predict(self, rows: Any) -> list[Any]:
        """The prediction of its task for each row: of a list of texts (tuples of them, or
        dictionaries), a data frame or a file; None for a row without text."""
        from regard.runs.models.predict import predict

        return [row["predicted"] for row in predict(self, _rows(rows))]

    def predict_proba(self, rows: Any) -> NDArray[np.float64]:
        """(n,c): the probability of each of its `labels`; NaN for a row without text."""
        from regard.runs.models.predict import predict_probabilities

        return predict_probabilities(self, _rows(rows))

    def attention(self, text: str, *, target: str | None = None) -> tuple[AttentionMap, ...]:
        """The attention weights of every layer on a text; `regard.inspect` has tokens and
        losses too."""
        from regard.runs.inspection.inspect import inspect_model

        if not isinstance(text, str):
            raise UserError(f"the text is of type {type(text).__name__}: give one text")
        return inspect_model(self, text, target=target).attention

    def generate(
        self,
        texts: Sequence[str],
        *,
        strategy: Strategy | None = None,
        max_new_tokens: int = 60,
        seed: int = 0,
    ) -> list[str]:
        """Continue each text. The default strategy samples with temperature 0.8 and top-p 0.95."""
        _check_list(texts)
        return generate_texts(
            self.model,
            self.tokenizer,
            texts,
            strategy=strategy or Sampling(temperature=0.8, top_p=0.95),
            max_new_tokens=max_new_tokens,
            seed=seed,
        )

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(b,w): an embedding of norm 1 for each text, so that dot products are cosines; an
        imported model truncates, pools and normalises as its checkpoint says."""
        _check_list(texts)
        if self.problem is not None:
            return embed_texts(self.model, texts, self.problem.tools)
        imported = self.saved.config.get("imported", {})
        if imported.get("pooling") is None:
            raise UserError(
                f"{self.folder} was trained on texts and has no sentence embeddings",
                topic="encode",
                hint='Train one with task.kind = "retrieval" or "similarity".',
            )
        head = SentenceHead if imported["normalise"] else PooledHead
        model = SentenceEncoder(self.model.body, head(pooling=imported["pooling"]), seed=0).eval()
        tools = build_tools(None, self.saved.family, self.tokenizer)
        max_length = min(tools.context, imported.get("max_tokens") or tools.context)
        return embed_texts(model, texts, replace(tools, context=max_length))

    def loss(self, texts: Sequence[str]) -> list[float]:
        """Mean loss of each text in nats, over the tokens that the objective scores."""
        _check_list(texts)
        if not texts:
            return []
        losses = document_losses(
            self.model,
            [np.asarray(ids, dtype=np.int64) for ids in self.tokenizer.encode_many(list(texts))],
            self.objective,
            vocabulary=Vocabulary.from_tokenizer(self.tokenizer),
            pad=self.tokenizer.padding_id,
        )
        for number, tokens in enumerate(losses.tokens, start=1):
            if not tokens:
                raise UserError(
                    f"text {number} has no token to score, so it has no loss",
                    topic="loss",
                    hint="Give a text with at least one word.",
                )
        return [float(value) for value in losses.losses / losses.tokens]


def _rows(rows: Any) -> Any:
    """Rows to predict; a lone text is more likely a forgotten list than a file."""
    if isinstance(rows, str) and not Path(rows).exists():
        raise UserError(
            "a lone text is neither a list of texts nor a file", topic="predict", hint="[text]"
        )
    return rows


def _check_list(texts: Sequence[str]) -> None:
    """A lone text is a sequence too, of its letters."""
    if isinstance(texts, str):
        raise UserError("give a list of texts: [text]")


def load_model(
    folder: Path, *, tokenizer: str | Path | None = None, base: Path | None = None
) -> LoadedModel:
    """Load a run folder, a checkpoint, a `final` or imported folder; its manifest is checked."""
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise missing_run(folder, what)
    model_folder = _model_folder(folder)
    saved = load_saved_model(
        model_folder,
        path=folder,
        tokenizer=Tokenizer.load(tokenizer or model_folder),
        base=base,
    )
    return LoadedModel(saved, model_folder)


def _model_folder(path: Path) -> Path:
    if (path / "recipe.toml").is_file():
        return Run(path).model_folder()
    if not (path / "config.json").is_file() and not (path / MANIFEST).is_file():
        raise UserError(
            f"{path} is neither a run nor a model: it has no recipe.toml and no config.json",
            topic="run",
            hint="Give the folder that `regard train` wrote, such as runs/mini-gpt.",
        )
    return check_intact(path)
