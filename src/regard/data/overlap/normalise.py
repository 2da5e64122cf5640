"""The words of a text, however it is typed.

Texts that differ in case, Unicode form, punctuation, white space or HTML's entities alone are
normalised to the same words. An operator between digits stays, so that 12*3 and 12/3 are two
texts, and so does an emoji. A text without any word is its own characters. Characters of scripts
that put no spaces between words are words by themselves. A word that
mixes Latin and Cyrillic letters is in the text's script, by letters that look alike.
"""

from __future__ import annotations

import html
import re
import unicodedata

from regard.core.scripts import WITHOUT_SPACES

OPERATOR_BETWEEN_DIGITS = re.compile(r"(?<=\d)\s*([-*/+<>=^%×÷−])\s*(?=\d)")
KEPT_OPERATORS = {operator: f" {chr(0xE000 + i)} " for i, operator in enumerate("-*/+<>=^%×÷−")}
"Stand-ins of private use, for the operators themselves are dropped as punctuation."
APOSTROPHES = "'’ʼ`´"
MIXED_SCRIPTS = re.compile(r"[a-z][\u0400-\u052f]|[\u0400-\u052f][a-z]")
"Within a word, which no language has."
LOOKALIKES = "авекмнорстухіјӏѕԁԛԝ", "abekmhopctyxijlsdqw"
"Cyrillic letters, of either case, and the Latin letters that they look like."
TO_LATIN, TO_CYRILLIC = str.maketrans(*LOOKALIKES), str.maketrans(*LOOKALIKES[::-1])
LATIN_ALONE, CYRILLIC_ALONE = re.compile("[fgnruvz]"), re.compile("[бгджзийлпфцчшщъыьэюя]")
EITHER = re.compile(rf"(?:[\W\d_]*[{''.join(LOOKALIKES)}])+[\W\d_]*")
"A word of such letters alone."


def normalise(text: str) -> str:
    """The words of a text, casefolded and without punctuation, one space between."""
    if "&" in text:
        text = html.unescape(text)
    text = OPERATOR_BETWEEN_DIGITS.sub(_stand_in, text)
    if not text.isascii():
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
        text = OPERATOR_BETWEEN_DIGITS.sub(_stand_in, text)
        if MIXED_SCRIPTS.search(text):
            text = _in_one_script(text)
    words = text.translate(_CHARACTERS).split()
    return " ".join(words or text.casefold().split())


def _in_one_script(text: str) -> str:
    """Words that mix scripts, or could be of either, in the script of the letters of one alone."""
    is_latin = len(LATIN_ALONE.findall(text)) >= len(CYRILLIC_ALONE.findall(text))
    table = TO_LATIN if is_latin else TO_CYRILLIC
    return " ".join(
        word.translate(table) if MIXED_SCRIPTS.search(word) or EITHER.fullmatch(word) else word
        for word in text.split()
    )


def _stand_in(match: re.Match[str]) -> str:
    return KEPT_OPERATORS[match[1]]


class _Characters(dict[int, str]):
    """What each character becomes; filled as characters are met."""

    def __missing__(self, code: int) -> str:
        self[code] = translated = _translate(chr(code))
        return translated


def _translate(character: str) -> str:
    category = unicodedata.category(character)
    if character in APOSTROPHES or category == "Cf":
        return ""
    if category[0] in "PZ" or category in ("Cc", "Sm", "Sc", "Sk"):
        return " "
    if any(first <= ord(character) <= last for first, last in WITHOUT_SPACES):
        return f" {character} "
    return character.lower() if character.isascii() else character


_CHARACTERS = _Characters()
