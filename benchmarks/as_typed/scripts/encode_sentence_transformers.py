"""Sentences of a file to embeddings, as the sentence-transformers documentation does it.

python encode_sentence_transformers.py minilm sentences.txt embeddings.npy [--rows 32]
"""

import argparse
from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("sentences", type=Path)
parser.add_argument("out")
parser.add_argument("--rows", type=int, default=32)
options = parser.parse_args()

model = SentenceTransformer(options.model, device="cpu")
sentences = options.sentences.read_text(encoding="utf-8").splitlines()
embeddings = model.encode(sentences, batch_size=options.rows)
np.save(options.out, embeddings)
print(embeddings.shape)
