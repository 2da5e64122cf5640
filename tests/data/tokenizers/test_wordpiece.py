from collections import Counter
from itertools import islice, pairwise

from hypothesis import given
from hypothesis import strategies as st

from regard.data.tokenizers.wordpiece import (
    WordPiece,
    join,
    learn_pieces,
    merge_pair,
    to_characters,
)


def reference_pieces(words: dict[str, int], *, minimum_count: int) -> list[str]:
    """The definition: recount everything before each merge."""
    texts = [(to_characters(word), count) for word, count in words.items()]
    pieces = sorted({symbol for symbols, _ in texts for symbol in symbols})
    while True:
        singles: Counter[str] = Counter()
        pairs: Counter[tuple[str, str]] = Counter()
        for symbols, count in texts:
            for symbol in symbols:
                singles[symbol] += count
            for pair in pairwise(symbols):
                pairs[pair] += count
        candidates = [
            (-count / (singles[a] * singles[b]), -count, a, b)
            for (a, b), count in pairs.items()
            if count >= minimum_count
        ]
        if not candidates:
            return pieces
        *_, a, b = min(candidates)
        if join(a, b) not in pieces:
            pieces.append(join(a, b))
        texts = [(merge_pair(symbols, (a, b)), count) for symbols, count in texts]


toy_words = st.dictionaries(
    st.text("abc", min_size=1, max_size=7), st.integers(1, 6), min_size=1, max_size=12
)


@given(toy_words, st.integers(1, 4))
def test_incremental_merging_equals_the_reference(
    words: dict[str, int], minimum_count: int
) -> None:
    expected = reference_pieces(words, minimum_count=minimum_count)
    assert list(learn_pieces(words, minimum_count=minimum_count)) == expected


@given(toy_words)
def test_pieces_are_independent_of_word_order(words: dict[str, int]) -> None:
    reordered = dict(reversed(words.items()))
    assert list(learn_pieces(words, minimum_count=2)) == list(
        learn_pieces(reordered, minimum_count=2)
    )


def test_merges_by_score_not_by_count() -> None:
    """`##u ##g` is the most frequent pair (20), yet `##g ##s` has the best score: 5/(20·5) = 1/20.

    Then every pair contains `##u` and scores 1/36: the most frequent goes first.
    """
    words = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
    alphabet = 7  # b h p ##g ##n ##s ##u
    learned = list(islice(learn_pieces(words, minimum_count=2), alphabet, alphabet + 3))
    assert learned == ["##gs", "pu", "hu"]


def test_merging_is_left_to_right() -> None:
    assert merge_pair(["a", "##a", "##a", "##a"], ("##a", "##a")) == ["a", "##aa", "##a"]


def test_rare_pairs_are_never_merged() -> None:
    assert list(learn_pieces({"ab": 1, "cd": 2}, minimum_count=2))[-1] == "cd"
    assert "ab" not in learn_pieces({"ab": 1, "cd": 2}, minimum_count=2)


def test_encoding_is_longest_match_first() -> None:
    texts = ["hug hugs pug pun bun hugs hug pug pun bun"] * 4
    tokenizer = WordPiece().train(iter(texts))
    assert tokenizer.tokens(tokenizer.encode("hugs")) == ["hugs"]
    small = WordPiece(vocabulary=7 + 7 + 3).train(iter(texts))
    for word in texts[0].split():
        pieces = small.tokens(small.encode(word))
        vocabulary = set(small.tokens(range(small.size)))
        longest = max(end for end in range(1, len(word) + 1) if word[:end] in vocabulary)
        assert pieces[0] == word[:longest]


def test_word_with_an_unseen_character_is_unknown() -> None:
    tokenizer = WordPiece().train(iter(["hug pug"] * 2))
    assert tokenizer.encode("hug hüg") == [*tokenizer.encode("hug"), tokenizer.unk]


def test_punctuation_is_separate_and_very_long_words_are_ignored() -> None:
    tokenizer = WordPiece().train(iter(["hug, pug. " + "q" * 101] * 2))
    assert tokenizer.tokens(tokenizer.encode("hug,pug.")) == ["hug", ",", "pug", "."]
    assert tokenizer.encode("q" * 101) == [tokenizer.unk]
    assert tokenizer.encode("q") == [tokenizer.unk]
