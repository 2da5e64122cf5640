"""Baselines of the documents that a language model is evaluated on, counted once in a process.

All runs of a study are evaluated on the same documents, and a worker trains many of them: what its
first run counted serves the others.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence

import numpy as np

from regard.core.progress import OnProgress
from regard.data.token_cache.cache import TokenCache
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.evaluation.baselines.language_model import Baseline, language_model_baselines

MAX_KEPT = 4
"Of the data of as many variants."
_counted: OrderedDict[tuple[object, ...], list[Baseline]] = OrderedDict()


def counted_baselines(
    cache: TokenCache,
    tokenizer: Tokenizer,
    documents: Mapping[str, Sequence[np.ndarray]],
    *,
    is_scored: Mapping[str, Sequence[np.ndarray]],
    order: int,
    on_progress: OnProgress,
) -> list[Baseline]:
    """N-gram and unigram, fitted on the training split of `cache`."""
    # The folder's name is a hash of sources, settings and tokenizer.
    training = (str(cache.folder), cache.split("train").fingerprint, tokenizer.fingerprint)
    evaluated = (_digest(documents), _digest(is_scored))
    key = (*training, *evaluated, order)
    if key not in _counted:
        on_progress(0, None)
        _counted[key] = language_model_baselines(
            iter(cache.split("train")),
            documents,
            vocabulary=tokenizer.size,
            start=tokenizer.require("start"),
            stop=tokenizer.require("stop"),
            is_scored=is_scored,
            order=order,
            on_progress=on_progress,
        )
        while len(_counted) > MAX_KEPT:
            _counted.popitem(last=False)
    return _counted[key]


def _digest(arrays: Mapping[str, Sequence[np.ndarray]]) -> str:
    digest = hashlib.sha256()
    for split, rows in sorted(arrays.items()):
        for row in rows:
            digest.update(f"{split} {row.dtype} {row.shape} ".encode())
            digest.update(np.ascontiguousarray(row).tobytes())
    return digest.hexdigest()
