import pytest
import torch
from scipy import stats

from regard.core.errors import UserError
from regard.generation.generate import BeamSearch, Greedy, Sampling, generate

STOP, PAD = 1, 0
OPTIONS = {"max_new": 12, "stop": STOP, "pad": PAD}
PROMPTS = [[2], [3, 4, 5, 2, 6], [5, 5, 3], [6, 2]]
STRATEGIES = [
    Greedy(),
    Sampling(),
    Sampling(temperature=1.5, top_k=3, top_p=0.9),
    BeamSearch(width=3),
]


def greedily(model, prompt, *, max_new):
    """The same without cache, padding or batch, for texts that fit the context."""
    ids, logprob = list(prompt), 0.0
    for _ in range(max_new):
        logprobs = model.logits_after(ids).log_softmax(dim=0)
        token = int(logprobs.argmax())
        logprob += logprobs[token].item()
        if token == STOP:
            return tuple(ids[len(prompt) :]), logprob, True
        ids.append(token)
    return tuple(ids[len(prompt) :]), logprob, False


@pytest.mark.parametrize("seed", range(6))
def test_greedy_is_the_most_likely_token_at_each_step(table, seed):
    model = table(7, seed=seed)
    for prompt, one in zip(
        PROMPTS, generate(model, PROMPTS, strategy=Greedy(), **OPTIONS), strict=True
    ):
        ids, logprob, stopped = greedily(model, prompt, max_new=12)
        assert (one.ids, one.stopped) == (ids, stopped)
        assert one.logprob == pytest.approx(logprob)


def test_cached_equals_uncached(attention):
    model = attention(7, context=16)
    [one] = generate(model, [[2, 3]], strategy=Sampling(), max_new=12, stop=None, pad=PAD, seed=4)
    model.eval()
    with torch.no_grad():
        ids = [2, 3]
        logprob = 0.0
        for token in one.ids:
            logprob += model.uncached(ids).log_softmax(dim=0)[token].item()
            ids.append(token)
    assert one.logprob == pytest.approx(logprob)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_neighbours_do_not_matter(attention, strategy):
    model = attention(7, context=8)
    together = generate(model, PROMPTS, strategy=strategy, **OPTIONS)
    for number, prompt in enumerate(PROMPTS):
        [alone] = generate(model, [prompt], strategy=strategy, first_number=number, **OPTIONS)
        assert together[number].ids == alone.ids
        assert together[number].logprob == pytest.approx(alone.logprob)
    others = generate(model, [[6] * 7, *PROMPTS[1:2]], strategy=strategy, **OPTIONS)
    assert others[1].ids == together[1].ids


@pytest.mark.parametrize("strategy", [Greedy(), Sampling()], ids=repr)
def test_a_sliding_window_is_a_fresh_start_from_its_last_half(table, strategy):
    model = table(7, context=6, seed=2)
    options = {"strategy": strategy, "stop": None, "pad": PAD, "seed": 3}
    [one] = generate(model, [[2, 3, 4, 5]], max_new=9, **options)
    text = [2, 3, 4, 5, *one.ids]
    # After 6 tokens the window is full; the 7th leaves the last 3, and so on every 4 tokens.
    seen = {4: 0, 5: 0, 6: 0, 7: 4, 8: 4, 9: 4, 10: 4, 11: 8, 12: 8}
    logprob = sum(
        model.logits_after(text[first:place]).log_softmax(dim=0)[text[place]].item()
        for place, first in seen.items()
    )
    assert one.logprob == pytest.approx(logprob)


def test_the_seed_decides_and_equal_prompts_differ(table):
    def drawn(seed):
        written = generate(table(7), [[2], [2]], strategy=Sampling(), seed=seed, **OPTIONS)
        return [one.ids for one in written]

    assert drawn(0) == drawn(0)
    assert drawn(0) != drawn(1)
    assert drawn(0)[0] != drawn(0)[1]


def test_sampling_follows_the_models_distribution(table):
    model = table(5, seed=1)
    options = {"strategy": Sampling(), "max_new": 1, "stop": None, "pad": PAD}
    written = generate(model, [[2]] * 2000, **options)
    found = torch.tensor([one.ids[0] for one in written]).bincount(minlength=5)
    expected = model.logits_after([2]).softmax(dim=0) * 2000
    assert stats.chisquare(found.numpy(), expected.numpy()).pvalue > 0.001


def test_the_stop_ends_a_row_and_is_not_part_of_the_text(table):
    model = table(5)
    model.scores[:, :, :, STOP] = -100.0
    model.scores[:, :, 3, STOP] = 100.0  # stops behind every 3
    model.scores[:, :, 2, :] = -100.0
    model.scores[:, :, 2, 4] = 100.0  # 2 leads to 4, 4 to 4
    model.scores[:, :, 4, :] = -100.0
    model.scores[:, :, 4, 4] = 100.0
    stopped, endless = generate(model, [[3], [2]], strategy=Greedy(), **OPTIONS)
    assert (stopped.ids, stopped.stopped) == ((), True)
    assert (endless.ids, endless.stopped) == ((4,) * 12, False)


def test_stopped_rows_cost_no_further_steps(table):
    model = table(5)
    model.scores[:, :, :, STOP] = 100.0
    generate(model, [[2], [3]], strategy=Greedy(), **OPTIONS)
    assert model.lengths_read == [1]


def test_rows_that_outlive_a_longer_neighbour_have_the_whole_context(table):
    model = table(5, context=8)
    model.scores[:, :, :, STOP] = -100.0
    model.scores[:, :, 3, STOP] = 100.0
    long_but_done, short = [2, 2, 2, 2, 2, 2, 2, 3], [2]
    options = {"strategy": Greedy(), "forbidden": (0, 3), **OPTIONS, "max_new": 7}
    written = generate(model, [long_but_done, short], **options)
    assert written[0].stopped
    assert written[1] == generate(model, [short], **options)[0]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_forbidden_ids_are_never_written(table, strategy):
    options = {"max_new": 30, "stop": None, "pad": PAD, "forbidden": (0, 1, 4)}
    for one in generate(table(7), PROMPTS, strategy=strategy, **options):
        assert len(one.ids) == 30
        assert not {0, 1, 4} & set(one.ids)


def test_a_model_in_training_is_read_without_dropout_and_left_as_it_was(attention):
    model = attention(7)
    model.out.eval()
    assert model.training
    first = generate(model, [[2, 3]], strategy=Greedy(), **OPTIONS)
    assert first == generate(model, [[2, 3]], strategy=Greedy(), **OPTIONS)
    assert (model.training, model.dropout.training, model.out.training) == (True, True, False)


def test_the_models_own_scores_are_not_written_into(table):
    model = table(5)
    own = model.scores[0, 0, :1]
    before = own.clone()
    model.step = lambda ids, **_: own
    generate(model, [[2]], strategy=Greedy(), forbidden=(0,), **OPTIONS)
    assert torch.equal(before, own)


def test_no_prompts_no_texts(table):
    assert generate(table(5), [], strategy=Greedy(), **OPTIONS) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"prompts": [[2], []]}, "prompt 2 has no tokens"),
        ({"max_new": 0}, "asks for nothing"),
        ({"forbidden": (STOP,)}, "nothing could ever stop"),
        ({"seed": -1}, "negative"),
        ({"forbidden": (0, 1, 2, 3, 4), "stop": None}, "all are forbidden"),
    ],
)
def test_what_cannot_be_asked_for_is_said(table, changes, said):
    call = {"prompts": [[2]], "strategy": Greedy(), **OPTIONS} | changes
    with pytest.raises(UserError, match=said):
        generate(table(5), **call)


def test_a_diverged_model_is_said(table):
    model = table(5)
    model.scores[:] = torch.nan
    with pytest.raises(UserError, match="not numbers"):
        generate(model, [[2]], strategy=Sampling(), **OPTIONS)
