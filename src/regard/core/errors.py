"""`UserError`: the exception for invalid user input, with a hint that says how to fix it.

Its message is one sentence: the topic, where the problem is (file, line, row or key), what is
wrong, and a hint. The command line prints it and exits with code 2; in Python it is an ordinary
exception. Any other exception that reaches the user is a bug in regard.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher, get_close_matches

MAX_CHARACTERS = 2000
"Of one part of a sentence: it may quote a value or a path of any length."
MIN_SIMILARITY = 0.65
"Of two spellings, by difflib: one letter of three may differ, or two of seven."
SAME_WORD = 0.75
MIN_PREFIX = 4
"Letters with which a longer name begins."


class UserError(Exception):
    """`topic: where: what. hint`; all but `what` are optional."""

    def __init__(self, what: str, *, topic: str = "", where: str = "", hint: str = "") -> None:
        self.what, self.topic, self.where, self.hint = map(_cut, (what, topic, where, hint))
        super().__init__(str(self))

    def __str__(self) -> str:
        sentence = ": ".join(part for part in (self.topic, self.where, self.what) if part)
        if not self.hint:
            return sentence
        stop = "" if sentence.endswith((".", "?", "!")) else "."
        return f"{sentence}{stop} {self.hint}"

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of a traceback."""
        return [str(self)]


def _cut(text: str) -> str:
    if len(text) <= MAX_CHARACTERS:
        return text
    half = MAX_CHARACTERS // 2
    return f"{text[:half]} … {text[-half:]}"


class DivergenceError(UserError):
    """A training diverged: its loss is not finite, or too large for any score."""


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """` — did you mean X?` for the closest spelling, or the known names if none is close."""
    names = sorted(known)
    return closest(given, names) or (f"; known: {', '.join(names)}" if names else "")


def closest(given: str, known: Sequence[str], *, quoted: bool = False, within: str = "") -> str:
    """` — did you mean X?` for the closest spelling, `within` a table; empty if none is close."""
    spellings = {name.lower(): name for name in reversed(known)}
    near = get_close_matches(given.lower(), spellings, n=3, cutoff=MIN_SIMILARITY)
    # People mistype the first letter least: another one is another word, unless the rest agrees.
    close = [
        name
        for name in near
        if name[:1] == given[:1].lower()
        or SequenceMatcher(None, given.lower(), name).ratio() >= SAME_WORD
    ]
    if not close and len(given) >= MIN_PREFIX:
        close = [name for name in spellings if name.startswith(given.lower())][:1]
    if not close:
        return ""
    name = f"{within}.{spellings[close[0]]}" if within else spellings[close[0]]
    return f" — did you mean {name!r}?" if quoted else f" — did you mean {name}?"
