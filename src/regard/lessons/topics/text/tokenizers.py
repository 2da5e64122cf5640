"""Three ways to learn pieces of words: BPE and WordPiece merge by different rules; Unigram prunes.

BPE        merge argmax count(ab)                          Sennrich, Haddow and Birch, 2016
WordPiece  merge argmax count(ab) / (count(a)·count(b))    Schuster and Nakajima, 2012
Unigram    drop what the likelihood misses least           Kudo, 2018
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
from regard.data.tokenizers.wordpiece import INSIDE, Merges, WordPiece, alphabet_of, merge, spell
from regard.lessons.exercise import Answer, ExerciseSheet, Mark, Slot, exercise
from regard.lessons.lesson import Check, Lesson, LessonTable, below, equal, near
from regard.lessons.lesson_charts import curves
from regard.lessons.parameters import Range
from regard.lessons.registry import lesson

TOY = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
"How often each word stands in the corpus."
SHOWN = ("hug", "hugs", "pun", "pugs", "bug", "mug")
"The last three are not in the corpus, and m is in no word of it."
FIRST: dict[str, list[str]] = {
    "BPE": ["u+g", "u+n", "h+ug"],
    "WordPiece": ["##gs", "pu", "hu"],
    "Unigram": ["▁hug", "▁pu"],
}
"What each learns first, or keeps."
BYTES = 256
MERGES = 3
Pair = tuple[str, str]


@lesson("three-tokenizers", topic="text", title="BPE, WordPiece and Unigram")
def three_tokenizers(*, merges: Annotated[int, Range(1, 6)] = 3) -> Lesson:
    """How do BPE, WordPiece and Unigram cut the same words?

    BPE merges the most frequent pair: u+g stands 20 times. WordPiece divides by how often the parts
    stand at all: g and s make the first piece although they meet 5 times only, because s never
    stands without g; pairs with the frequent u score 1/36. Unigram goes the other way: it starts
    with many pieces, drops those it can miss, and cuts a word into the likeliest row of pieces.

    The library `tokenizers` has a WordPiece trainer too; it merges by count, as BPE does, so its
    first piece is ##ug. The papers choose what makes the text likeliest; the score stands for that,
    and is what is used here.
    """
    all_three = bpe, wordpiece, unigram = _bpe(merges), _wordpiece(merges), _unigram(None)
    learnt = _wordpiece_pieces(wordpiece)
    curves_of = {
        name: [_fertility(make(count)) for count in range(most + 1)]
        for name, make, most in (
            ("BPE", _bpe, 6),
            ("WordPiece", _wordpiece, 6),
            ("Unigram", _unigram, 2),
        )
    }
    rows = [
        {"pieces learnt": count, "pieces a word": pieces, "tokenizer": name}
        for name, curve in curves_of.items()
        for count, pieces in enumerate(curve)
    ]
    return Lesson(
        table=LessonTable(
            ("word", "BPE", "WordPiece", "Unigram"),
            [
                (f"{word} ({TOY.get(word, 0)}×)", *(_cut(one, word) for one in all_three))
                for word in SHOWN
            ],
        ),
        chart=curves(rows, x="pieces learnt", y="pieces a word", series="tokenizer"),
        caption="Pieces that a word of the toy corpus takes on average, against pieces learnt "
        "beside single characters; Unigram finds two worth keeping, and counts the mark ▁ before a "
        "word as well.",
        checks=[
            equal("BPE, first merges", _merges(bpe)[:3], FIRST["BPE"][: min(merges, 3)]),
            equal("WordPiece, first pieces", learnt[:3], FIRST["WordPiece"][: min(merges, 3)]),
            near("scores of g+s, h+u and u+g", _scores(), [1 / 20, 1 / 36, 1 / 36], within=1e-12),
            equal("first piece of the library's own trainer", _library_first(), "##ug"),
            equal(
                "Unigram, pieces kept beside characters", _unigram_pieces(unigram), FIRST["Unigram"]
            ),
            _likeliest(unigram),
            equal("mug: BPE knows every byte", _cut(bpe, "mug").split()[0], "m"),
            equal("mug: WordPiece", _cut(wordpiece, "mug"), "<unk>"),
            below(
                "with 2 pieces BPE is shorter than WordPiece",
                curves_of["BPE"][2],
                curves_of["WordPiece"][2],
            ),
        ],
        see=["data/tokenizers/bpe.py", "data/tokenizers/wordpiece.py", "recipes/tokenizers.toml"],
    )


def _texts(words: Mapping[str, int]) -> list[str]:
    """Each word a text of its own: nothing stands before it, so pairs are as on paper."""
    return [word for word, count in words.items() for _ in range(count)]


def _bpe(merges: int, words: Mapping[str, int] = TOY) -> Tokenizer:
    size = len(SPECIALS) + BYTES + merges
    return Bpe(vocabulary=size, minimum_count=1).train(iter(_texts(words)))


def _wordpiece(merges: int, words: Mapping[str, int] = TOY) -> Tokenizer:
    size = len(SPECIALS) + len(alphabet_of(words)) + merges
    return WordPiece(vocabulary=size, minimum_count=1).train(iter(_texts(words)))


def _unigram(pieces: int | None) -> Tokenizer:
    letters = {"▁", *"".join(TOY)}
    size = None if pieces is None else len(SPECIALS) + len(letters) + pieces
    return Unigram(vocabulary=size).train(iter(_texts(TOY)))


def _merges(bpe: Tokenizer) -> list[str]:
    return ["+".join(pair) for pair in bpe.description()["model"]["merges"]]


def _wordpiece_pieces(tokenizer: Tokenizer) -> list[str]:
    """In the order in which they were made."""
    first = len(SPECIALS) + len(alphabet_of(TOY))
    return tokenizer.tokens(range(first, tokenizer.size))


def _unigram_pieces(tokenizer: Tokenizer) -> list[str]:
    pieces = tokenizer.tokens(range(len(SPECIALS), tokenizer.size))
    return sorted(piece for piece in pieces if len(piece) > 1)


def _cut(tokenizer: Tokenizer, word: str) -> str:
    return " ".join(tokenizer.tokens(tokenizer.encode(word)))


def _fertility(tokenizer: Tokenizer) -> float:
    """Pieces a word of the corpus, each as often as it stands there."""
    texts = _texts(TOY)
    return sum(len(ids) for ids in tokenizer.encode_many(texts)) / len(texts)


def _scores() -> list[float]:
    keys = Merges(TOY, minimum_count=1).keys
    return [-keys[pair][0] for pair in (("##g", "##s"), ("h", "##u"), ("##u", "##g"))]


def _library_first() -> str:
    """The first piece of several characters that the library's own WordPiece trainer makes."""
    engine = tokenizers.Tokenizer(models.WordPiece(unk_token="<unk>"))
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=20, special_tokens=["<unk>"], show_progress=False
    )
    engine.train_from_iterator(_texts(TOY), trainer)
    ids = engine.get_vocab().items()
    longer = [(i, piece) for piece, i in ids if i and len(piece.removeprefix(INSIDE)) > 1]
    return min(longer)[1]


def _likeliest(unigram: Tokenizer) -> Check:
    """That no way to cut a word is likelier than the one that Unigram takes."""
    logs: dict[str, float] = dict(unigram.description()["model"]["vocab"][len(SPECIALS) :])
    words = [word for word in SHOWN if set(word) <= set(logs)]
    chosen = [sum(logs[piece] for piece in _cut(unigram, word).split()) for word in words]
    best = [max(_each_cut("▁" + word, logs)) for word in words]
    return near("Unigram: log-probability of its cuts against the best", chosen, best, within=1e-9)


def _each_cut(text: str, logs: Mapping[str, float]) -> list[float]:
    """The log-probability of every row of pieces that spells the text."""
    if not text:
        return [0.0]
    return [
        logs[text[:end]] + rest
        for end in range(1, len(text) + 1)
        if text[:end] in logs
        for rest in _each_cut(text[end:], logs)
    ]


@exercise("three-tokenizers")
def three_tokenizers_exercise(seed: int) -> ExerciseSheet:
    words = _drawn_words(seed)

    def mark(answer: Answer) -> Mark:
        right = {
            "bpe": _right_so_far(answer["bpe"], words, list, _by_count),
            "wordpiece": _right_so_far(answer["wordpiece"], words, spell, _by_score),
        }
        said = [f"{name}: {steps} of {MERGES} merges are right" for name, steps in right.items()]
        return Mark(
            1 - sum(right.values()) / (2 * MERGES),
            0.0,
            f"{'; '.join(said)}. After the first that is not, later ones do not count.",
        )

    return ExerciseSheet(
        task=f"Words of a corpus, and how often each stands there. Give the first {MERGES} merges "
        "of BPE (most frequent pair) and of WordPiece (largest count(ab) / (count(a)·count(b))), a "
        "pair of symbols each. In WordPiece a symbol inside a word is written with ## before it. "
        "Of equals any is right.",
        given={"words": words},
        slots=(
            Slot("bpe", (MERGES, 2), of="words"),
            Slot("wordpiece", (MERGES, 2), of="words"),
        ),
        mark=mark,
    )


def _drawn_words(seed: int) -> dict[str, int]:
    """Six words of three or four letters out of five, each with a count."""
    generator = np.random.default_rng(seed)
    words: dict[str, int] = {}
    while len(words) < 6:
        letters = generator.choice(list("aenst"), size=int(generator.integers(3, 5)))
        words.setdefault("".join(letters), int(generator.integers(2, 13)))
    return words


def _right_so_far(
    answer: Sequence[Sequence[str]],
    words: Mapping[str, int],
    spelled: Callable[[str], list[str]],
    score: Callable[[Pair, Counter[Pair], Counter[str]], float],
) -> int:
    """How many merges from the first on take a pair that no other scores above."""
    cut = {word: spelled(word) for word in words}
    for step, (left, right) in enumerate(answer):
        pairs: Counter[Pair] = Counter()
        symbols: Counter[str] = Counter()
        for word, count in words.items():
            for pair in pairwise(cut[word]):
                pairs[pair] += count
            for symbol in cut[word]:
                symbols[symbol] += count
        best = max((score(pair, pairs, symbols) for pair in pairs), default=0.0)
        if (left, right) not in pairs or score((left, right), pairs, symbols) < best:
            return step
        cut = {word: merge(row, (left, right)) for word, row in cut.items()}
    return len(answer)


def _by_count(pair: Pair, pairs: Counter[Pair], symbols: Counter[str]) -> float:
    return float(pairs[pair])


def _by_score(pair: Pair, pairs: Counter[Pair], symbols: Counter[str]) -> float:
    return pairs[pair] / (symbols[pair[0]] * symbols[pair[1]])
