"""Rows of probes: every kind is there, and all special ids."""

import torch

from regard.audits.leaks.rows import special_ids, varied_rows
from regard.audits.subject import Subject

LENGTH, COUNT = 12, 24


def subject(**options: object) -> Subject:
    return Subject("none", lambda module, ids, valid: ids, vocabulary=50, **options)  # type: ignore[arg-type]


def test_every_kind_of_row_is_drawn() -> None:
    text = torch.arange(20, 41)
    drawn = subject(special_ids=(3, 9, 41), text=text)
    rows = varied_rows(drawn, LENGTH, COUNT, torch.Generator().manual_seed(0))
    assert rows.shape == (COUNT, LENGTH)
    assert any(len(set(row)) == 1 for row in rows.tolist())
    assert any(row[:10] == row[2:] and len(set(row)) == 2 for row in rows.tolist())
    steps = (rows[:, 1:] - rows[:, :-1]) % 21
    assert bool((steps == 1).all(dim=1).any())
    for special in (3, 9, 41):
        assert bool((rows == special).any())


def test_special_ids_of_an_unknown_vocabulary_are_its_ends() -> None:
    assert special_ids(subject()) == (0, 1, 2, 3, 4, 5, 6, 49)
    tiny = Subject("none", lambda module, ids, valid: ids, vocabulary=2)
    assert special_ids(tiny) == (0, 1)


def test_embeddings_are_rows_too() -> None:
    wide = Subject("none", lambda module, x, valid: x, width=3)
    assert varied_rows(wide, 5, 9, torch.Generator()).shape == (9, 5, 3)
