import math
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.evaluation.baselines import ngrams
from regard.evaluation.baselines.ngrams import KneserNey

START, STOP, VOCABULARY = 0, 1, 7


class Reference:
    """Interpolated Kneser-Ney straight from the formula, with dictionaries."""

    def __init__(self, documents, order):
        self.order = order
        counts = Counter(gram for document in documents for gram in self.grams(document))
        self.counts = {order: counts}
        for k in range(order - 1, 0, -1):
            before = defaultdict(set)
            for gram in self.counts[k + 1]:
                before[gram[1:]].add(gram[0])
            self.counts[k] = {gram: len(tokens) for gram, tokens in before.items()}

    def grams(self, document):
        padded = [START] * (self.order - 1) + [int(token) for token in document] + [STOP]
        for last in range(self.order - 1, len(padded)):
            yield tuple(padded[last - self.order + 1 : last + 1])

    def p(self, gram):
        if not gram:
            return 1 / VOCABULARY
        counts = self.counts[len(gram)]
        followers = {g: c for g, c in counts.items() if g[:-1] == gram[:-1]}
        if not followers:
            return self.p(gram[1:])
        once = sum(c == 1 for c in counts.values())
        twice = sum(c == 2 for c in counts.values())
        discount = once / (once + 2 * twice) if once and twice else 0.5
        total = sum(followers.values())
        discounted = max(counts.get(gram, 0) - discount, 0) / total
        return discounted + discount * len(followers) / total * self.p(gram[1:])

    def nll(self, document):
        return -sum(math.log(self.p(gram)) for gram in self.grams(document))


tokens = st.integers(0, VOCABULARY - 1)  # specials too: text may contain anything
corpora = st.lists(st.lists(tokens, max_size=12), min_size=1, max_size=12)


def fit(documents, order=3, **options):
    return KneserNey.fit(
        [np.array(document, dtype=np.uint16) for document in documents],
        order=order,
        vocabulary=VOCABULARY,
        start=START,
        stop=STOP,
        **options,
    )


@given(corpora, corpora, st.integers(1, 4))
def test_nll_equals_the_reference(train, held_out, order):
    reference = Reference(train, order)
    expected = [reference.nll(document) for document in held_out]
    found = fit(train, order).nll([np.array(d, dtype=np.int32) for d in held_out])
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@given(corpora, st.lists(tokens, max_size=5), st.integers(1, 4))
def test_probabilities_sum_to_one_after_any_context(train, context, order):
    p = fit(train, order).probabilities(context)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert (p > 0).all()


@settings(max_examples=30, deadline=None)
@given(corpora, st.lists(tokens, max_size=5))
def test_nll_is_the_sum_of_log_probabilities(train, document):
    model = fit(train)
    by_hand = 0.0
    for position, token in enumerate([*document, STOP]):
        by_hand -= np.log(model.probabilities(document[:position])[token])
    assert model.nll([np.array(document, dtype=int)])[0] == pytest.approx(by_hand)


@settings(max_examples=30, deadline=None)
@given(corpora)
def test_unigram_equals_the_model_of_order_one(train):
    directly, derived = fit(train, order=1), fit(train, order=3).unigram()
    np.testing.assert_array_equal(directly.probabilities([]), derived.probabilities([]))


@settings(max_examples=30, deadline=None)
@given(corpora, st.integers(1, 4), st.integers(1, 9))
def test_results_do_not_depend_on_chunk_size(train, order, chunk_size):
    whole = fit(train, order)
    losses = whole.nll([np.array(d, dtype=int) for d in train])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ngrams, "TOKENS_AT_ONCE", chunk_size)
        pieces = fit(train, order)
        for level, other in zip(whole.levels, pieces.levels, strict=True):
            np.testing.assert_array_equal(level.grams, other.grams)
            np.testing.assert_array_equal(level.counts, other.counts)
        in_pieces = pieces.nll([np.array(d, dtype=int) for d in train])
    np.testing.assert_allclose(in_pieces, losses, rtol=1e-12)


def test_lower_orders_use_continuation_counts():
    # 5 is frequent but only ever follows 4; 6 is rarer but follows three different tokens.
    train = [[4, 5]] * 10 + [[2, 6], [3, 6], [4, 6]]
    p = fit(train, order=2).levels[0]
    continuation = dict(zip(p.grams.tolist(), p.counts.tolist(), strict=True))
    assert continuation[5] == 1
    assert continuation[6] == 3


def test_training_text_is_more_likely_than_noise():
    generator = np.random.default_rng(0)
    text = [np.array([2, 3, 4, 5, 6] * 4)] * 5
    noise = [generator.integers(2, VOCABULARY, 20)]
    model = fit(text)
    assert model.nll(text[:1])[0] < model.nll(noise)[0] / 4


def test_token_limit_counts_predicted_tokens_and_sets_is_truncated():
    train = [[2, 3, 4], [5, 6]]  # 4 + 3 predicted tokens
    assert not fit(train, token_limit=7).is_truncated
    cut = fit(train, token_limit=6)
    assert cut.is_truncated
    assert cut.trained_tokens == 6
    assert cut.levels[-1].counts.sum() == 6
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ngrams, "TOKENS_AT_ONCE", 2)
        again = fit(train, token_limit=4)
    assert (again.trained_tokens, again.is_truncated) == (4, True)


def test_progress_counts_tokens():
    seen = []
    fit([[2, 3, 4], [5, 6]], on_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(7, None)]


def test_nll_of_no_documents_is_empty():
    assert fit([[2]]).nll([]).shape == (0,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fit([]), "no training text"),
        (lambda: fit([[2], [VOCABULARY]]), "document 2 has an id outside the vocabulary of 7"),
        (lambda: fit([[2]], order=0), "at least 1"),
        (lambda: fit([[2]], order=40), "at most 22"),
        (lambda: fit([[2]], token_limit=0), "nothing to count"),
        (lambda: fit([[2]]).nll([np.array([-1])]), "document 1 has an id outside"),
        (
            lambda: KneserNey.fit([np.array([1])], vocabulary=3, start=3, stop=1),
            "start = 3 is outside the vocabulary of 3",
        ),
    ],
)
def test_invalid_arguments_raise(call, message):
    with pytest.raises(UserError, match=message):
        call()
