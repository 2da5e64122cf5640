"""Lessons on text: checks pass for other parameters; exercises accept correct answers only."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lessons.lesson_checks import assert_checks_pass

from regard.data.special_tokens import sequence_pair
from regard.data.tokenizers.bpe import Bpe
from regard.data.tokenizers.tokenizer import SPECIALS
from regard.data.tokenizers.wordpiece import PairMerger
from regard.lessons.exercise import build_sheet
from regard.lessons.topics.text import wrong_tokenizer
from regard.lessons.topics.text.tokenizers import MERGES, three_tokenizers
from regard.models.families.decoder import Decoder

seeds = st.integers(0, 999_999)
few_examples = settings(max_examples=5, deadline=None)


@few_examples
@given(st.integers(1000, 10_000), st.integers(256, 1024), seeds)
def test_padding(rows: int, budget: int, seed: int):
    assert_checks_pass("padding", rows=rows, budget=budget, seed=seed)


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 26), st.integers(1, 7), st.integers(5, 40))
def test_pair_packing(first: int, second: int, limit: int):
    assert_checks_pass("pair-packing", first=first, second=second, limit=limit)


@pytest.mark.parametrize("merges", range(1, 7))
def test_three_tokenizers(merges: int):
    assert three_tokenizers(merges=merges).passed


@few_examples
@given(seeds)
def test_padding_exercise_accepts_batches_of_similar_length(seed: int):
    sheet = build_sheet("padding", seed)
    order = np.argsort(sheet.given["lengths"]).reshape(3, 3) + 1
    assert sheet.mark({"batches": torch.from_numpy(order).double()}).passed
    repeated = sheet.mark({"batches": torch.ones(3, 3, dtype=torch.float64)})
    assert not repeated.passed
    assert "once" in repeated.feedback


def test_padding_exercise_reports_the_padding_fraction():
    sheet = build_sheet("padding", 0)
    order = np.argsort(sheet.given["lengths"]).reshape(3, 3).T + 1
    mark = sheet.mark({"batches": torch.from_numpy(order.copy()).double()})
    assert not mark.passed
    assert "Padding fraction" in mark.feedback


class SpecialIds:
    def require(self, role: str) -> int:
        return {"cls": 1, "sep": 2}[role]


@few_examples
@given(seeds)
def test_pair_packing_exercise(seed: int):
    sheet = build_sheet("pair-packing", seed)
    a, b, limit = (sheet.given[name] for name in ("a", "b", "limit"))
    packed = sequence_pair(a, b, roles=SpecialIds(), limit=limit)
    correct = {
        "ids": torch.tensor(packed.ids, dtype=torch.float64),
        "segments": torch.tensor(packed.segments, dtype=torch.float64),
    }
    assert packed.truncated == 3
    assert sheet.mark(correct).passed
    assert not sheet.mark({**correct, "segments": 1 - correct["segments"]}).passed
    untruncated = sequence_pair(a, b, roles=SpecialIds())
    too_long = {
        "ids": torch.tensor(untruncated.ids),
        "segments": torch.tensor(untruncated.segments),
    }
    assert not sheet.mark(too_long).passed


@few_examples
@given(seeds)
def test_three_tokenizers_exercise_accepts_merges_of_the_trainers(seed: int):
    sheet = build_sheet("three-tokenizers", seed)
    words = sheet.given["words"]
    texts = [word for word, count in words.items() for _ in range(count)]
    bpe = Bpe(vocabulary=len(SPECIALS) + 256 + MERGES, minimum_count=1).train(iter(texts))
    answer = {
        "bpe": bpe.to_dict()["model"]["merges"],
        "wordpiece": [list(pair) for pair in first_wordpiece_merges(words)],
    }
    assert sheet.mark(answer).passed
    wrong_first_merge = {**answer, "bpe": [["?", "!"], *answer["bpe"][1:]]}
    mark = sheet.mark(wrong_first_merge)
    assert mark.distance == pytest.approx(0.5)
    assert "bpe: 0 of 3" in mark.feedback


def first_wordpiece_merges(words: dict[str, int]) -> list[tuple[str, str]]:
    """The pairs that `PairMerger` merges first."""
    merger, merges = PairMerger(words, minimum_count=1), []
    for _ in range(MERGES):
        best = min(merger.keys.values())
        merges.append((best[2], best[3]))
        merger._merge(merges[-1])
    return merges


@pytest.mark.parametrize("seed", [1, 5])
def test_permuted_ids_need_permuted_embeddings(seed: int):
    train, dev, _ = wrong_tokenizer._texts()
    own = Bpe(vocabulary=wrong_tokenizer.VOCABULARY, bytes=False).train(iter(train[:300]))
    permutation = torch.randperm(
        wrong_tokenizer.VOCABULARY - len(SPECIALS), generator=torch.Generator().manual_seed(seed)
    )
    other = wrong_tokenizer._renumber(own, permutation.tolist())
    assert own.fingerprint != other.fingerprint
    assert own.tokens(own.encode(dev[0])) == other.tokens(other.encode(dev[0]))
    context = wrong_tokenizer.CONTEXT
    family = Decoder(layers=1, heads=2, width=16, context=context, init_std=0.5)
    model = family.build(vocabulary=wrong_tokenizer.VOCABULARY, seed=seed)
    own_batch, other_batch = (
        wrong_tokenizer._evaluation_batch(dev[:5], tokenizer) for tokenizer in (own, other)
    )
    permuted = wrong_tokenizer._permute_embeddings(model, permutation)
    loss = wrong_tokenizer._loss(model, own_batch)
    assert wrong_tokenizer._loss(permuted, other_batch) == pytest.approx(loss, abs=1e-4)
    assert wrong_tokenizer._loss(model, other_batch) != pytest.approx(loss, abs=1e-2)
    assert wrong_tokenizer._named_in_error(own, other) == [True, True]
    assert wrong_tokenizer._named_in_error(own, own) == []


@pytest.mark.long
def test_wrong_tokenizer():
    assert_checks_pass("wrong-tokenizer")
