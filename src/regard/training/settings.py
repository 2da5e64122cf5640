"""The recipe's [train] table: how long, how fast, on what, and what is kept."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from regard.core.settings import Settings


class Train(Settings):
    """How a model is trained."""

    epochs: int | None = Field(default=None, ge=1)
    "Passes over the training part. With neither this nor max_steps: one."
    max_steps: int | None = Field(default=None, ge=0)
    "Updates at most; alone, as many epochs are taken as it needs; 0 only measures."
    batch_tokens: int = Field(default=3200, ge=1)
    "Places in one update, padding included."
    batches: Literal["packed", "bucketed", "padded"] = "packed"
    "Rows: fixed blocks of joined documents, documents of like length, or documents as they come."
    accumulate: int = Field(default=1, ge=1)
    "Parts in which a batch goes through the model, to save memory; the update is the same."
    lr: float = Field(default=5e-4, gt=0.0)
    "Learning rate after the warm-up."
    lr_floor: float = Field(default=0.1, ge=0.0, le=1.0)
    "Share of lr where the cosine ends."
    warmup: float = Field(default=0.05, ge=0.0, lt=1.0)
    "Share of the steps over which the learning rate grows from 0."
    weight_decay: float = Field(default=0.01, ge=0.0)
    "AdamW's decay of matrices; biases, norms and embeddings are spared."
    clip: float = Field(default=1.0, ge=0.0)
    "Longest gradient allowed; 0 does not clip."
    seed: int = Field(default=0, ge=0)
    "Decides starting values, batch order, dropout and samples."
    evaluate_every: int = Field(default=100, ge=0)
    "Steps between looks at dev; 0 looks only at the end."
    evaluate_documents: int = Field(default=200, ge=1)
    "Dev documents in such a look; the final figures take evaluate.documents."
    patience: int = Field(default=0, ge=0)
    "Looks without a better dev loss before training stops early; 0 never stops."
    sample_every: int = Field(default=0, ge=0)
    "Steps between samples written while it trains; 0 takes them at each look at dev."
    checkpoint_every: int = Field(default=500, ge=0)
    "Steps between checkpoints; 0 keeps only the last state."
    keep_checkpoints: int = Field(default=2, ge=1)
    "How many checkpoints stay on the disk."
    device: str = "auto"
    "auto, cpu, cuda or mps. fp32 on the CPU; bf16 on cuda and mps where its products work."
    threads: int = Field(default=0, ge=0, le=256)
    "CPU threads; 0 takes all cores. Kept on resume, because it decides the bits."
    tensorboard: bool = False
    "Also write TensorBoard events into the run folder (extra: tensorboard)."

    @model_validator(mode="after")
    def _early_stopping_looks(self) -> Self:
        if self.patience and not self.evaluate_every:
            raise ValueError("patience needs looks at dev: set evaluate_every")
        return self
