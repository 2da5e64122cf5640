"""Rows that a probe is run on: random ones, runs, repeats, special ids, text.

A leak can depend on what a row holds: on equal neighbours, on a separator, on ids that random
draws seldom give.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.audits.subject import Subject

PERIODS = (1, 2, 3, 4)
"Of repeats; with period 1 a row holds one token alone."

UNKNOWN_SPECIAL = 7
"Special ids come first in most vocabularies."


def special_ids(subject: Subject) -> tuple[int, ...]:
    """Those the subject knows, else the first few ids and the last."""
    first = tuple(range(min(UNKNOWN_SPECIAL, subject.vocabulary - 1)))
    return subject.special_ids or (*first, subject.vocabulary - 1)


def varied_rows(subject: Subject, length: int, count: int, generator: torch.Generator) -> Tensor:
    """(count,length) ids, or embeddings (count,length,w), from every kind of row in turn."""
    kinds = [_random, repeated_row, _random, _runs]
    if subject.vocabulary:
        kinds.insert(1, _special)
        if subject.text is not None and len(subject.text):
            kinds.insert(2, _text)
    turns = (divmod(n, len(kinds)) for n in range(count))
    rows = [kinds[kind](subject, length, turn, generator) for turn, kind in turns]
    return torch.cat(rows).to(subject.device)


def _random(subject: Subject, length: int, turn: int, generator: torch.Generator) -> Tensor:
    return subject.draw(1, length, generator)


def repeated_row(subject: Subject, length: int, turn: int, generator: torch.Generator) -> Tensor:
    """A row that repeats its first few positions."""
    positions = torch.arange(length) % PERIODS[turn % len(PERIODS)]
    return subject.draw(1, length, generator)[:, positions]


def _runs(subject: Subject, length: int, turn: int, generator: torch.Generator) -> Tensor:
    """Each position repeats the one before with probability 1/2."""
    starts = torch.rand(length, generator=generator) < 0.5
    starts[0] = True
    return subject.draw(1, length, generator)[:, starts.long().cumsum(0) - 1]


def _special(subject: Subject, length: int, turn: int, generator: torch.Generator) -> Tensor:
    """A random row with special ids at every third position, each in turn."""
    row = subject.draw(1, length, generator)
    ids = torch.tensor(special_ids(subject), device=row.device)
    at = torch.arange(turn % 3, length, 3)
    row[0, at] = ids[(torch.arange(len(at)) + turn * len(at)) % len(ids)]
    return row


def _text(subject: Subject, length: int, turn: int, generator: torch.Generator) -> Tensor:
    assert subject.text is not None
    start = int(torch.randint(len(subject.text), (1,), generator=generator))
    row = subject.text.roll(-start).repeat(-(-length // len(subject.text)))
    return row[None, :length].to(subject.device)
