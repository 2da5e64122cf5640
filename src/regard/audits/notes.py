"""The log of an audit: what was checked, what could not be, and why."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Notes:
    """Filled while an audit runs, each sentence once."""

    checked: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    "What could not be checked, with the reason."
    doubts: list[str] = field(default_factory=list)
    "Those of `unchecked` that keep the audit from calling a model clean."

    def add_checked(self, sentence: str) -> None:
        if sentence not in self.checked:
            self.checked.append(sentence)

    def add_unchecked(self, sentence: str) -> None:
        if sentence not in self.unchecked:
            self.unchecked.append(sentence)

    def add_doubt(self, sentence: str) -> None:
        self.add_unchecked(sentence)
        if sentence not in self.doubts:
            self.doubts.append(sentence)
