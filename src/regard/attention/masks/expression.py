"""A mask as a person types it: `causal & lookback:3 | prefix:5 & ~same-block:4`.

    either := both ("|" both)*
    both   := one ("&" one)*
    one    := "~" one | "(" either ")" | name
    name   := a mask of the catalogue, its numbers after a colon: lookback:3, same-document:4,5

Nothing is evaluated: whatever is not of this form is an error that says where. Masks that need a
table for each row take numbers that describe one row of `length` places:

    prefix:5             the first 5 places are the first part
    padding:2            the last 2 places are padding
    same-document:4,5    a document of 4 places, then one of 5 (together: all places)
    same-group:4,5       the same for groups
    cross, cross:2       a source whose places all hold a token; whose last 2 are padding
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch

from regard.attention.masks.mask import (
    MASKS,
    Mask,
    cross,
    padding,
    prefix,
    same_document,
    same_group,
)
from regard.core.errors import UserError

Numbers = tuple[int, ...]

TOKEN = re.compile(
    r"\s*(?:(?P<sign>[&|~()])|(?P<name>[A-Za-z][\w-]*)(?:\s*:\s*(?P<numbers>\d+(?:\s*,\s*\d+)*))?)",
    re.ASCII,
)
SIGNS = frozenset("&|~()")
MOST_TOKENS = 200
"Each mask is a call inside a call when it is written out, and Python's calls go only so deep."
MOST_DIGITS = 9
"Beyond any row there is, and far below where a tensor's integers end."


class Token(NamedTuple):
    """A sign, or a mask's name with its numbers."""

    text: str
    numbers: Numbers | None = None


def read_mask(text: str, length: int, *, numbers: Mapping[str, Numbers] | None = None) -> Mask:
    """The mask that `text` describes for rows of `length` places; True = may attend.

    `numbers` are for names written without any: {"lookback": (3,)}."""
    if length < 1:
        raise UserError(f"a row of {length} places", topic="mask", hint="Give it 1 or more.")
    return _Reader(text, length, numbers or {}).whole()


def names_without_numbers(text: str) -> set[str]:
    """Names in an expression that no number follows."""
    return {token.text for token in _tokens(text) if token.numbers is None} - SIGNS


class _Reader:
    """One pass over the tokens, from left to right; ~ binds before &, and & before |."""

    def __init__(self, text: str, length: int, numbers: Mapping[str, Numbers]) -> None:
        self.text = text
        self.length = length
        self.numbers = numbers
        self.tokens = _tokens(text)
        self.next = 0

    def whole(self) -> Mask:
        mask = self._either()
        if self.next < len(self.tokens):
            raise self._wrong(f"{self.tokens[self.next].text!r} after what is already a whole mask")
        return mask

    def _either(self) -> Mask:
        mask = self._both()
        while self._take("|"):
            mask = mask | self._both()
        return mask

    def _both(self) -> Mask:
        mask = self._one()
        while self._take("&"):
            mask = mask & self._one()
        return mask

    def _one(self) -> Mask:
        turned = False
        while self._take("~"):
            turned = not turned
        mask = self._in_brackets() if self._take("(") else self._named()
        return ~mask if turned else mask

    def _in_brackets(self) -> Mask:
        mask = self._either()
        if not self._take(")"):
            raise self._wrong("a bracket ( is not closed")
        return mask

    def _named(self) -> Mask:
        if self.next == len(self.tokens):
            raise self._wrong("it ends where a mask should follow")
        token = self.tokens[self.next]
        if token.text in SIGNS:
            raise self._wrong(f"{token.text!r} where a mask should stand")
        self.next += 1
        given = self.numbers.get(token.text, ()) if token.numbers is None else token.numbers
        try:
            return _mask_of(token.text, given, self.length)
        except UserError as problem:
            raise self._wrong(problem.what, hint=problem.hint) from None

    def _take(self, sign: str) -> bool:
        found = self.next < len(self.tokens) and self.tokens[self.next].text == sign
        self.next += found
        return found

    def _wrong(self, what: str, *, hint: str = "") -> UserError:
        return UserError(what, topic="mask", where=_quoted(self.text), hint=hint)


def _tokens(text: str) -> list[Token]:
    tokens: list[Token] = []
    rest, at = text.rstrip(), 0
    while at < len(rest):
        found = TOKEN.match(rest, at)
        if found is None:
            raise UserError(
                f"{rest[at:].strip()[:12]!r} cannot be read",
                topic="mask",
                where=_quoted(text),
                hint="Write names such as causal or lookback:3, joined by & | ~ and brackets.",
            )
        numbers = found["numbers"]
        read = None if numbers is None else _numbers(numbers, text)
        tokens.append(Token(found["sign"] or found["name"], read))
        at = found.end()
    if len(tokens) > MOST_TOKENS:
        raise UserError(
            f"an expression of {len(tokens)} names and signs",
            topic="mask",
            hint=f"Use {MOST_TOKENS} or fewer, or build the mask in Python.",
        )
    return tokens


def _numbers(written: str, text: str) -> Numbers:
    numbers = [number.strip().lstrip("0") or "0" for number in written.split(",")]
    if any(len(number) > MOST_DIGITS for number in numbers):
        raise UserError(
            f"a number of more than {MOST_DIGITS} digits", topic="mask", where=_quoted(text)
        )
    return tuple(map(int, numbers))


def _mask_of(name: str, numbers: Numbers, length: int) -> Mask:
    read = FROM_NUMBERS.get(name)
    return _plain(name, numbers) if read is None else read(name, numbers, length)


def _plain(name: str, numbers: Numbers) -> Mask:
    """A mask of the catalogue that whole numbers describe."""
    entry = MASKS.get(name)
    wanted = inspect.signature(entry.part).parameters.values()
    if any(parameter.annotation not in ("int", int) for parameter in wanted):
        raise UserError(
            f"{name} needs {entry.properties.get('needs', 'more than numbers')}, "
            "which numbers cannot say",
            hint="Build this mask in Python.",
        )
    _check_count(name, numbers, least=len(wanted), most=len(wanted))
    mask: Mask = entry.part(*numbers)
    return mask


def _first_part(name: str, numbers: Numbers, length: int) -> Mask:
    _check_count(name, numbers, least=1, most=1)
    _check_fits(name, numbers[0], length)
    return prefix(torch.tensor(numbers))


def _all_but_the_last(table: Callable[[torch.Tensor], Mask], *, least: int) -> Callable[..., Mask]:
    def read(name: str, numbers: Numbers, length: int) -> Mask:
        _check_count(name, numbers, least=least, most=1)
        padded = numbers[0] if numbers else 0
        _check_fits(name, padded, length)
        return table((torch.arange(length) < length - padded)[None])

    return read


def _one_after_the_other(table: Callable[[torch.Tensor], Mask]) -> Callable[..., Mask]:
    def read(name: str, numbers: Numbers, length: int) -> Mask:
        _check_count(name, numbers, least=1, most=length)
        if sum(numbers) != length:
            raise UserError(
                f"{name}:{_written(numbers)} has {sum(numbers)} places in all, the row {length}",
                hint="Give lengths that add up to the row's.",
            )
        return table(torch.arange(len(numbers)).repeat_interleave(torch.tensor(numbers))[None])

    return read


FROM_NUMBERS: dict[str, Callable[[str, Numbers, int], Mask]] = {
    "prefix": _first_part,
    "padding": _all_but_the_last(padding, least=1),
    "cross": _all_but_the_last(cross, least=0),
    "same-document": _one_after_the_other(same_document),
    "same-group": _one_after_the_other(same_group),
}


def _check_count(name: str, numbers: Numbers, *, least: int, most: int) -> None:
    if least <= len(numbers) <= most:
        return
    count = str(most) if least == most else f"{least} to {most}"
    raise UserError(
        f"{name} takes {count} number{'' if most == 1 else 's'} and is given "
        f"{_written(numbers) or 'none'}",
        hint=f"Write {name}, a colon and the numbers: {name}:3." if most else f"Write {name}.",
    )


def _check_fits(name: str, number: int, length: int) -> None:
    if not 0 <= number <= length:
        raise UserError(
            f"{name} of {number} places in a row of {length}", hint=f"Give it 0 to {length}."
        )


def _written(numbers: Numbers) -> str:
    return ",".join(map(str, numbers))


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:59] + "…")
