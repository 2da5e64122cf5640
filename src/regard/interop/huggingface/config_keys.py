"""Typed access to the config.json of another library; a bad or missing key is a `UserError`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from regard.core.errors import UserError
from regard.core.untrusted import shorten

Choice = TypeVar("Choice")
MAX_INTEGER = 1 << 53
"Larger ones lose digits as floats."


class ConfigKeys:
    """A table of settings and the file it was read from."""

    def __init__(self, table: Mapping[str, Any], *, file: str) -> None:
        self.table = table
        self.file = file

    def __contains__(self, key: str) -> bool:
        """Whether the key is present and not null."""
        return self.table.get(key) is not None

    @property
    def class_name(self) -> str:
        """The class of transformers that wrote the checkpoint; empty if the config has none."""
        names = self.table.get("architectures")
        return str(names[0]) if isinstance(names, list) and names else ""

    def integer(self, key: str, default: int | None = None) -> int:
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MAX_INTEGER:
            raise self.error(key, "a whole number is needed")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, "a number is needed")
        try:
            return float(value)
        except OverflowError:  # JSON writes integers of any length
            raise self.error(key, "a number is needed") from None

    def boolean(self, key: str, *, default: bool) -> bool:
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise self.error(key, "true or false is needed")
        return value

    def choice(self, key: str, known: Mapping[str, Choice], *, default: str) -> Choice:
        """Our value for their name."""
        value = self._value(key, default)
        if not isinstance(value, str) or value not in known:
            raise self.error(key, f"regard supports {', '.join(known)}")
        return known[value]

    def section(self, key: str) -> ConfigKeys:
        """A nested table; empty if absent."""
        value = self.table.get(key)
        if value is not None and not isinstance(value, Mapping):
            raise self.error(key, "a table is needed")
        return ConfigKeys(value or {}, file=f"{self.file}, {key}")

    def check(self, key: str, *, allowed: tuple[Any, ...], reason: str, hint: str = "") -> None:
        """Raise if the key is present with a value other than the `allowed` ones."""
        if key in self and self.table[key] not in allowed:
            raise self.error(key, reason, hint=hint)

    def error(self, key: str, reason: str, *, hint: str = "") -> UserError:
        """An error about the value of `key`."""
        given = shorten(self.table[key]) if key in self else "missing"
        return UserError(f"{key} is {given}: {reason}", topic="import", where=self.file, hint=hint)

    def _value(self, key: str, default: Any) -> Any:
        value = self.table.get(key)
        if value is None:
            value = default
        if value is None:
            raise UserError(
                f"{key} is missing; every checkpoint of this architecture has it",
                topic="import",
                where=self.file,
                hint="Download the file again, or take it from the original model.",
            )
        return value
