"""A text file to token ids on disk, as the documentation of datasets does it.

python tokenize_datasets.py train.txt tokenizer [--processes 2]
"""

import argparse

from datasets import load_dataset
from transformers import AutoTokenizer

parser = argparse.ArgumentParser()
parser.add_argument("file")
parser.add_argument("tokenizer")
parser.add_argument("--processes", type=int, default=None)
options = parser.parse_args()

tokenizer = AutoTokenizer.from_pretrained(options.tokenizer)


def tokenize(rows):
    return {"ids": tokenizer(rows["text"], return_attention_mask=False)["input_ids"]}


dataset = load_dataset("text", data_files=options.file, split="train", cache_dir="datasets")
tokenized = dataset.map(tokenize, batched=True, num_proc=options.processes, remove_columns=["text"])
print(sum(map(len, tokenized["ids"][:1000])), "tokens in the first 1,000 documents")
