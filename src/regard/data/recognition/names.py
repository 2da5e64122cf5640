"""What names of columns and files say about their role, as far as names say it.

A name counts beside the content of a column, never against it: strangers' columns are called
`Bemerkung` or `col_3`.
"""

from __future__ import annotations

import re

TEXT = re.compile(
    r"text|texts|reviews?|sentences?|body|comments?|content|messages?|tweets?|posts?|documents?|"
    r"articles?|utterances?|inputs?|phrases?|abstract|description|v2",
    re.IGNORECASE,
)
LABEL = re.compile(
    r".*label.*|class|category|categories|sentiment|topic|target|polarity|emotion|intent|gold|"
    r"is_\w+|spam|y|v1",
    re.IGNORECASE,
)
SCORE = re.compile(
    r".*scores?|ratings?|stars?|similarity|relatedness|grades?|points|target|value|y|price|"
    r"difficulty|valence|arousal",
    re.IGNORECASE,
)
ID = re.compile(r"(unnamed: ?\d+|index|idx|(.*[\W_])?(id|ids|uuid|guid|key|nr|no))?", re.IGNORECASE)
QUESTION = re.compile(r".*(question|query).*", re.IGNORECASE)
CONTEXT = re.compile(r".*(context|passage|paragraph|document|article|text).*", re.IGNORECASE)
ANSWER = re.compile(r"(.*[\W_])?answers?([\W_]text)?", re.IGNORECASE)
STARTS = re.compile(r".*answer[\W_]?starts?", re.IGNORECASE)
IMPOSSIBLE = re.compile(r"(is[\W_])?(impossible|unanswerable)", re.IGNORECASE)
SUMMARY = re.compile(r"summary|summaries|highlights?|tl;?dr|headline|target", re.IGNORECASE)
DOCUMENT = re.compile(r"document|article|text|dialogue|body|source|content", re.IGNORECASE)
SOURCE = re.compile(r"source|src|input|from", re.IGNORECASE)
TARGET = re.compile(r"target|tgt|trg|output|to|translation", re.IGNORECASE)
HEADLINE = re.compile(r"title|subject|headline|name|heading", re.IGNORECASE)
TOKEN = re.compile(r"tokens?|words?", re.IGNORECASE)
TAG = re.compile(r"(ner|pos|chunk|bio)?[\W_]?(tags?|labels?)", re.IGNORECASE)
SPLIT = re.compile(r"split|set|fold|subset|partition", re.IGNORECASE)

PAIRS = (
    ("premise", "hypothesis"),
    ("question", "passage"),
    ("question", "context"),
    ("query", "document"),
    ("query", "passage"),
    ("claim", "evidence"),
    ("text", "hypothesis"),
)
NUMBERED = re.compile(r"(.*?)[\W_]?(1|2|a|b|one|two|first|second|left|right)", re.IGNORECASE)

SPLIT_WORDS = {
    "train": ("train", "training", "trn"),
    "dev": ("dev", "devel", "development", "valid", "validation", "val"),
    "test": ("test", "testing", "eval", "evaluation", "heldout"),
}
LANGUAGES = frozenset(
    re.findall(
        r"\w+",
        "ar bg bn bs ca cs cy da de el en es et eu fa fi fr ga gl he hi hr hu hy id is it ja ka ko "
        "lt lv mk ms mt nb nl no pl pt ro ru sk sl sq sr sv sw ta th tr uk ur vi zh",
    )
)
"ISO 639-1 codes that name files and columns of translations."
ENGLISH_WORDS = frozenset(
    ("the", "of", "and", "to", "a", "in", "is", "that", "for", "it", "with", "was", "this", "are")
)


def are_a_pair(first: str, second: str) -> bool:
    """Whether two names say that their texts are compared: sentence1 and sentence2, premise and
    hypothesis."""
    names = first.lower(), second.lower()
    if names in PAIRS:
        return True
    found = [NUMBERED.fullmatch(name) for name in names]
    if found[0] is None or found[1] is None:
        return False
    stems = {match[1] for match in found if match}
    return len(stems) == 1 and found[0][2] != found[1][2]


def split_of_name(name: str) -> str | None:
    """The split that a file or value is called after: `sts-dev.tsv.xz` is dev."""
    words = re.split(r"[\W_\d]+", name.lower())
    return next(
        (split for split, known in SPLIT_WORDS.items() if any(word in known for word in words)),
        None,
    )
