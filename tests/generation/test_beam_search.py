from itertools import product

import pytest
import torch
from pydantic import ValidationError

from regard.generation.beam_search import Hypotheses
from regard.generation.generate import BeamSearch, Greedy, generate

STOP, PAD = 1, 0


def exhaustive(model, prompt, *, beam, max_new, vocabulary):
    """Every continuation that stops within max_new tokens or is that long; the best by score."""
    best = None
    for length in range(max_new + 1):
        for ids in product([t for t in range(vocabulary) if t != STOP], repeat=length):
            written = [*ids, STOP] if length < max_new else list(ids)
            logprob = 0.0
            for place, token in enumerate(written):
                logits = model.logits_after([*prompt, *written[:place]])
                logprob += logits.log_softmax(dim=0)[token].item()
            score = logprob / ((5 + len(written)) / 6) ** beam.length_penalty
            if best is None or score > best[0]:
                best = (score, ids, logprob, length < max_new)
    return best[1:]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_beam_wide_enough_is_exhaustive_search(table, seed, alpha):
    model = table(4, seed=seed)
    beam = BeamSearch(width=4**4, length_penalty=alpha)
    prompts = [[2], [3, 2, 2]]
    found = generate(model, prompts, strategy=beam, max_new=4, stop=STOP, pad=PAD)
    for prompt, one in zip(prompts, found, strict=True):
        ids, logprob, stopped = exhaustive(model, prompt, beam=beam, max_new=4, vocabulary=4)
        assert (one.ids, one.stopped) == (ids, stopped)
        assert one.logprob == pytest.approx(logprob)


@pytest.mark.parametrize("seed", range(10))
def test_a_beam_of_one_is_greedy(table, seed):
    model = table(6, seed=seed, context=9)  # small enough for the window to slide
    prompts = [[2], [3, 4, 5, 2], [5, 5]]
    options = {"max_new": 12, "stop": STOP, "pad": PAD}
    greedy = generate(model, prompts, strategy=Greedy(), **options)
    for alpha in (0.0, 1.0):
        beam = generate(
            model, prompts, strategy=BeamSearch(width=1, length_penalty=alpha), **options
        )
        for left, right in zip(beam, greedy, strict=True):
            assert (left.ids, left.stopped) == (right.ids, right.stopped)
            assert left.logprob == pytest.approx(right.logprob)


def test_each_prompt_is_searched_as_if_alone(attention):
    model = attention(7, context=10)
    prompts = [[2, 3, 4, 5], [6], [2, 2, 6, 3, 3, 4, 5, 6, 2]]
    options = {"strategy": BeamSearch(width=3), "max_new": 9, "stop": STOP, "pad": PAD}
    together = generate(model, prompts, **options)
    for prompt, one in zip(prompts, together, strict=True):
        [alone] = generate(model, [prompt], **options)
        assert one.ids == alone.ids
        assert one.logprob == pytest.approx(alone.logprob)


def test_a_wider_beam_finds_what_greedy_misses(table):
    # Greedy takes 2 (0.6) and then must choose among poor ones; 3 (0.4) leads to a sure stop.
    model = table(4)
    model.scores[:] = -30.0
    model.scores[0, :, 2, 2], model.scores[0, :, 2, 3] = 0.6, 0.2
    model.scores[1, 2, 2, :] = 0.0
    model.scores[1, 2, 3, STOP] = 10.0
    options = {"max_new": 2, "stop": STOP, "pad": PAD}
    [greedy] = generate(model, [[2]], strategy=Greedy(), **options)
    [wide] = generate(model, [[2]], strategy=BeamSearch(width=2, length_penalty=0), **options)
    assert greedy.ids[0] == 2
    assert (wide.ids, wide.stopped) == ((3,), True)
    assert wide.logprob > greedy.logprob


def test_what_stopped_keeps_its_place_in_the_beam():
    search = Hypotheses(BeamSearch(width=3), max_new=9)
    search.grow(torch.tensor([[0.3, 0.5, 0.2]]).log(), stop=STOP)
    assert [one.ids for one in search.growing] == [(0,), (2,)]
    parents, tokens = search.grow(torch.tensor([[0.9, 0.0, 0.1], [0.5, 0.0, 0.5]]).log(), stop=STOP)
    assert (len(parents), len(tokens)) == (2, 2)


@pytest.mark.parametrize(("alpha", "decided"), [(0.0, True), (1.0, False)])
def test_a_search_goes_on_while_length_may_still_make_up_for_likelihood(alpha, decided):
    search = Hypotheses(BeamSearch(width=2, length_penalty=alpha), max_new=13)
    search.grow(torch.tensor([[0.4, 0.6, 0.0]]).log(), stop=STOP)
    # ln 0.6 = −0.51 against ln 0.4 = −0.92, which 13 tokens would divide by 3.
    assert search.is_decided() is decided
    assert search.best().stopped


def test_forbidden_ids_are_in_no_beam(table):
    [one] = generate(
        table(5), [[2]], strategy=BeamSearch(), max_new=20, stop=None, pad=PAD, forbidden=(0, 1, 3)
    )
    assert set(one.ids) <= {2, 4}
    assert len(one.ids) == 20


@pytest.mark.parametrize("bad", [{"width": 0}, {"length_penalty": -0.1}])
def test_settings_out_of_range_are_refused(bad):
    with pytest.raises(ValidationError):
        BeamSearch(**bad)
