"""Beam search: exhaustive and greedy limits, batching, stopping, length penalty."""

from itertools import product

import pytest
import torch
from pydantic import ValidationError

from regard.generation.beam_search import Beam
from regard.generation.generate import BeamSearch, Greedy, generate

STOP, PAD = 1, 0


def exhaustive_search(model, prompt, *, settings, max_new_tokens, vocabulary):
    """The best by score of every continuation that stops or has max_new_tokens tokens."""
    best = None
    for length in range(max_new_tokens + 1):
        for ids in product([t for t in range(vocabulary) if t != STOP], repeat=length):
            tokens = [*ids, STOP] if length < max_new_tokens else list(ids)
            logprob = 0.0
            for position, token in enumerate(tokens):
                logits = model.logits_after([*prompt, *tokens[:position]])
                logprob += logits.log_softmax(dim=0)[token].item()
            score = logprob / ((5 + len(tokens)) / 6) ** settings.length_penalty
            if best is None or score > best[0]:
                best = (score, ids, logprob, length < max_new_tokens)
    return best[1:]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_wide_beam_equals_exhaustive_search(table_model, seed, alpha):
    model = table_model(4, seed=seed)
    settings = BeamSearch(width=4**4, length_penalty=alpha)
    prompts = [[2], [3, 2, 2]]
    generated = generate(model, prompts, strategy=settings, max_new_tokens=4, stop=STOP, pad=PAD)
    for prompt, one in zip(prompts, generated, strict=True):
        ids, logprob, stopped = exhaustive_search(
            model, prompt, settings=settings, max_new_tokens=4, vocabulary=4
        )
        assert (one.ids, one.stopped) == (ids, stopped)
        assert one.logprob == pytest.approx(logprob)


@pytest.mark.parametrize("seed", range(10))
def test_a_beam_of_width_one_equals_greedy_decoding(table_model, seed):
    model = table_model(6, seed=seed, context=9)  # small enough for the window to slide
    prompts = [[2], [3, 4, 5, 2], [5, 5]]
    options = {"max_new_tokens": 12, "stop": STOP, "pad": PAD}
    greedy = generate(model, prompts, strategy=Greedy(), **options)
    for alpha in (0.0, 1.0):
        beam_one = generate(
            model, prompts, strategy=BeamSearch(width=1, length_penalty=alpha), **options
        )
        for left, right in zip(beam_one, greedy, strict=True):
            assert (left.ids, left.stopped) == (right.ids, right.stopped)
            assert left.logprob == pytest.approx(right.logprob)


def test_a_prompt_has_the_same_beam_alone_and_in_a_batch(attention_model):
    model = attention_model(7, context=10)
    prompts = [[2, 3, 4, 5], [6], [2, 2, 6, 3, 3, 4, 5, 6, 2]]
    options = {"strategy": BeamSearch(width=3), "max_new_tokens": 9, "stop": STOP, "pad": PAD}
    together = generate(model, prompts, **options)
    for prompt, one in zip(prompts, together, strict=True):
        [alone] = generate(model, [prompt], **options)
        assert one.ids == alone.ids
        assert one.logprob == pytest.approx(alone.logprob)


def test_a_wider_beam_finds_a_likelier_continuation_than_greedy(table_model):
    # Greedy takes 2 (0.6), after which all tokens are unlikely; 3 (0.4) leads to a certain stop.
    model = table_model(4)
    model.table[:] = -30.0
    model.table[0, :, 2, 2], model.table[0, :, 2, 3] = 0.6, 0.2
    model.table[1, 2, 2, :] = 0.0
    model.table[1, 2, 3, STOP] = 10.0
    options = {"max_new_tokens": 2, "stop": STOP, "pad": PAD}
    [greedy] = generate(model, [[2]], strategy=Greedy(), **options)
    [wide] = generate(model, [[2]], strategy=BeamSearch(width=2, length_penalty=0), **options)
    assert greedy.ids[0] == 2
    assert (wide.ids, wide.stopped) == ((3,), True)
    assert wide.logprob > greedy.logprob


def test_a_stopped_hypothesis_keeps_its_slot_in_the_beam():
    beam = Beam(BeamSearch(width=3), max_new_tokens=9)
    beam.extend(torch.tensor([[0.3, 0.5, 0.2]]).log(), stop=STOP)
    assert [one.ids for one in beam.live] == [(0,), (2,)]
    parents, tokens = beam.extend(torch.tensor([[0.9, 0.0, 0.1], [0.5, 0.0, 0.5]]).log(), stop=STOP)
    assert (len(parents), len(tokens)) == (2, 2)


@pytest.mark.parametrize(("alpha", "is_done"), [(0.0, True), (1.0, False)])
def test_a_beam_is_open_while_the_length_penalty_can_still_change_the_best(alpha, is_done):
    beam = Beam(BeamSearch(width=2, length_penalty=alpha), max_new_tokens=13)
    beam.extend(torch.tensor([[0.4, 0.6, 0.0]]).log(), stop=STOP)
    # ln 0.6 = −0.51 against ln 0.4 = −0.92, which 13 tokens would divide by 3.
    assert beam.is_done() is is_done
    assert beam.best().stopped


def test_suppressed_tokens_are_in_no_beam(table_model):
    [one] = generate(
        table_model(5),
        [[2]],
        strategy=BeamSearch(),
        max_new_tokens=20,
        stop=None,
        pad=PAD,
        suppress_tokens=(0, 1, 3),
    )
    assert set(one.ids) <= {2, 4}
    assert len(one.ids) == 20


@pytest.mark.parametrize("bad", [{"width": 0}, {"length_penalty": -0.1}])
def test_settings_out_of_range_are_refused(bad):
    with pytest.raises(ValidationError):
        BeamSearch(**bad)
