"""A row's states are those that decoding saw, however often its window slid."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.core.settings import read_settings
from regard.generation.decoding_window import DecodingWindow
from regard.generation.row_states import decoding_spans, row_states
from regard.models.families import FAMILIES

CONTEXT = 8


def decoder(**table):
    settings = {"context": CONTEXT, "width": 8, "heads": 2, "layers": 2, **table}
    model = read_settings(FAMILIES.get("decoder").part, settings).build(vocabulary=20, seed=1)
    return model.eval()


@given(prompt=st.integers(1, 30), new=st.integers(0, 40), context=st.integers(2, 12))
def test_spans_are_the_windows_of_decoding(prompt, new, context):
    """The oracle: prefill, then one token after another, as `DecodingWindow` cuts."""
    kept = max(1, context // 2)
    length = prompt + new
    begin = prompt - kept if prompt > context else 0
    windows = dict.fromkeys(range(begin, prompt), begin)
    for position in range(prompt, length):
        if position - begin >= context:
            begin = position + 1 - kept
        windows[position] = begin
    spans = decoding_spans(prompt=prompt, length=length, context=context)
    found = {p: span.begin for span in spans for p in range(span.first, span.end)}
    assert found == windows
    assert all(span.end - span.begin <= context for span in spans)


@pytest.mark.parametrize("table", [{}, {"positions": "rotary"}, {"attention": "additive"}])
@pytest.mark.parametrize("prompt", [3, 8, 11])
def test_logits_of_states_equal_those_of_decoding(table, prompt):
    model = decoder(**table)
    row = torch.randint(20, (30,), generator=torch.Generator().manual_seed(0)).tolist()
    with torch.inference_mode():
        window = DecodingWindow(model, pad=0)
        steps = [window.prefill([row[:prompt]])]
        steps += [window.advance(torch.tensor([token])) for token in row[prompt:]]
        logits = {
            span.first + n: logits
            for span, states in row_states(model, row, prompt=prompt)
            for n, logits in enumerate(model.head(states))
        }
    for position, step in enumerate(steps, start=prompt - 1):
        assert torch.allclose(logits[position], step[0], atol=1e-5), position
