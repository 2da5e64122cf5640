"""Adaptation: formulas and tensors agree for other sizes; counts are marked."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.lessons import run_lesson
from regard.lessons.exercise import pose

few = settings(max_examples=4, deadline=None)


@few
@given(st.integers(1, 16), st.integers(1, 8), st.integers(1, 256), st.integers(1, 8))
def test_adapter_counts(heads: int, layers: int, length: int, rank: int):
    ran = run_lesson("adapter-counts", heads=heads, layers=layers, length=length, rank=rank)
    assert [check.as_dict() for check in ran.result.checks if not check.passed] == []


def test_a_prompt_in_bert_is_not_a_prefix():
    rows = {row[0]: row[4] for row in run_lesson("adapter-counts").result.table.rows}
    assert rows["prompt of 128"] == 99_842
    assert rows["prefix of 128"] == 2_360_834
    assert rows["LoRA, rank 8"] == 12 * 2 * 8 * (768 + 768) + 2 * 768 + 2
    assert rows["everything"] == 109_483_778, "as BertForSequenceClassification counts"


@few
@given(st.integers(0, 999_999))
def test_counts_are_marked(seed: int):
    posed = pose("adapter-counts", seed)
    d, layers, labels, length, rank = (
        posed.given[name] for name in ("width", "layers", "labels", "length", "rank")
    )
    head = labels * d + labels
    right = {
        "head": head,
        "prompt": length * d + head,
        "prefix": 2 * length * layers * d + head,
        "lora": 2 * layers * rank * 2 * d + head,
    }
    assert posed.mark({name: torch.tensor(float(n)) for name, n in right.items()}).passed
    # The usual mistake: a prefix is taken for a prompt.
    found = posed.mark({**right, "prefix": right["prompt"]})
    assert found.distance == 0.25
    assert "prefix" in found.says
    assert "too few" in found.says
