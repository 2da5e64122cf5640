"""A class for each row of a file, as the documentation of transformers' pipelines does it.

python classify_pipeline.py classifier rows.csv predictions.jsonl [--rows 32] [--sorted]
"""

import argparse
import csv
import json
from pathlib import Path

from transformers import pipeline

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("file", type=Path)
parser.add_argument("out", type=Path)
parser.add_argument("--rows", type=int, default=8)
parser.add_argument("--sorted", action="store_true", help="similar lengths in a batch")
options = parser.parse_args()

with options.file.open(encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file))
order = range(len(rows))
if options.sorted:
    order = sorted(order, key=lambda row: len(rows[row]["sentence"]))
classify = pipeline("text-classification", model=options.model, device="cpu")
texts = (rows[row]["sentence"] for row in order)
answers = dict(zip(order, classify(texts, batch_size=options.rows), strict=True))
with options.out.open("w", encoding="utf-8") as out:
    for number, row in enumerate(rows):
        answer = answers[number]
        print(json.dumps({**row, "predicted": answer["label"], **answer}), file=out)
