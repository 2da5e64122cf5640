"""Generation: greedy and sampled continuations, batching, caching, stopping, errors."""

import pytest
import torch
from scipy import stats

from regard.core.errors import UserError
from regard.generation.generate import BeamSearch, Greedy, Sampling, generate

STOP, PAD = 1, 0
OPTIONS = {"max_new_tokens": 12, "stop": STOP, "pad": PAD}
PROMPTS = [[2], [3, 4, 5, 2, 6], [5, 5, 3], [6, 2]]
STRATEGIES = [
    Greedy(),
    Sampling(),
    Sampling(temperature=1.5, top_k=3, top_p=0.9),
    BeamSearch(width=3),
]


def greedy_reference(model, prompt, *, max_new_tokens):
    """Greedy decoding without cache, padding or batch, within the context."""
    ids, logprob = list(prompt), 0.0
    for _ in range(max_new_tokens):
        logprobs = model.logits_after(ids).log_softmax(dim=0)
        token = int(logprobs.argmax())
        logprob += logprobs[token].item()
        if token == STOP:
            return tuple(ids[len(prompt) :]), logprob, True
        ids.append(token)
    return tuple(ids[len(prompt) :]), logprob, False


@pytest.mark.parametrize("seed", range(6))
def test_greedy_takes_the_most_likely_token_at_each_step(table_model, seed):
    model = table_model(7, seed=seed)
    for prompt, one in zip(
        PROMPTS, generate(model, PROMPTS, strategy=Greedy(), **OPTIONS), strict=True
    ):
        ids, logprob, stopped = greedy_reference(model, prompt, max_new_tokens=12)
        assert (one.ids, one.stopped) == (ids, stopped)
        assert one.logprob == pytest.approx(logprob)


def test_cached_equals_uncached(attention_model):
    model = attention_model(7, context=16)
    [one] = generate(
        model, [[2, 3]], strategy=Sampling(), max_new_tokens=12, stop=None, pad=PAD, seed=4
    )
    model.eval()
    with torch.no_grad():
        ids = [2, 3]
        logprob = 0.0
        for token in one.ids:
            logprob += model.uncached(ids).log_softmax(dim=0)[token].item()
            ids.append(token)
    assert one.logprob == pytest.approx(logprob)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_continuations_do_not_depend_on_the_batch(attention_model, strategy):
    model = attention_model(7, context=8)
    together = generate(model, PROMPTS, strategy=strategy, **OPTIONS)
    for number, prompt in enumerate(PROMPTS):
        [alone] = generate(model, [prompt], strategy=strategy, first_index=number, **OPTIONS)
        assert together[number].ids == alone.ids
        assert together[number].logprob == pytest.approx(alone.logprob)
    others = generate(model, [[6] * 7, *PROMPTS[1:2]], strategy=strategy, **OPTIONS)
    assert others[1].ids == together[1].ids


@pytest.mark.parametrize("strategy", [Greedy(), Sampling()], ids=repr)
def test_a_sliding_window_restarts_from_its_last_half(table_model, strategy):
    model = table_model(7, context=6, seed=2)
    options = {"strategy": strategy, "stop": None, "pad": PAD, "seed": 3}
    [one] = generate(model, [[2, 3, 4, 5]], max_new_tokens=9, **options)
    text = [2, 3, 4, 5, *one.ids]
    # After 6 tokens the window is full; the 7th leaves the last 3, and so on every 4 tokens.
    window_starts = {4: 0, 5: 0, 6: 0, 7: 4, 8: 4, 9: 4, 10: 4, 11: 8, 12: 8}
    logprob = sum(
        model.logits_after(text[first:position]).log_softmax(dim=0)[text[position]].item()
        for position, first in window_starts.items()
    )
    assert one.logprob == pytest.approx(logprob)


def test_the_seed_decides_and_equal_prompts_draw_differently(table_model):
    def sample(seed):
        generated = generate(table_model(7), [[2], [2]], strategy=Sampling(), seed=seed, **OPTIONS)
        return [one.ids for one in generated]

    assert sample(0) == sample(0)
    assert sample(0) != sample(1)
    assert sample(0)[0] != sample(0)[1]


def test_sampling_follows_the_models_distribution(table_model):
    model = table_model(5, seed=1)
    options = {"strategy": Sampling(), "max_new_tokens": 1, "stop": None, "pad": PAD}
    generated = generate(model, [[2]] * 2000, **options)
    counts = torch.tensor([one.ids[0] for one in generated]).bincount(minlength=5)
    expected = model.logits_after([2]).softmax(dim=0) * 2000
    assert stats.chisquare(counts.numpy(), expected.numpy()).pvalue > 0.001


def test_the_stop_token_ends_a_row_and_is_not_part_of_it(table_model):
    model = table_model(5)
    model.table[:, :, :, STOP] = -100.0
    model.table[:, :, 3, STOP] = 100.0  # stops after every 3
    model.table[:, :, 2, :] = -100.0
    model.table[:, :, 2, 4] = 100.0  # 2 leads to 4, 4 to 4
    model.table[:, :, 4, :] = -100.0
    model.table[:, :, 4, 4] = 100.0
    stopped, endless = generate(model, [[3], [2]], strategy=Greedy(), **OPTIONS)
    assert (stopped.ids, stopped.stopped) == ((), True)
    assert (endless.ids, endless.stopped) == ((4,) * 12, False)


def test_stopped_rows_cost_no_further_steps(table_model):
    model = table_model(5)
    model.table[:, :, :, STOP] = 100.0
    generate(model, [[2], [3]], strategy=Greedy(), **OPTIONS)
    assert model.step_lengths == [1]


def test_rows_that_outlive_a_longer_neighbour_use_the_whole_context(table_model):
    model = table_model(5, context=8)
    model.table[:, :, :, STOP] = -100.0
    model.table[:, :, 3, STOP] = 100.0
    long_but_done, short = [2, 2, 2, 2, 2, 2, 2, 3], [2]
    options = {"strategy": Greedy(), "suppress_tokens": (0, 3), **OPTIONS, "max_new_tokens": 7}
    generated = generate(model, [long_but_done, short], **options)
    assert generated[0].stopped
    assert generated[1] == generate(model, [short], **options)[0]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_suppressed_tokens_are_never_generated(table_model, strategy):
    options = {"max_new_tokens": 30, "stop": None, "pad": PAD, "suppress_tokens": (0, 1, 4)}
    for one in generate(table_model(7), PROMPTS, strategy=strategy, **options):
        assert len(one.ids) == 30
        assert not {0, 1, 4} & set(one.ids)


def test_generation_disables_dropout_and_restores_training_mode(attention_model):
    model = attention_model(7)
    model.out.eval()
    assert model.training
    first = generate(model, [[2, 3]], strategy=Greedy(), **OPTIONS)
    assert first == generate(model, [[2, 3]], strategy=Greedy(), **OPTIONS)
    assert (model.training, model.dropout.training, model.out.training) == (True, True, False)


def test_the_models_logits_are_not_modified_in_place(table_model):
    model = table_model(5)
    logits = model.table[0, 0, :1]
    before = logits.clone()
    model.step = lambda ids, **_: logits
    generate(model, [[2]], strategy=Greedy(), suppress_tokens=(0,), **OPTIONS)
    assert torch.equal(before, logits)


def test_no_prompts_give_no_continuations(table_model):
    assert generate(table_model(5), [], strategy=Greedy(), **OPTIONS) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompts": [[2], []]}, "prompt 2 has no tokens"),
        ({"max_new_tokens": 0}, "generates nothing"),
        ({"suppress_tokens": (STOP,)}, "nothing could ever stop"),
        ({"seed": -1}, "negative"),
        ({"suppress_tokens": (0, 1, 2, 3, 4), "stop": None}, "all tokens are suppressed"),
    ],
)
def test_impossible_arguments_are_refused(table_model, changes, message):
    arguments = {"prompts": [[2]], "strategy": Greedy(), **OPTIONS} | changes
    with pytest.raises(UserError, match=message):
        generate(table_model(5), **arguments)


def test_nan_logits_are_an_error(table_model):
    model = table_model(5)
    model.table[:] = torch.nan
    with pytest.raises(UserError, match="are NaN"):
        generate(model, [[2]], strategy=Sampling(), **OPTIONS)
