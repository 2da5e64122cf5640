"""Small models of each family to adapt, and batches for them."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.batch import Batch
from regard.core.settings import read_settings
from regard.models.architectures.sequence_model import SequenceModel
from regard.models.families import FAMILIES, Family
from regard.models.heads.task_heads import ClassificationHead, Pooling
from regard.models.inputs import ModelInputs
from regard.models.model import Model
from regard.models.task_models.task_model import SequenceClassifier

VOCABULARY = 30
LIKE_BERT = {
    "segments": 2,
    "embedding_norm": True,
    "head_transform": True,
    "pooler": True,
    "norm_placement": "post",
}
LIKE_LLAMA = {
    "positions": "rotary",
    "norm": "rms",
    "activation": "swiglu",
    "biases": False,
    "key_value_heads": 2,
    "tied": False,
}


def family_of(name: str, **table) -> Family:
    sizes = {} if name == "recurrent" else {"heads": 4, "layers": 2}
    table = {"context": 24, "width": 16, **sizes, **table}
    return read_settings(FAMILIES.get(name).part, table)


def body(name: str, **table) -> Model:
    """With larger initial weights than the default, so that nothing is nearly 0."""
    init_std = {} if name == "recurrent" else {"init_std": 0.3}
    return family_of(name, **init_std, **table).build(vocabulary=VOCABULARY, seed=1).eval()


def classifier(
    name: str = "encoder", *, labels: int = 2, pooling: Pooling = "mean", **table
) -> SequenceClassifier:
    model = body(name, **table)
    assert isinstance(model, SequenceModel)
    head = ClassificationHead(16, labels=labels, pooling=pooling)
    return SequenceClassifier(model, head, seed=0).eval()


def ids_of(rows: int = 3, length: int = 9, *, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(VOCABULARY, (rows, length), generator=generator)


def batch_of(rows: int = 3, length: int = 9, *, seed: int = 0) -> Batch:
    ids, source = ids_of(rows, length, seed=seed), ids_of(rows, 7, seed=seed + 1)
    source_valid = torch.ones_like(source, dtype=torch.bool)
    source_valid[-1, 5:] = False
    return Batch(
        ids=ids,
        targets=ids.roll(-1, dims=1),
        weights=torch.ones(rows, length),
        valid=torch.ones(rows, length, dtype=torch.bool),
        segments=None,
        rows=tuple(range(rows)),
        source=source,
        source_valid=source_valid,
        labels=torch.arange(rows)[:, None] % 2,
    )


@torch.no_grad()
def outputs(model: Model, batch: Batch | None = None) -> Tensor:
    """The logits of a batch, of tokens or of labels."""
    batch = batch_of() if batch is None else batch
    if isinstance(model, SequenceClassifier):
        return model.logits(batch)
    if isinstance(model, SequenceModel):
        return model.logits(ModelInputs(batch.ids, valid=batch.valid))
    assert batch.source is not None
    assert batch.source_valid is not None
    return model.logits(
        ModelInputs(batch.ids, source=batch.source, source_valid=batch.source_valid)
    )


def perturbed(model: Model, *, seed: int = 3) -> Model:
    """The trainable parameters with noise added, as after training."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
                parameter.add_(0.3 * noise)
    return model


def same_bits(a: Tensor, b: Tensor) -> bool:
    """Equal down to the sign of zero."""
    return torch.equal(a.view(torch.int32), b.view(torch.int32))
