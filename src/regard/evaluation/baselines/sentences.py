"""Rule-based sentence splitting of plain text, aware of titles, initials and abbreviations.

A punctuation mark ends a sentence where white space follows and the next word does not start in
lower case, unless the word before it is a title, an initial or an abbreviation such as `e.g.` A
blank line always ends one. The lists are not complete: good enough for a lead sentence.
"""

from __future__ import annotations

import re

BLANK_LINE = re.compile(r"\n\s*\n")
END = re.compile(r"""(?:[.!?…]+["'”’»)\]]*(?=\s)|[。！？]+[”’」』）]*)\s*""")
OPENING = "\"'“‘«([¿¡—–-"
INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")
"`J` before its full stop, `U.S` before its last."
TITLES = """
    mr mrs ms dr prof st mt rev hon gen col maj capt lt sgt gov sen rep pres messrs
    cf vs viz e.g i.e eg ie al ca approx resp
"""
"Abbreviations that hardly ever end a sentence."
NUMBERED = """
    fig figs eq eqs sec ch vol no nos p pp jan feb mar apr jun jul aug sep sept oct nov dec
"""
"Abbreviations where a number follows."
CONTEXT = 40
"Characters inspected before and after a mark."


def sentences(text: str) -> list[str]:
    """The sentences in order, with white space collapsed; empty for a blank text.

    `Dr. J. Birt left at 3.5 p.m. He was tired.` has two.
    """
    raw = [sentence for paragraph in BLANK_LINE.split(text) for sentence in _split(paragraph)]
    return [tidy for sentence in raw if (tidy := " ".join(sentence.split()))]


def _split(paragraph: str) -> list[str]:
    found, start = [], 0
    for mark in END.finditer(paragraph):
        before = paragraph[max(start, mark.start() - CONTEXT) : mark.start()]
        after = paragraph[mark.end() : mark.end() + CONTEXT]
        if _ends_sentence(before, mark.group().rstrip(), after):
            found.append(paragraph[start : mark.end()])
            start = mark.end()
    return [*found, paragraph[start:]]


def _ends_sentence(before: str, mark: str, after: str) -> bool:
    """Whether a mark between these texts ends a sentence."""
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
