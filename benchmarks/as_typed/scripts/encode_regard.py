"""Sentences of a file to embeddings: python encode_regard.py minilm sentences.txt embeddings.npy"""

import sys
from pathlib import Path

import numpy as np

import regard

model, sentences, out = sys.argv[1:]
embeddings = regard.load(model).encode(Path(sentences).read_text(encoding="utf-8").splitlines())
np.save(out, embeddings)
print(embeddings.shape)
