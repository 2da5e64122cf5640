"""Sentences of a plain text: cut after a full stop that ends one, not after `Dr.`, `J.` or `e.g.`

A mark ends a sentence where white space follows and the next word does not begin in lower case,
unless the word before it is a title, an initial or an abbreviation that goes on. A blank line
always ends one. No list of abbreviations is complete: this is good enough for a lead sentence.
"""

from __future__ import annotations

import re

BLANK_LINE = re.compile(r"\n\s*\n")
END = re.compile(r"""(?:[.!?…]+["'”’»)\]]*(?=\s)|[。！？]+[”’」』）]*)\s*""")
OPENING = "\"'“‘«([¿¡—–-"
INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")
"`J` before its full stop, `U.S` before its second."
TITLES = """
    mr mrs ms dr prof st mt rev hon gen col maj capt lt sgt gov sen rep pres messrs
    cf vs viz e.g i.e eg ie al ca approx resp
"""
"Words whose full stop is their own, and which hardly ever end a sentence."
NUMBERED = """
    fig figs eq eqs sec ch vol no nos p pp jan feb mar apr jun jul aug sep sept oct nov dec
"""
"Words whose full stop is their own where a number follows."
NEAR = 40
"Characters before a mark in which the last word is looked for."


def sentences(text: str) -> list[str]:
    """The sentences in order, white space within them as one space; none where the text is blank.

    `Dr. J. Birt left at 3.5 p.m. He was tired.` has two.
    """
    found = [part for paragraph in BLANK_LINE.split(text) for part in _cut(paragraph)]
    return [tidy for part in found if (tidy := " ".join(part.split()))]


def _cut(paragraph: str) -> list[str]:
    parts, start = [], 0
    for mark in END.finditer(paragraph):
        before = paragraph[max(start, mark.start() - NEAR) : mark.start()]
        after = paragraph[mark.end() : mark.end() + NEAR]
        if _ends(before, mark.group().rstrip(), after):
            parts.append(paragraph[start : mark.end()])
            start = mark.end()
    return [*parts, paragraph[start:]]


def _ends(before: str, mark: str, after: str) -> bool:
    """Whether a mark between these two ends a sentence."""
    following = after.lstrip(OPENING)[:1]
    if following.islower():
        return False
    if mark != "." or not before.split():
        return True
    word = before.split()[-1].lstrip(OPENING)
    # `I` is a word far more often than an initial; `p.m` ends a sentence, `U.S` rarely does.
    if INITIALS.fullmatch(word) and word.isupper() and word != "I":
        return False
    if following.isdigit() and word.casefold() in NUMBERED.split():
        return False
    return word.casefold() not in TITLES.split()
