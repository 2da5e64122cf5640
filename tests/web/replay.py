"""A finished study happens again: its run folders come one after the other, as trainings do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path


class Replay:
    """Fills `home` from the folder of a finished study."""

    def __init__(self, finished: Path, home: Path) -> None:
        self.finished, self.home = finished, home
        home.mkdir(parents=True)
        for name in ("study.toml", "plan.json"):
            shutil.copy2(finished / name, home / name)

    def runs(self) -> Iterator[str]:
        """Names of the runs, seed by seed, as a study trains them."""
        folders = (path.relative_to(self.finished) for path in self.finished.glob("*/seed-*"))
        return iter(sorted((one.as_posix() for one in folders), key=lambda one: one[-1] + one))

    def begin(self, name: str, *, lines: int) -> None:
        """The run has logged this many events, and its process lives."""
        folder = self.home / name
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy2(self.finished / name / "recipe.toml", folder)
        events = (self.finished / name / "events.jsonl").read_text().splitlines(keepends=True)
        with (folder / "events.jsonl").open("w") as log:
            log.writelines(events[:lines])
        folder.with_name(f".{folder.name}.writer.json").write_text("{}")

    def finish(self, name: str) -> None:
        folder = self.home / name
        shutil.copytree(self.finished / name, folder, dirs_exist_ok=True)
        writer = folder.with_name(f".{folder.name}.writer.json")
        if writer.exists():
            writer.unlink()

    def judge(self) -> None:
        for name in ("outcome.json", "seal.json"):
            if (self.finished / name).exists():
                shutil.copy2(self.finished / name, self.home / name)
        os.utime(self.home / "outcome.json")
