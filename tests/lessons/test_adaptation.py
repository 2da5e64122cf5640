"""Lessons on adaptation: formulas equal tensor counts; exercises are marked."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lessons.lesson_checks import assert_checks_pass

from regard.lessons import run_lesson
from regard.lessons.exercise import build_sheet

few_examples = settings(max_examples=4, deadline=None)


@few_examples
@given(st.integers(1, 16), st.integers(1, 8), st.integers(1, 256), st.integers(1, 8))
def test_adapter_counts(heads: int, layers: int, length: int, rank: int):
    sizes = {"heads": heads, "layers": layers, "length": length, "rank": rank}
    assert_checks_pass("adapter-counts", **sizes)


def test_parameter_counts_in_bert_base():
    rows = {row[0]: row[4] for row in run_lesson("adapter-counts").result.table.rows}
    assert rows["prompt of 128"] == 99_842
    assert rows["prefix of 128"] == 2_360_834
    assert rows["LoRA, rank 8"] == 12 * 2 * 8 * (768 + 768) + 2 * 768 + 2
    assert rows["full fine-tuning"] == 109_483_778, "as BertForSequenceClassification counts"


@few_examples
@given(st.integers(0, 999_999))
def test_adapter_counts_exercise(seed: int):
    sheet = build_sheet("adapter-counts", seed)
    d, layers, labels, length, rank = (
        sheet.given[name] for name in ("width", "layers", "labels", "length", "rank")
    )
    head = labels * d + labels
    correct = {
        "head": head,
        "prompt": length * d + head,
        "prefix": 2 * length * layers * d + head,
        "lora": 2 * layers * rank * 2 * d + head,
    }
    assert sheet.mark({name: torch.tensor(float(n)) for name, n in correct.items()}).passed
    # The usual mistake: counting a prefix like a prompt.
    mark = sheet.mark({**correct, "prefix": correct["prompt"]})
    assert mark.distance == 0.25
    assert "prefix" in mark.feedback
    assert "too few" in mark.feedback
