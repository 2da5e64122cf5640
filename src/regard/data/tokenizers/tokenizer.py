"""`Tokenizer`: text to ids and back, with the roles of its special tokens and a fingerprint.

It wraps a `tokenizers.Tokenizer` of any kind and adds three guarantees:

- Text never encodes to special tokens: a document that spells `<stop>` is split into ordinary
  pieces. `decode` drops special tokens but keeps `<unk>` visible.
- Padding and truncation saved in a file are disabled: they would shorten text silently.
- The fingerprint (SHA-256 of the canonical tokenizer.json) is stored with ids and models, so that
  ids of one tokenizer never reach a model of another.
"""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from regard.core.errors import UserError
from regard.core.files import read_text, write_json, write_text
from regard.core.untrusted import panics_named, parse_json
from regard.data.tokenizers.limits import check_ids, read_engine, try_out
from regard.data.tokenizers.piece_text import REPLACEMENT_CHARACTER, piece_to_text

SPECIAL_SPELLINGS = {
    "pad": ("<pad>", "[PAD]", "<|pad|>"),
    "unk": ("<unk>", "[UNK]"),
    "start": ("<start>", "<s>", "<|begin_of_text|>", "<|endoftext|>", "[CLS]"),
    "stop": ("<stop>", "</s>", "<|end_of_text|>", "<|endoftext|>", "[SEP]"),
    "cls": ("[CLS]", "<s>"),
    "sep": ("[SEP]", "</s>"),
    "mask": ("[MASK]", "<mask>"),
}
"Spellings of each role: ours first, then those of GPT-2, LLaMA, RoBERTa and BERT."

SPECIALS = tuple(spellings[0] for spellings in SPECIAL_SPELLINGS.values())
"The special tokens of every tokenizer trained here, at ids 0 to 6."

SENTINELS = ("<extra_{}>", "<extra_id_{}>")
"Spellings of the sentinel tokens of masked spans, by number: ours, then T5's."

HUGGING_FACE_ROLES = {"start": "bos_token", "stop": "eos_token"}


FORMATS_HINT = "Give a tokenizer.json, a WordPiece vocab.txt, or a folder with one of them."


class Tokenizer:
    """A vocabulary and the algorithm that encodes text with it."""

    def __init__(self, engine: tokenizers.Tokenizer, *, name: str) -> None:
        engine.no_padding()
        engine.no_truncation()
        engine.encode_special_tokens = True  # means: split them, do not recognise them in text
        self._engine = engine
        self.name = name
        self._roles = {
            role: next((i for word in words if (i := engine.token_to_id(word)) is not None), None)
            for role, words in SPECIAL_SPELLINGS.items()
        }
        self.pad, self.unk = self._roles["pad"], self._roles["unk"]
        self.start, self.stop = self._roles["start"], self._roles["stop"]
        self.cls, self.sep, self.mask = (self._roles[role] for role in ("cls", "sep", "mask"))
        special = {i for i, token in engine.get_added_tokens_decoder().items() if token.special}
        self._skipped = (special | set(self._roles.values())) - {self.unk}
        self.sentinels = _sentinels(engine, special)
        "Ids of the sentinel tokens of masked spans, in order; often none."

    @property
    def padding_id(self) -> int:
        """The id that pads rows: the pad token, or any other id if there is none (GPT-2), because
        padding is masked."""
        return next(i for i in (self.pad, self.stop, 0) if i is not None)

    def require(self, role: str) -> int:
        """The id of a role; a missing one is an error."""
        found = self._roles[role]
        if found is None:
            raise UserError(
                f"{self.name} ({self.size:,} pieces) has no token for {role!r} "
                f"(looked for {', '.join(SPECIAL_SPELLINGS[role])})",
                topic="tokenizer",
                hint="Use a tokenizer that has one; those trained by regard have all roles.",
            )
        return found

    @cached_property
    def size(self) -> int:
        """Rows of the embedding: the largest id plus one, because ids may have gaps."""
        return max(self._engine.get_vocab(with_added_tokens=True).values()) + 1

    @cached_property
    def pieces(self) -> tuple[str, ...]:
        """The plain text of each id, with a leading space if it begins a word; empty for special
        tokens, a replacement character for <unk>."""
        spell = piece_to_text(self.to_dict())
        tokens = {i: token for token, i in self._engine.get_vocab(with_added_tokens=True).items()}
        plain = [spell(tokens[i]) if i in tokens else "" for i in range(self.size)]
        for i in self._skipped:
            if i is not None:
                plain[i] = ""
        if self.unk is not None:
            plain[self.unk] = f" {REPLACEMENT_CHARACTER}"
        return tuple(plain)

    @cached_property
    def fingerprint(self) -> str:
        canonical = json.dumps(
            self.to_dict(), sort_keys=True, ensure_ascii=False, separators=(",", ":")
        )
        return hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def short_fingerprint(self) -> str:
        """The first eight digits of the fingerprint, for display."""
        return self.fingerprint[:8]

    def to_dict(self) -> dict[str, Any]:
        """The tokenizer.json as a table, without padding and truncation, which are never used."""
        table: dict[str, Any] = json.loads(self._engine.to_str())
        return {key: value for key, value in table.items() if key not in ("padding", "truncation")}

    def to_json(self) -> str:
        """For another process: `from_json` makes the same tokenizer of it."""
        return str(self._engine.to_str())

    @classmethod
    def from_json(cls, text: str, *, name: str) -> Tokenizer:
        return cls(tokenizers.Tokenizer.from_str(text), name=name)

    @property
    def special_ids(self) -> tuple[int, ...]:
        """Ids of the tokens that have a role."""
        return tuple(sorted({i for i in self._roles.values() if i is not None}))

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, without special tokens."""
        with self._panics():
            return list(self._engine.encode(text, add_special_tokens=False).ids)

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """`encode`, and the character range [start, end) of each id in `text`."""
        with self._panics():
            encoding = self._engine.encode(text, add_special_tokens=False)
        return list(encoding.ids), list(encoding.offsets)

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of each, on all cores."""
        with self._panics():
            batch = self._engine.encode_batch_fast(list(texts), add_special_tokens=False)
        return [list(encoding.ids) for encoding in batch]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`; special tokens are dropped, except `<unk>`."""
        kept = [int(i) for i in ids if int(i) not in self._skipped]
        with self._panics():
            return str(self._engine.decode(kept, skip_special_tokens=False))

    @contextmanager
    def _panics(self) -> Iterator[None]:
        hint = "Use another tokenizer, or take these texts out."
        try:
            with panics_named(topic="tokenizer", where=self.name, hint=hint):
                yield
        except TypeError as problem:
            if "Text" not in str(problem):  # the library's own types begin so
                raise
            raise UserError(
                "one of these is no text in Unicode: of another type, or with half a character",
                topic="tokenizer",
                hint="Give texts, decoded with errors='replace'.",
            ) from None

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The piece of each id as the vocabulary spells it."""
        return [str(self._engine.id_to_token(int(i))) for i in ids]

    def with_sentinels(self, count: int) -> Tokenizer:
        """The tokenizer with at least `count` sentinels; new ones follow all other ids."""
        if count <= len(self.sentinels):
            return self
        engine = tokenizers.Tokenizer.from_str(self._engine.to_str())
        missing = range(len(self.sentinels), count)
        engine.add_special_tokens([SENTINELS[0].format(number) for number in missing])
        return Tokenizer(engine, name=self.name)

    def save(self, folder: str | Path) -> Path:
        """Write tokenizer.json, and tokenizer_config.json for transformers, into `folder`."""
        folder = Path(folder)
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "name_or_path": self.name,
            "clean_up_tokenization_spaces": False,
            "split_special_tokens": True,
        }
        for role, found in self._roles.items():
            if found is not None:
                config[HUGGING_FACE_ROLES.get(role, f"{role}_token")] = self.tokens([found])[0]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_text(folder / "tokenizer.json", self._engine.to_str(pretty=True))
            write_json(folder / "tokenizer_config.json", config)
        except OSError as problem:
            if problem.errno == errno.ENOSPC:
                raise  # the command line explains a full disk itself
            raise UserError(
                f"cannot be written ({problem.strerror})", topic="tokenizer", where=str(folder)
            ) from None
        return folder

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """Load a tokenizer.json, a WordPiece vocab.txt, or a folder with one of them.

        A vocab.txt does not say whether text is lower-cased first; this is assumed if it has no
        capitals, and the tokenizer's name then says `lower-casing`.
        """
        path = Path(path)
        file = _file_in(path) if path.is_dir() else path
        text = read_text(file, topic="tokenizer", hint=FORMATS_HINT)
        if file.suffix == ".txt":
            engine, suffix = _from_vocabulary(text, file)
        else:
            engine, suffix = _from_json(text, file), ""
        _check_unknowns(engine, file)
        return cls(engine, name=_saved_name(file) + suffix)


def check_same_tokenizer(expected_fingerprint: str, tokenizer: Tokenizer, *, owner: str) -> None:
    """Refuse another tokenizer than the one that `owner` (`model runs/minilm`) was trained with."""
    if tokenizer.fingerprint != expected_fingerprint:
        raise UserError(
            f"{owner} expects tokenizer {expected_fingerprint[:8]}…, this file is "
            f"{tokenizer.short_fingerprint}… ({tokenizer.name}, {tokenizer.size:,} pieces): "
            "ids would mean other words"
        )


def _sentinels(engine: tokenizers.Tokenizer, special: set[int]) -> tuple[int, ...]:
    """Special tokens numbered from 0 without a gap; an ordinary piece of that spelling is none."""
    found: list[int] = []
    while True:
        ids = (engine.token_to_id(spelling.format(len(found))) for spelling in SENTINELS)
        sentinel = next((i for i in ids if i is not None and i in special), None)
        if sentinel is None:
            return tuple(found)
        found.append(sentinel)


def _file_in(folder: Path) -> Path:
    for name in ("tokenizer.json", "vocab.txt"):
        if (folder / name).is_file():
            return folder / name
    raise UserError(
        "has neither tokenizer.json nor vocab.txt",
        topic="tokenizer",
        where=str(folder),
        hint="Train one: regard tokenizer train SOURCE --out FOLDER.",
    )


def _from_json(text: str, file: Path) -> tokenizers.Tokenizer:
    try:
        return read_engine(text)
    except ValueError as problem:
        raise UserError(
            f"is not a tokenizer, or damaged ({problem})",
            topic="tokenizer",
            where=str(file),
            hint=FORMATS_HINT,
        ) from None


def _from_vocabulary(text: str, file: Path) -> tuple[tokenizers.Tokenizer, str]:
    # Not splitlines: some vocabularies hold U+2028 as a piece.
    pieces = text.removesuffix("\n").split("\n")
    ids = {piece: i for i, piece in enumerate(pieces)}
    known = [word for words in SPECIAL_SPELLINGS.values() for word in words if word in ids]
    unknown = next((word for word in SPECIAL_SPELLINGS["unk"] if word in ids), None)
    if len(ids) < len(pieces):
        first = next(i for i, piece in enumerate(pieces) if ids[piece] != i)
        second = pieces.index(pieces[first], first + 1)
        raise UserError(
            f"lines {first + 1:,} and {second + 1:,} hold the same piece",
            topic="tokenizer",
            where=str(file),
            hint="A vocabulary lists each piece once, one per line.",
        )
    if unknown is None:
        raise UserError(
            f"has no line {SPECIAL_SPELLINGS['unk'][1]}, so it is not a WordPiece vocabulary",
            topic="tokenizer",
            where=str(file),
            hint="Give a tokenizer.json, or BERT's vocab.txt with one piece per line.",
        )
    lowercase = all(piece == piece.lower() for piece in ids if piece not in known)
    engine = tokenizers.Tokenizer(models.WordPiece(ids, unk_token=unknown))
    engine.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.decoder = decoders.WordPiece()
    engine.add_special_tokens(known)
    return engine, ", lower-casing" if lowercase else ""


def _check_unknowns(engine: tokenizers.Tokenizer, file: Path) -> None:
    """A file may parse and yet fail on the first unknown character: check it now."""
    try:
        check_ids(engine)
        try_out(engine)
    except ValueError as problem:
        raise UserError(
            f"cannot encode text ({problem})",
            topic="tokenizer",
            where=str(file),
            hint="It may lack its unknown token, or be damaged; download the file again.",
        ) from None


def _saved_name(file: Path) -> str:
    """The name saved in tokenizer_config.json, else that of the folder or file."""
    config = file.with_name("tokenizer_config.json")
    if config.is_file() and file.name in ("tokenizer.json", "vocab.txt"):
        try:
            table = parse_json(read_text(config, topic="tokenizer"))
        except ValueError as problem:
            why, line = (
                (problem.msg, f", line {problem.lineno}")
                if isinstance(problem, json.JSONDecodeError)
                else (str(problem), "")
            )
            raise UserError(
                f"is not JSON ({why})",
                topic="tokenizer",
                where=f"{config}{line}",
                hint="Download it again, or delete it: only the name is read from it.",
            ) from None
        if isinstance(table, dict) and isinstance(table.get("name_or_path"), str):
            name = str(table["name_or_path"]).rstrip("/").rpartition("/")[2]
            return name or file.resolve().parent.name
    if file.name in ("tokenizer.json", "vocab.txt"):
        return file.resolve().parent.name
    return file.stem
