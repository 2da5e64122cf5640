"""Output where the terminal cannot encode a character: the nearest it can, else a question mark.

A table stays aligned where one character becomes one; drawings of masks stay readable.
"""

from __future__ import annotations

import codecs
import io
from typing import TextIO

ERRORS = "regard"
"The name under which Python finds the replacement."
PLAIN = {
    "■": "#",
    "·": ".",
    "•": "*",
    "─": "-",
    "—": "-",
    "–": "-",
    "−": "-",
    "…": "...",
    "“": '"',
    "”": '"',
    "„": '"',
    "‘": "'",
    "’": "'",
    "»": ">",
    "«": "<",
    "⟩": ">",
    "→": "->",
    "←": "<-",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "≈": "~",
    "×": "x",
    "²": "2",
    "³": "3",
    "±": "+-",
    "√": "sqrt",
    "Σ": "sum",
    "α": "alpha",
    "β": "beta",
    "γ": "gamma",
    "δ": "delta",
    "ε": "epsilon",
    "λ": "lambda",
    "τ": "tau",
    "θ": "theta",
    "\u00a0": " ",
    "\u202f": " ",
}
"What a character becomes; others become `?`."


def replace_characters(error: UnicodeError) -> tuple[str | bytes, int]:
    """An error handler of codecs."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    wrong = error.object[error.start : error.end]
    return "".join(PLAIN.get(character, "?") for character in wrong), error.end


def accept_any_character(*streams: TextIO) -> None:
    """Make these streams write every text."""
    codecs.register_error(ERRORS, replace_characters)
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ERRORS)
