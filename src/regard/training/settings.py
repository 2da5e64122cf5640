"""The recipe's [train] table: length, learning rate, batches, evaluation, checkpoints, device."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from regard.core.settings import Settings


class Train(Settings):
    """How a model is trained."""

    epochs: int | None = Field(default=None, ge=1)
    "Passes over the training split. With neither this nor max_steps: one."
    max_steps: int | None = Field(default=None, ge=0)
    "Maximum optimizer steps; without epochs, exactly this many; 0 only evaluates."
    batch_tokens: int = Field(default=3200, ge=1)
    "Batch size of one update in positions, padding included."
    batches: Literal["packed", "bucketed", "padded"] = "packed"
    "Rows: packed blocks of one length, documents bucketed by length, or documents in random order."
    accumulate: int = Field(default=1, ge=1)
    "Gradient accumulation: micro-batches per update, to save memory; the update is the same."
    lr: float = Field(default=5e-4, gt=0.0)
    "Learning rate after the warmup."
    min_lr_ratio: float = Field(default=0.1, ge=0.0, le=1.0)
    "Learning rate at the end of the cosine decay, as a fraction of lr."
    warmup_ratio: float = Field(default=0.05, ge=0.0, lt=1.0)
    "Linear warmup of the learning rate from 0, as a fraction of all steps."
    weight_decay: float = Field(default=0.01, ge=0.0)
    "AdamW's weight decay of matrices; biases, norms and embeddings are not decayed."
    max_grad_norm: float = Field(default=1.0, ge=0.0)
    "Maximum gradient norm; larger gradients are clipped to it. 0 does not clip."
    seed: int = Field(default=0, ge=0)
    "Determines initial weights, batch order, dropout and samples."
    evaluate_every: int = Field(default=100, ge=0)
    "Steps between evaluations on dev; 0 evaluates only at the end."
    evaluate_documents: int = Field(default=200, ge=1)
    "Dev documents in such an evaluation; the final results take evaluate.documents."
    patience: int = Field(default=0, ge=0)
    "Early stopping: evaluations without a lower dev loss before training stops; 0 never stops."
    sample_every: int = Field(default=0, ge=0)
    "Steps between samples generated during training; 0 generates them at each evaluation."
    checkpoint_every: int = Field(default=500, ge=0)
    "Steps between checkpoints; 0 saves only at the end."
    keep_checkpoints: int = Field(default=2, ge=1)
    "Checkpoints kept on disk."
    device: str = "auto"
    "auto, cpu, cuda (of several GPUs one, as cuda:1) or mps; under torchrun each rank its own."
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    "bf16: bfloat16 matrix products, the rest fp32. auto: bf16 on cuda and mps where it works."
    compile: bool = False
    "Compile each block for training steps (packed batches): the first step takes a minute longer."
    parallel: Literal["ddp", "fsdp"] = "ddp"
    "Under torchrun. ddp: every rank holds the whole model; fsdp: each holds a part of it."
    threads: int = Field(default=0, ge=0, le=256)
    "CPU threads; 0: all cores, fewer for short steps. Kept on resume: bits depend on it."
    tensorboard: bool = False
    "Also write TensorBoard events into the run folder (extra: tensorboard)."

    @model_validator(mode="after")
    def _early_stopping_evaluates(self) -> Self:
        if self.patience and not self.evaluate_every:
            raise ValueError("patience needs evaluations on dev: set evaluate_every")
        return self
