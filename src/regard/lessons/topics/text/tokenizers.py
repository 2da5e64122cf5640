"""Three subword tokenizers: BPE and WordPiece merge by different criteria; Unigram prunes.

BPE        merge argmax count(ab)                          Sennrich, Haddow and Birch, 2016
WordPiece  merge argmax count(ab) / (count(a)·count(b))    Schuster and Nakajima, 2012
Unigram    drop what costs the least likelihood            Kudo, 2018
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Annotated

import numpy as np
import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from regard.data.tokenizers.bpe import Bpe
from regard.data.tokenizers.tokenizer import SPECIALS, Tokenizer
from regard.data.tokenizers.unigram import Unigram
from regard.data.tokenizers.wordpiece import (
    CONTINUATION_PREFIX,
    PairMerger,
    WordPiece,
    alphabet,
    merge_pair,
    to_characters,
)
from regard.lessons import (
    Answer,
    Check,
    ExerciseSheet,
    Lesson,
    LessonTable,
    Mark,
    Range,
    Slot,
    below,
    equal,
    exercise,
    lesson,
    line_chart,
    near,
)

TOY = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
"Words of the corpus and their counts."
TEXTS = [word for word, count in TOY.items() for _ in range(count)]
"Each word as a separate text: no leading space, so pairs are as on paper."
SHOWN = ("hug", "hugs", "pun", "pugs", "bug", "mug")
"The last three are not in the corpus, and no word of it contains m."
LEARNED_FIRST: dict[str, list[str]] = {
    "BPE": ["u+g", "u+n", "h+ug"],
    "WordPiece": ["##gs", "pu", "hu"],
    "Unigram": ["▁hug", "▁pu"],
}
"First merges of BPE, first subwords of WordPiece, subwords that Unigram keeps."
BYTES = 256
MERGES = 3
Pair = tuple[str, str]


@lesson("three-tokenizers", topic="text", title="BPE, WordPiece and Unigram")
def three_tokenizers(*, merges: Annotated[int, Range(1, 6)] = 3) -> Lesson:
    """How do BPE, WordPiece and Unigram segment the same words?

    BPE merges the most frequent pair: u+g occurs 20 times. WordPiece divides by the counts of the
    two symbols: g+s is merged first although it occurs only 5 times, because s never occurs without
    g; pairs with the frequent u score 1/36. Unigram works in the opposite direction: it starts with
    many subwords, prunes those that cost the least likelihood, and segments a word into its most
    likely sequence of subwords.

    The library `tokenizers` has a WordPiece trainer too; it merges by count, like BPE, so its first
    subword is ##ug. The papers maximise the likelihood of the text; the score above is that
    criterion, and is used here.
    """
    all_three = bpe, wordpiece, unigram = _bpe(merges), _wordpiece(merges), _unigram(None)
    subwords = _wordpiece_subwords(wordpiece)
    fertility = {
        name: [_fertility(train(count)) for count in range(max_count + 1)]
        for name, train, max_count in (
            ("BPE", _bpe, 6),
            ("WordPiece", _wordpiece, 6),
            ("Unigram", _unigram, 2),
        )
    }
    rows = [
        {"learned subwords": count, "tokens per word": tokens, "tokenizer": name}
        for name, by_count in fertility.items()
        for count, tokens in enumerate(by_count)
    ]
    return Lesson(
        table=LessonTable(
            ("word", "BPE", "WordPiece", "Unigram"),
            [
                (
                    f"{word} ({TOY.get(word, 0)}×)",
                    *(_segment(tokenizer, word) for tokenizer in all_three),
                )
                for word in SHOWN
            ],
        ),
        chart=line_chart(rows, x="learned subwords", y="tokens per word", series="tokenizer"),
        caption="Mean tokens per word of the toy corpus against the number of learned subwords "
        "beyond single characters; Unigram keeps two, and its tokens include the word marker ▁.",
        checks=[
            equal(
                "BPE, first merges",
                ["+".join(pair) for pair in bpe.to_dict()["model"]["merges"]][:3],
                LEARNED_FIRST["BPE"][: min(merges, 3)],
            ),
            equal(
                "WordPiece, first subwords",
                subwords[:3],
                LEARNED_FIRST["WordPiece"][: min(merges, 3)],
            ),
            near("scores of g+s, h+u and u+g", _scores(), [1 / 20, 1 / 36, 1 / 36], within=1e-12),
            equal("first subword of the library's trainer", _library_first_subword(), "##ug"),
            equal("Unigram, subwords kept", _unigram_subwords(unigram), LEARNED_FIRST["Unigram"]),
            _likelihood_check(unigram),
            equal("mug: first BPE token, a byte", _segment(bpe, "mug").split()[0], "m"),
            equal("mug: WordPiece", _segment(wordpiece, "mug"), "<unk>"),
            below(
                "tokens per word with 2 subwords: BPE, at most WordPiece",
                fertility["BPE"][2],
                fertility["WordPiece"][2],
            ),
        ],
        see_also=[
            "data/tokenizers/bpe.py",
            "data/tokenizers/wordpiece.py",
            "recipes/tokenizers.toml",
        ],
    )


def _bpe(merges: int) -> Tokenizer:
    size = len(SPECIALS) + BYTES + merges
    return Bpe(vocabulary=size, minimum_count=1).train(iter(TEXTS))


def _wordpiece(merges: int) -> Tokenizer:
    size = len(SPECIALS) + len(alphabet(TOY)) + merges
    return WordPiece(vocabulary=size, minimum_count=1).train(iter(TEXTS))


def _unigram(subwords: int | None) -> Tokenizer:
    letters = {"▁", *"".join(TOY)}
    size = None if subwords is None else len(SPECIALS) + len(letters) + subwords
    return Unigram(vocabulary=size).train(iter(TEXTS))


def _wordpiece_subwords(tokenizer: Tokenizer) -> list[str]:
    """In the order in which they were learned."""
    first = len(SPECIALS) + len(alphabet(TOY))
    return tokenizer.tokens(range(first, tokenizer.size))


def _unigram_subwords(tokenizer: Tokenizer) -> list[str]:
    tokens = tokenizer.tokens(range(len(SPECIALS), tokenizer.size))
    return sorted(token for token in tokens if len(token) > 1)


def _segment(tokenizer: Tokenizer, word: str) -> str:
    return " ".join(tokenizer.tokens(tokenizer.encode(word)))


def _fertility(tokenizer: Tokenizer) -> float:
    """Mean tokens per word of the corpus."""
    return sum(len(ids) for ids in tokenizer.encode_many(TEXTS)) / len(TEXTS)


def _scores() -> list[float]:
    keys = PairMerger(TOY, minimum_count=1).keys
    return [-keys[pair][0] for pair in (("##g", "##s"), ("h", "##u"), ("##u", "##g"))]


def _library_first_subword() -> str:
    """The first subword of several characters that the library's WordPiece trainer learns."""
    engine = tokenizers.Tokenizer(models.WordPiece(unk_token="<unk>"))
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=20, special_tokens=["<unk>"], show_progress=False
    )
    engine.train_from_iterator(TEXTS, trainer)
    ids = engine.get_vocab().items()
    longer = [
        (i, token) for token, i in ids if i and len(token.removeprefix(CONTINUATION_PREFIX)) > 1
    ]
    return min(longer)[1]


def _likelihood_check(unigram: Tokenizer) -> Check:
    """Unigram's segmentation of a word is the most likely one."""
    log_probabilities: dict[str, float] = dict(unigram.to_dict()["model"]["vocab"][len(SPECIALS) :])
    words = [word for word in SHOWN if set(word) <= set(log_probabilities)]
    segmented = [
        sum(log_probabilities[token] for token in _segment(unigram, word).split()) for word in words
    ]
    best = [max(_all_log_probabilities("▁" + word, log_probabilities)) for word in words]
    return near(
        "Unigram: log-probability of its segmentations vs the maximum", segmented, best, within=1e-9
    )


def _all_log_probabilities(text: str, log_probabilities: Mapping[str, float]) -> list[float]:
    """The log-probability of every segmentation of the text."""
    if not text:
        return [0.0]
    return [
        log_probabilities[text[:end]] + rest
        for end in range(1, len(text) + 1)
        if text[:end] in log_probabilities
        for rest in _all_log_probabilities(text[end:], log_probabilities)
    ]


@exercise("three-tokenizers")
def three_tokenizers_exercise(seed: int) -> ExerciseSheet:
    words = _draw_words(seed)

    def mark(answer: Answer) -> Mark:
        correct = {
            "bpe": _correct_merges(answer["bpe"], words, list, _by_count),
            "wordpiece": _correct_merges(answer["wordpiece"], words, to_characters, _by_score),
        }
        counts = [f"{name}: {count} of {MERGES} merges" for name, count in correct.items()]
        return Mark(
            1 - sum(correct.values()) / (2 * MERGES),
            0.0,
            f"Correct up to the first error: {'; '.join(counts)}.",
        )

    return ExerciseSheet(
        task=f"Given are the words of a corpus and their counts. Give the first {MERGES} merges of "
        "BPE (most frequent pair) and of WordPiece (largest count(ab) / (count(a)·count(b))), each "
        "as a pair of symbols. In WordPiece a symbol inside a word has the prefix ##. Ties may be "
        "broken either way.",
        given={"words": words},
        slots=(
            Slot("bpe", (MERGES, 2), element_type="words"),
            Slot("wordpiece", (MERGES, 2), element_type="words"),
        ),
        mark=mark,
    )


def _draw_words(seed: int) -> dict[str, int]:
    """Six words of three or four letters out of five, each with a count."""
    generator = np.random.default_rng(seed)
    words: dict[str, int] = {}
    while len(words) < 6:
        letters = generator.choice(list("aenst"), size=int(generator.integers(3, 5)))
        words.setdefault("".join(letters), int(generator.integers(2, 13)))
    return words


def _correct_merges(
    answer: Sequence[Sequence[str]],
    words: Mapping[str, int],
    to_symbols: Callable[[str], list[str]],
    score: Callable[[Pair, Counter[Pair], Counter[str]], float],
) -> int:
    """Number of merges, up to the first error, that take a pair of maximum score."""
    symbols_of = {word: to_symbols(word) for word in words}
    for step, (left, right) in enumerate(answer):
        pairs: Counter[Pair] = Counter()
        symbols: Counter[str] = Counter()
        for word, count in words.items():
            for pair in pairwise(symbols_of[word]):
                pairs[pair] += count
            for symbol in symbols_of[word]:
                symbols[symbol] += count
        best = max((score(pair, pairs, symbols) for pair in pairs), default=0.0)
        if (left, right) not in pairs or score((left, right), pairs, symbols) < best:
            return step
        symbols_of = {word: merge_pair(row, (left, right)) for word, row in symbols_of.items()}
    return len(answer)


def _by_count(pair: Pair, pairs: Counter[Pair], symbols: Counter[str]) -> float:
    return float(pairs[pair])


def _by_score(pair: Pair, pairs: Counter[Pair], symbols: Counter[str]) -> float:
    return pairs[pair] / (symbols[pair[0]] * symbols[pair[1]])
