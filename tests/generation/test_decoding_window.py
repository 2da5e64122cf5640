"""The decoding window: left padding, sliding, row selection."""

import torch

from regard.generation.decoding_window import DecodingWindow


def test_rows_are_padded_on_the_left(table_model):
    window = DecodingWindow(table_model(9), pad=0)
    window.prefill([[2, 3, 4], [5]])
    assert window.ids.tolist() == [[2, 3, 4], [0, 0, 5]]
    assert window.valid.tolist() == [[True] * 3, [False, False, True]]


def test_a_prompt_beyond_the_context_keeps_half_of_it(table_model):
    window = DecodingWindow(table_model(9, context=6), pad=0)
    window.prefill([[2, 3, 4, 5, 6, 7, 8], [5]])
    assert window.ids.tolist() == [[6, 7, 8], [0, 0, 5]]


def test_a_full_row_slides_and_its_neighbour_keeps_all_tokens(table_model):
    window = DecodingWindow(table_model(9, context=6), pad=0)
    window.prefill([[2, 3, 4, 5, 6, 7], [5, 6, 7, 8]])
    logits = window.advance(torch.tensor([8, 2]))
    assert window.ids.tolist() == [[0, 0, 6, 7, 8], [5, 6, 7, 8, 2]]
    torch.testing.assert_close(logits[0], window.model.logits_after([6, 7, 8]))
    torch.testing.assert_close(logits[1], window.model.logits_after([5, 6, 7, 8, 2]))


def test_selected_rows_keep_their_past(table_model):
    window = DecodingWindow(table_model(9), pad=0)
    window.prefill([[2, 3], [4], [5, 6]])
    window.select(torch.tensor([2, 0, 0, 1]))
    logits = window.advance(torch.tensor([7, 7, 8, 8]))
    for row, tokens in enumerate([[5, 6, 7], [2, 3, 7], [2, 3, 8], [4, 8]]):
        torch.testing.assert_close(logits[row], window.model.logits_after(tokens))


def test_a_context_of_one_still_decodes(table_model):
    window = DecodingWindow(table_model(9, context=1), pad=0)
    window.prefill([[2, 3]])
    logits = window.advance(torch.tensor([5]))
    torch.testing.assert_close(logits[0], window.model.logits_after([5]))


def test_each_token_is_processed_once_until_the_window_slides(table_model):
    model = table_model(9, context=6)
    window = DecodingWindow(model, pad=0)
    window.prefill([[2, 3, 4]])
    for _ in range(4):
        window.advance(torch.tensor([5]))
    assert model.step_lengths == [3, 1, 1, 1, 3]
