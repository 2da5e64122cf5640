"""The keys of a config.json that another tool wrote, read with their types.

What is missing or cannot be used becomes a `UserError` which names file and key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from regard.core.errors import UserError

Choice = TypeVar("Choice")


class Keys:
    """One table of settings and the file it stands in."""

    def __init__(self, table: Mapping[str, Any], *, file: str) -> None:
        self.table = table
        self.file = file

    def __contains__(self, key: str) -> bool:
        """Whether the key is there and says something: null says nothing."""
        return self.table.get(key) is not None

    def integer(self, key: str, default: int | None = None) -> int:
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.error(key, "a whole number is needed")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, "a number is needed")
        return float(value)

    def truth(self, key: str, *, default: bool) -> bool:
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise self.error(key, "true or false is needed")
        return value

    def choice(self, key: str, known: Mapping[str, Choice], *, default: str) -> Choice:
        """What a name stands for here."""
        value = self._value(key, default)
        if not isinstance(value, str) or value not in known:
            raise self.error(key, f"regard has {', '.join(known)} here")
        return known[value]

    def section(self, key: str) -> Keys:
        """A table within the table; empty where there is none."""
        value = self.table.get(key)
        if value is not None and not isinstance(value, Mapping):
            raise self.error(key, "a table is needed")
        return Keys(value or {}, file=f"{self.file}, {key}")

    def refuse(self, key: str, *, usual: tuple[Any, ...], reason: str) -> None:
        """An error where the key is there and says anything but what is `usual`."""
        if key in self and self.table[key] not in usual:
            raise self.error(key, reason)

    def error(self, key: str, reason: str, *, hint: str = "") -> UserError:
        """That `key` cannot be used as it stands."""
        given = repr(self.table[key]) if key in self else "missing"
        return UserError(f"{key} is {given}: {reason}", topic="import", where=self.file, hint=hint)

    def _value(self, key: str, default: Any) -> Any:
        value = self.table.get(key)
        if value is None:
            value = default
        if value is None:
            raise UserError(
                f"{key} is missing, which every checkpoint of this architecture has",
                topic="import",
                where=self.file,
                hint="Get the file anew, or take it from the model that this one was made from.",
            )
        return value
