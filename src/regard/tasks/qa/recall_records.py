"""Parsing of recall rows: the answers, and whether their subject was seen in pretraining."""

from __future__ import annotations

from regard.data.record_corpus import Record

YES = ("true", "yes", "1")
NO = ("false", "no", "0")


def record_answers(record: Record) -> list[str]:
    """The non-empty answers of a row, as texts; numbers count as text."""
    value = record.get("answer")
    answers = value if isinstance(value, list | tuple) else [value]
    for answer in answers:
        if not isinstance(answer, str | int | float | None):
            raise record.error(
                f"the answer {answer!r} is no text",
                hint="Give a text, or a list of texts that count.",
            )
    return [text for answer in answers if answer is not None and (text := str(answer).strip())]


def seen_in_record(record: Record) -> bool | None:
    """The value of the column `seen`; None where it is missing or empty."""
    value = record.get("seen")
    if value is None or isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in ("", *YES, *NO):
        return None if not word else word in YES
    raise record.error(
        f"seen is {value!r}, neither true nor false",
        hint="Write true or false, or set task.seen to the column that is meant.",
    )
