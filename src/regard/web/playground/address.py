"""What an address of the playground says, checked: a model's settings, branches, heads.

    ?prompt=The+cat&temperature=0.8&top_p=0.95&n=40&branches=7.512-12.9&off=0.3-2.1

A branch is a position and the token put there; later ones apply to the text that earlier ones
made; `others` are branches that the browser keeps. A head is the number of its layer and its own.
The defaults are those of `regard generate`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from regard.core.errors import UserError, did_you_mean
from regard.core.untrusted import shorten

MAX_PROMPT = 4000
"Characters."
MAX_BRANCHES = 60
MAX_OFF = 256
MAX_POSITIONS = 160
"Of the logit lens."
MAX_FIELD = 6000
"Characters."
Limits: TypeAlias = tuple[float, float, float, bool]
"Default, smallest and largest value, and whether it is whole."
ITEM: Limits = (0, 0, 9_999_999, True)
THRESHOLD: Limits = (0.0, 0.0, 1.0, False)
NUMBERS: Mapping[str, Limits] = {
    "temperature": (0.8, 0.0, 10.0, False),
    "top_k": (0, 0, 1_000_000, True),
    "top_p": (0.95, 0.001, 1.0, False),
    "beam": (0, 0, 16, True),
    "n": (40, 1, 200, True),
    "seed": (0, 0, 999_999, True),
    "positions": (24, 1, MAX_POSITIONS, True),
}
OPTIONS = ("theme", "width", "format")
"Of a picture."


def text_settings(query: Mapping[str, str]) -> dict[str, Any]:
    """The settings of a text, of an address."""
    known = (*NUMBERS, "prompt", "branches", "others", "off", *OPTIONS)
    for name in query:
        if name not in known:
            raise _wrong(f"unknown setting {shorten(name)}{did_you_mean(name, known)}")
    prompt = query.get("prompt", "")
    if len(prompt) > MAX_PROMPT:
        raise _wrong(f"the prompt has {len(prompt):,} characters; give at most {MAX_PROMPT:,}")
    if prompt != prompt.encode(errors="replace").decode():
        raise _wrong("the prompt is not valid UTF-8")
    values = {name: _number(name, query) for name in NUMBERS}
    return {
        **{name: value for name, value in values.items() if name != "n"},
        "max_new_tokens": values["n"],
        "prompt": prompt,
        "branches": _pairs("branches", query, limit=MAX_BRANCHES),
        "off": sorted(map(list, {tuple(one) for one in _pairs("off", query, limit=MAX_OFF)})),
    }


def answer_settings(query: Mapping[str, str], roles: Sequence[str]) -> dict[str, Any]:
    """The row of an address: an item of dev, or the fields that were typed."""
    known = (*roles, "item", "threshold", *OPTIONS)
    for name in query:
        if name not in known:
            raise _wrong(f"unknown setting {shorten(name)}{did_you_mean(name, known)}")
    fields = {role: query[role] for role in roles if role in query}
    for role, text in fields.items():
        if len(text) > MAX_FIELD or text != text.encode(errors="replace").decode():
            raise _wrong(f"{role}: give at most {MAX_FIELD:,} characters of valid UTF-8")
    item = _checked("item", query["item"], ITEM) if query.get("item") else None
    return {"fields": fields, "item": item}


def threshold_of(query: Mapping[str, str]) -> float | None:
    """The threshold of an address; None where it has none."""
    text = query.get("threshold", "")
    return float(_checked("threshold", text, THRESHOLD)) if text else None


def _number(name: str, query: Mapping[str, str]) -> float | int:
    default, *_, is_whole = NUMBERS[name]
    text = query.get(name, "")
    if not text:
        return int(default) if is_whole else default
    return _checked(name, text, NUMBERS[name])


def _checked(name: str, text: str, limits: Limits) -> float | int:
    _, low, high, is_whole = limits
    kind = "a whole number" if is_whole else "a number"
    try:
        value = (int if is_whole else float)(text) if text.isascii() and len(text) < 30 else None
    except ValueError:
        value = None
    if value is None or not low <= value <= high:
        raise _wrong(f"{name} = {shorten(text)}: {kind} from {low:g} to {high:g}")
    return value


def _pairs(name: str, query: Mapping[str, str], *, limit: int) -> list[list[int]]:
    text = query.get(name, "")
    pairs = [one.split(".") for one in text.split("-")] if text else []
    is_right = all(
        len(pair) == 2 and all(n.isascii() and n.isdigit() and len(n) < 9 for n in pair)
        for pair in pairs
    )
    if not is_right or len(pairs) > limit:
        raise _wrong(f"{name} = {shorten(text)}: at most {limit} pairs of numbers, as 7.512-12.9")
    return [[int(n) for n in pair] for pair in pairs]


def _wrong(what: str) -> UserError:
    return UserError(what, topic="playground")
