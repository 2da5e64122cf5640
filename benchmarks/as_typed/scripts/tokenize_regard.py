"""A text file to regard's token cache.

python tokenize_regard.py train.txt tokenizer [--processes 2]
"""

import argparse
from pathlib import Path

from regard.data.corpus import Data, open_corpus
from regard.data.token_cache.building import build_cache
from regard.data.tokenizers.tokenizer import Tokenizer

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("tokenizer")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    corpus = open_corpus(Data(corpus=options.file, dev=0.0005, test=0.0005))
    tokenizer = Tokenizer.load(options.tokenizer)
    cache = build_cache(corpus, tokenizer, Path("tokens"), processes=options.processes)
    print(sum(split["tokens"] for split in cache.meta["splits"].values()), "tokens")
