"""Parser of mask expressions: `causal & sliding-window:4 | prefix:5 & ~same-block:4`.

    union        := intersection ("|" intersection)*
    intersection := term ("&" term)*
    term         := "~" term | "(" union ")" | mask
    mask         := a name of the catalogue, its numbers after a colon: sliding-window:4,
                    same-document:4,5

Nothing is evaluated as Python: whatever does not match the grammar is an error that says where.
Masks that need a table per row take numbers that describe one row of `length` positions:

    prefix:5             the first 5 positions are the prefix
    padding:2            the last 2 positions are padding
    same-document:4,5    a document of 4 positions, then one of 5 (together: all positions)
    same-group:4,5       the same for groups
    cross, cross:2       a source without padding; one whose last 2 positions are padding
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
from regard.core.printable import truncate

Numbers = tuple[int, ...]

TOKEN = re.compile(
    r"\s*(?:(?P<sign>[&|~()])|(?P<name>[A-Za-z][\w-]*)(?:\s*:\s*(?P<numbers>\d+(?:\s*,\s*\d+)*))?)",
    re.ASCII,
)
SIGNS = frozenset("&|~()")
MAX_TOKENS = 200
"Each mask is a nested call when it is materialised, and Python's recursion depth is limited."
MAX_DIGITS = 9
"Longer than any sequence, and far below the limit of int64."


class Token(NamedTuple):
    """A sign, or a mask's name with its numbers."""

    text: str
    numbers: Numbers | None = None


def parse_mask(text: str, length: int, *, numbers: Mapping[str, Numbers] | None = None) -> Mask:
    """The mask that `text` describes for rows of `length` positions; True = may attend.

    `numbers` are the defaults of names written without any: {"sliding-window": (4,)}."""
    if length < 1:
        raise UserError(f"a row of {length} positions", topic="mask", hint="Give it 1 or more.")
    return _Parser(text, length, numbers or {}).parse()


def names_without_numbers(text: str) -> set[str]:
    """Names in an expression that no number follows."""
    return {token.text for token in _tokenize(text) if token.numbers is None} - SIGNS


class _Parser:
    """Recursive descent; ~ binds before &, and & before |."""

    def __init__(self, text: str, length: int, numbers: Mapping[str, Numbers]) -> None:
        self.text = text
        self.length = length
        self.numbers = numbers
        self.tokens = _tokenize(text)
        self.next = 0

    def parse(self) -> Mask:
        mask = self._union()
        if self.next < len(self.tokens):
            raise self._error(f"{self.tokens[self.next].text!r} after what is already a whole mask")
        return mask

    def _union(self) -> Mask:
        mask = self._intersection()
        while self._accept("|"):
            mask = mask | self._intersection()
        return mask

    def _intersection(self) -> Mask:
        mask = self._term()
        while self._accept("&"):
            mask = mask & self._term()
        return mask

    def _term(self) -> Mask:
        inverted = False
        while self._accept("~"):
            inverted = not inverted
        if self._accept("("):
            mask = self._union()
            if not self._accept(")"):
                raise self._error("a bracket ( is not closed")
        else:
            mask = self._mask()
        return ~mask if inverted else mask

    def _mask(self) -> Mask:
        if self.next == len(self.tokens):
            raise self._error("it ends where a mask should follow")
        token = self.tokens[self.next]
        if token.text in SIGNS:
            raise self._error(f"{token.text!r} where a mask should stand")
        self.next += 1
        numbers = self.numbers.get(token.text, ()) if token.numbers is None else token.numbers
        try:
            return _build_mask(token.text, numbers, self.length)
        except UserError as problem:
            raise self._error(problem.what, hint=problem.hint) from None

    def _accept(self, sign: str) -> bool:
        found = self.next < len(self.tokens) and self.tokens[self.next].text == sign
        self.next += found
        return found

    def _error(self, what: str, *, hint: str = "") -> UserError:
        return UserError(what, topic="mask", where=_quote(self.text), hint=hint)


def _tokenize(text: str) -> list[Token]:
    tokens: list[Token] = []
    rest, at = text.rstrip(), 0
    while at < len(rest):
        found = TOKEN.match(rest, at)
        if found is None:
            raise UserError(
                f"{rest[at:].strip()[:12]!r} cannot be read",
                topic="mask",
                where=_quote(text),
                hint="Write names such as causal or sliding-window:4, joined by & | ~ and "
                "brackets.",
            )
        digits = found["numbers"]
        numbers = None if digits is None else _parse_numbers(digits, text)
        # sliding_window, as Python writes it, is sliding-window.
        tokens.append(Token(found["sign"] or found["name"].replace("_", "-"), numbers))
        at = found.end()
    if len(tokens) > MAX_TOKENS:
        raise UserError(
            f"an expression of {len(tokens)} names and signs",
            topic="mask",
            hint=f"Use {MAX_TOKENS} or fewer, or build the mask in Python.",
        )
    return tokens


def _parse_numbers(digits: str, text: str) -> Numbers:
    numbers = [number.strip().lstrip("0") or "0" for number in digits.split(",")]
    if any(len(number) > MAX_DIGITS for number in numbers):
        raise UserError(
            f"a number of more than {MAX_DIGITS} digits", topic="mask", where=_quote(text)
        )
    return tuple(map(int, numbers))


def _build_mask(name: str, numbers: Numbers, length: int) -> Mask:
    if name == "lookback":  # the former name, whose number did not count the query itself
        window = f"sliding-window:{numbers[0] + 1}" if len(numbers) == 1 else "sliding-window"
        raise UserError(
            f"unknown mask 'lookback' — did you mean {window}?",
            hint="(A window counts the query's own position.)",
        )
    if name in FROM_NUMBERS:
        minimum, maximum, build = FROM_NUMBERS[name]
        _check_count(name, numbers, minimum=minimum, maximum=maximum or length)
        return build(name, numbers, length)
    entry = MASKS.get(name)
    parameters = inspect.signature(entry.part).parameters.values()
    if any(parameter.annotation not in ("int", int) for parameter in parameters):
        raise UserError(
            f"{name} needs {entry.properties.get('needs', 'more than numbers')}, "
            "which numbers cannot say",
            hint="Build this mask in Python.",
        )
    _check_count(name, numbers, minimum=len(parameters), maximum=len(parameters))
    mask: Mask = entry.part(*numbers)
    return mask


def _prefix(name: str, numbers: Numbers, length: int) -> Mask:
    _check_fits(name, numbers[0], length)
    return prefix(torch.tensor(numbers))


def _right_padded(name: str, numbers: Numbers, length: int) -> Mask:
    """Masks of a table `valid`; the number says how many positions at the end are padding."""
    padded = numbers[0] if numbers else 0
    _check_fits(name, padded, length)
    build = padding if name == "padding" else cross
    return build((torch.arange(length) < length - padded)[None])


def _consecutive(name: str, numbers: Numbers, length: int) -> Mask:
    """Masks of a table of ids; the numbers are the lengths of consecutive segments."""
    if sum(numbers) != length:
        raise UserError(
            f"{name}:{_join(numbers)} has {sum(numbers)} positions in all, the row {length}",
            hint="Give lengths that add up to the row's.",
        )
    build = same_document if name == "same-document" else same_group
    return build(torch.arange(len(numbers)).repeat_interleave(torch.tensor(numbers))[None])


FROM_NUMBERS: dict[str, tuple[int, int, Callable[[str, Numbers, int], Mask]]] = {
    "prefix": (1, 1, _prefix),
    "padding": (1, 1, _right_padded),
    "cross": (0, 1, _right_padded),
    "same-document": (1, 0, _consecutive),
    "same-group": (1, 0, _consecutive),
}
"Fewest and most numbers, 0: as many as the row has positions; and what builds the mask."


def _check_count(name: str, numbers: Numbers, *, minimum: int, maximum: int) -> None:
    if minimum <= len(numbers) <= maximum:
        return
    count = str(maximum) if minimum == maximum else f"{minimum} to {maximum}"
    raise UserError(
        f"{name} takes {count} number{'' if maximum == 1 else 's'} and is given "
        f"{_join(numbers) or 'none'}",
        hint=f"Write {name}, a colon and the numbers: {name}:3." if maximum else f"Write {name}.",
    )


def _check_fits(name: str, number: int, length: int) -> None:
    if not 0 <= number <= length:
        raise UserError(
            f"{name} of {number} positions in a row of {length}", hint=f"Give it 0 to {length}."
        )


def _join(numbers: Numbers) -> str:
    return ",".join(map(str, numbers))


def _quote(text: str) -> str:
    return repr(truncate(text, 60))
