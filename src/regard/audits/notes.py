"""What an audit did and could not do: nothing is skipped in silence."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Notes:
    """Written while an audit runs, each sentence once."""

    checked: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    "What could not be looked at, with the reason."
    doubts: list[str] = field(default_factory=list)
    "Of these, what keeps the audit from calling a model clean."

    def did(self, sentence: str) -> None:
        if sentence not in self.checked:
            self.checked.append(sentence)

    def could_not(self, sentence: str) -> None:
        if sentence not in self.unchecked:
            self.unchecked.append(sentence)

    def doubt(self, sentence: str) -> None:
        self.could_not(sentence)
        if sentence not in self.doubts:
            self.doubts.append(sentence)
