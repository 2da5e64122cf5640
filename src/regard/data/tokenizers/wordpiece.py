"""WordPiece: merge the pair with the highest score, the count over the counts of its symbols.

    next merge = argmax over (a, b) of count(ab) / (count(a) · count(b))

Schuster and Nakajima, 2012; Devlin et al., 2019. Text is encoded word by word, longest match first;
pieces inside a word carry `##`. The `tokenizers` library's own trainer merges by count(ab) as BPE
does, so merging is implemented here; the result is an ordinary `tokenizers` WordPiece vocabulary.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

import tokenizers
from pydantic import Field
from tokenizers import decoders, models, normalizers, pre_tokenizers

from regard.core.progress import OnProgress
from regard.data.tokenizers import (
    TOKENIZERS,
    SubwordKind,
    vocabulary_too_small,
)
from regard.data.tokenizers.tokenizer import SPECIALS, Tokenizer

CONTINUATION_PREFIX = "##"
MAX_WORD_LENGTH = 100
"Longer words encode as one <unk>, as in BERT, so training ignores them."

Pair = tuple[str, str]
Key = tuple[float, int, str, str]


@TOKENIZERS.add("wordpiece", keeps="words")
class WordPiece(SubwordKind):
    """WordPiece: merges by pair score, encodes by longest match; spacing is lost.

    A word with a character not seen in training becomes one <unk>.
    """

    minimum_count: int = Field(default=2, ge=1)
    "Less frequent pairs are never merged; the score favours rare pairs, so raising it helps."

    def learn(self, texts: Iterator[str], *, on_progress: OnProgress) -> Tokenizer:
        normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
        pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        words: Counter[str] = Counter()
        for text in texts:
            normalized = normalizer.normalize_str(text)
            words.update(word for word, _ in pre_tokenizer.pre_tokenize_str(normalized))
        pieces = list(SPECIALS)
        for piece in learn_pieces(words, minimum_count=self.minimum_count):
            pieces.append(piece)
            if len(pieces) % 256 == 0:
                on_progress(len(pieces), self.max_pieces)
            if len(pieces) >= self.max_pieces:
                break
        alphabet_size = len(SPECIALS) + len(alphabet(words))
        if alphabet_size > self.max_pieces:
            raise vocabulary_too_small(self.max_pieces, needed=alphabet_size)
        ids = {piece: i for i, piece in enumerate(pieces)}
        engine = tokenizers.Tokenizer(
            models.WordPiece(ids, unk_token="<unk>", max_input_chars_per_word=MAX_WORD_LENGTH)
        )
        engine.normalizer, engine.pre_tokenizer = normalizer, pre_tokenizer
        engine.decoder = decoders.WordPiece(prefix=CONTINUATION_PREFIX)
        engine.add_special_tokens(list(SPECIALS))
        return self.check_size(Tokenizer(engine, name="wordpiece"))


def to_characters(word: str) -> list[str]:
    """`hug` → `h`, `##u`, `##g`."""
    return [word[0], *(CONTINUATION_PREFIX + character for character in word[1:])]


def join(left: str, right: str) -> str:
    """`hu` + `##g` → `hug`."""
    return left + right.removeprefix(CONTINUATION_PREFIX)


def merge_pair(symbols: list[str], pair: Pair) -> list[str]:
    """Merge every `pair` in `symbols`, from left to right."""
    merged: list[str] = []
    for symbol in symbols:
        # The merged symbol cannot be the left half again: it is longer.
        if merged and merged[-1] == pair[0] and symbol == pair[1]:
            merged[-1] = join(*pair)
        else:
            merged.append(symbol)
    return merged


def alphabet(words: Iterable[str]) -> list[str]:
    return sorted(
        {symbol for word in words if len(word) <= MAX_WORD_LENGTH for symbol in to_characters(word)}
    )


def learn_pieces(words: Mapping[str, int], *, minimum_count: int) -> Iterator[str]:
    """The alphabet, then each new piece in the order of merging, until no pair is left.

    Ties are broken by count, then alphabetically.
    """
    yield from alphabet(words)
    yield from PairMerger(words, minimum_count=minimum_count)


class PairMerger(Iterator[str]):
    """The current segmentation of all words, with the counts that the next merge needs.

    A merge of (a, b) changes the counts of a, b and ab, hence only the scores of pairs that contain
    one of them. Those are pushed to the heap again; a heap entry whose key differs from its pair's
    current key is stale and skipped.
    """

    def __init__(self, words: Mapping[str, int], *, minimum_count: int) -> None:
        kept = {word: count for word, count in words.items() if 0 < len(word) <= MAX_WORD_LENGTH}
        self.minimum_count = minimum_count
        self.words = [to_characters(word) for word in kept]
        self.counts = list(kept.values())
        self.known = {symbol for symbols in self.words for symbol in symbols}
        self.symbol_count: Counter[str] = Counter()
        self.pair_count: Counter[Pair] = Counter()
        self.words_with: defaultdict[Pair, set[int]] = defaultdict(set)
        self.pairs_with: defaultdict[str, set[Pair]] = defaultdict(set)
        self.keys: dict[Pair, Key] = {}
        self.heap: list[Key] = []
        for number in range(len(self.words)):
            self._count(number, sign=+1)
        self._push(self.pair_count)

    def __next__(self) -> str:
        """Merge until a new piece appears."""
        while (pair := self._best()) is not None:
            piece = join(*pair)
            self._merge(pair)
            if piece not in self.known:
                self.known.add(piece)
                return piece
        raise StopIteration

    def _best(self) -> Pair | None:
        while self.heap:
            key = heapq.heappop(self.heap)
            pair = (key[2], key[3])
            if self.keys.get(pair) == key:
                return pair
        return None

    def _merge(self, pair: Pair) -> None:
        for number in list(self.words_with[pair]):
            self._count(number, sign=-1)
            self.words[number] = merge_pair(self.words[number], pair)
            self._count(number, sign=+1)
        left, right = pair
        self._push(
            self.pairs_with[left] | self.pairs_with[right] | self.pairs_with[join(left, right)]
        )
        if len(self.heap) > 8 * len(self.keys) + 1024:
            self.heap = list(self.keys.values())  # without stale entries
            heapq.heapify(self.heap)

    def _count(self, number: int, *, sign: int) -> None:
        """Add a word's symbols and pairs to the counts, or subtract them (sign −1)."""
        symbols, times = self.words[number], sign * self.counts[number]
        for symbol in symbols:
            self.symbol_count[symbol] += times
        for pair in pairwise(symbols):
            self.pair_count[pair] += times
            if sign > 0:
                self.words_with[pair].add(number)
                self.pairs_with[pair[0]].add(pair)
                self.pairs_with[pair[1]].add(pair)
            else:
                self.words_with[pair].discard(number)

    def _push(self, pairs: Iterable[Pair]) -> None:
        for pair in list(pairs):
            count = self.pair_count[pair]
            if count < self.minimum_count:
                self.keys.pop(pair, None)
                if count == 0:
                    self._forget(pair)
                continue
            left, right = pair
            score = count / (self.symbol_count[left] * self.symbol_count[right])
            key = (-score, -count, left, right)
            if self.keys.get(pair) != key:
                self.keys[pair] = key
                heapq.heappush(self.heap, key)

    def _forget(self, pair: Pair) -> None:
        """Remove a pair that no word contains any more."""
        del self.pair_count[pair]
        self.words_with.pop(pair, None)
        for symbol in pair:
            self.pairs_with[symbol].discard(pair)
