"""Text: batches, packing and tokenizers hold for other sizes; exercises know right from wrong."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lessons.holding import holds

from regard.data.packing import pair
from regard.data.tokenizers.bpe import Bpe
from regard.data.tokenizers.tokenizer import SPECIALS
from regard.data.tokenizers.wordpiece import Merges
from regard.lessons.exercise import pose
from regard.lessons.topics.text import wrong_tokenizer as wrong
from regard.lessons.topics.text.tokenizers import MERGES, three_tokenizers
from regard.models.families.decoder import Decoder

seeds = st.integers(0, 999_999)
few = settings(max_examples=5, deadline=None)


@few
@given(st.integers(1000, 10_000), st.integers(256, 1024), seeds)
def test_padding(rows: int, budget: int, seed: int):
    holds("padding", rows=rows, budget=budget, seed=seed)


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 26), st.integers(1, 7), st.integers(5, 40))
def test_pair_packing(first: int, second: int, limit: int):
    holds("pair-packing", first=first, second=second, limit=limit)


@pytest.mark.parametrize("merges", range(1, 7))
def test_three_tokenizers(merges: int):
    assert three_tokenizers(merges=merges).passed


@few
@given(seeds)
def test_rows_of_like_length_are_the_best_batches(seed: int):
    posed = pose("padding", seed)
    order = np.argsort(posed.given["lengths"]).reshape(3, 3) + 1
    assert posed.mark({"batches": torch.from_numpy(order).double()}).passed
    twice = posed.mark({"batches": torch.ones(3, 3, dtype=torch.float64)})
    assert not twice.passed
    assert "once" in twice.says


def test_mixed_batches_are_told_what_they_waste():
    posed = pose("padding", 0)
    order = np.argsort(posed.given["lengths"]).reshape(3, 3).T + 1
    found = posed.mark({"batches": torch.from_numpy(order.copy()).double()})
    assert not found.passed
    assert "waste" in found.says


class OnPaper:
    def require(self, role: str) -> int:
        return {"cls": 1, "sep": 2}[role]


@few
@given(seeds)
def test_a_packed_pair_is_marked(seed: int):
    posed = pose("pair-packing", seed)
    a, b, limit = (posed.given[name] for name in ("a", "b", "limit"))
    packed = pair(a, b, roles=OnPaper(), limit=limit)
    right = {
        "ids": torch.tensor(packed.ids, dtype=torch.float64),
        "segments": torch.tensor(packed.segments, dtype=torch.float64),
    }
    assert packed.lost == 3
    assert posed.mark(right).passed
    assert not posed.mark({**right, "segments": 1 - right["segments"]}).passed
    whole = pair(a, b, roles=OnPaper())
    too_long = {"ids": torch.tensor(whole.ids), "segments": torch.tensor(whole.segments)}
    assert not posed.mark(too_long).passed


@few
@given(seeds)
def test_merges_of_the_real_trainers_are_right(seed: int):
    posed = pose("three-tokenizers", seed)
    words = posed.given["words"]
    texts = [word for word, count in words.items() for _ in range(count)]
    bpe = Bpe(vocabulary=len(SPECIALS) + 256 + MERGES, minimum_count=1).train(iter(texts))
    answer = {
        "bpe": bpe.description()["model"]["merges"],
        "wordpiece": [list(pair) for pair in first_by_score(words)],
    }
    assert posed.mark(answer).passed
    wrong_order = {**answer, "bpe": [["?", "!"], *answer["bpe"][1:]]}
    found = posed.mark(wrong_order)
    assert found.distance == pytest.approx(0.5)
    assert "bpe: 0 of 3" in found.says


def first_by_score(words: dict[str, int]) -> list[tuple[str, str]]:
    """The pairs that the real WordPiece merges first, read off before each is merged."""
    learning, found = Merges(words, minimum_count=1), []
    for _ in range(MERGES):
        best = min(learning.keys.values())
        found.append((best[2], best[3]))
        learning._merge(found[-1])
    return found


@pytest.mark.parametrize("seed", [0, 5])
def test_ids_are_names_that_may_change_with_the_table(seed: int):
    texts = wrong._texts()
    own = wrong._learnt(texts.train[:300])
    order = torch.randperm(
        wrong.PIECES - len(SPECIALS), generator=torch.Generator().manual_seed(seed)
    )
    other = wrong._renumbered(own, order.tolist())
    assert own.fingerprint != other.fingerprint
    assert own.tokens(own.encode(texts.dev[0])) == other.tokens(other.encode(texts.dev[0]))
    model = Decoder(layers=1, heads=2, width=16, context=wrong.PLACES, init_std=0.5).build(
        vocabulary=wrong.PIECES, seed=seed
    )
    batches = [wrong._measured(texts.dev[:5], one) for one in (own, other)]
    moved = wrong._rows_moved(model, order)
    assert wrong._loss(moved, batches[1]) == pytest.approx(wrong._loss(model, batches[0]), abs=1e-4)
    assert wrong._loss(model, batches[1]) != pytest.approx(wrong._loss(model, batches[0]), abs=1e-2)
    assert wrong._refused(own, other) == [True, True]
    assert wrong._refused(own, own) == []


@pytest.mark.long
def test_a_model_is_lost_with_another_tokenizer():
    holds("wrong-tokenizer")
