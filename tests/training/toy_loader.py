"""A tiny batch loader: sixty documents of up to nine random tokens (generated)."""

import numpy as np

from regard.data.chunks import DocumentChunks, PackedBlocks
from regard.objectives import Vocabulary
from regard.objectives.causal import Causal
from regard.training.batch_loader import BatchLoader, ObjectiveExamples
from regard.training.settings import Train


class ToySplit:
    """Documents of 1 to 9 tokens."""

    def __init__(self, documents: int = 60) -> None:
        generator = np.random.default_rng(0)
        self.documents = [
            generator.integers(7, 90, size=generator.integers(1, 10)) for _ in range(documents)
        ]
        self.lengths = np.array([len(document) for document in self.documents])
        self.offsets = np.concatenate(([0], np.cumsum(self.lengths)))

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, index: int) -> np.ndarray:
        return self.documents[index]


def build_loader(**settings) -> BatchLoader:
    train = Train(batch_tokens=40, **settings)
    chunking = PackedBlocks if train.batches == "packed" else DocumentChunks
    rows = chunking(ToySplit(), context=8, start=2, stop=3)
    ids = Vocabulary(size=90, start=2, stop=3, mask=6, specials=frozenset(range(7)) - {1})
    return BatchLoader(ObjectiveExamples(rows, Causal(), ids), train, pad=0)
