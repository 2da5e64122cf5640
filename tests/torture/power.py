"""What a disk may hold after power is lost: all that was synced, and any part of the rest.

While a command runs, this records the content of each file at its last fsync, and each rename whose
folder was not synced since. `lose_power` then takes any of the unsynced changes back, in any
combination, as ALICE (Pillai et al., 2014) and CrashMonkey do: file systems may write them out in
another order, and only what fsync returned from is safe.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock


class Recorder:
    """Of the files below `root`; copies are kept in `store`, named by number."""

    def __init__(self, root: Path, store: Path) -> None:
        self.root, self.store = root, store
        self.synced: dict[str, str] = {}
        "Path → the copy of its content at its last fsync."
        self.renames: list[list[str]] = []
        "From, to, and a copy of what was replaced (or empty): those not synced yet."
        self.copies = 0
        for path in root.rglob("*"):  # what a reboot found is on the disk
            if path.is_file():
                self.synced[str(path)] = self.copy(path)

    def write(self) -> None:
        table = {"synced": self.synced, "renames": self.renames}
        (self.store / "state.json").write_text(json.dumps(table), encoding="utf-8")

    def on_fsync(self, path: Path) -> None:
        if path.is_dir():
            self.renames = [one for one in self.renames if Path(one[1]).parent != path]
        elif path.is_file() and path.is_relative_to(self.root):
            self.synced[str(path)] = self.copy(path)

    def on_rename(self, old: Path, new: Path) -> None:
        """Before it happens."""
        replaced = self.copy(new) if new.is_file() else ""
        self.renames.append([str(old), str(new), replaced])
        inside = f"{old}{os.sep}"
        for path in [p for p in self.synced if p == str(old) or p.startswith(inside)]:
            self.synced[str(new) + path.removeprefix(str(old))] = self.synced.pop(path)

    def copy(self, path: Path) -> str:
        self.copies += 1
        return str(shutil.copyfile(path, self.store / str(self.copies)))


@contextmanager
def recording(root: Path, store: Path) -> Iterator[Recorder]:
    recorder = Recorder(root, store)

    def fsync(descriptor: int, original: Callable[[int], None] = os.fsync) -> None:
        original(descriptor)
        recorder.on_fsync(Path(f"/proc/self/fd/{descriptor}").readlink())

    def renaming(original: Callable[..., None]) -> Callable[..., None]:
        def rename(old: Any, new: Any, **named: Any) -> None:
            absolute = Path(old).absolute(), Path(new).absolute()
            if absolute[0].is_relative_to(root):
                recorder.on_rename(*absolute)
            original(old, new, **named)

        return rename

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(os, "fsync", fsync))
        for name in ("rename", "replace"):
            changed = renaming(getattr(os, name))
            stack.enter_context(mock.patch.object(os, name, changed))
        yield recorder


def lose_power(root: Path, store: Path, generator: random.Random) -> None:
    """Take back unsynced changes: renames in reverse, then contents."""
    state = json.loads((store / "state.json").read_text(encoding="utf-8"))
    synced: dict[str, str] = state["synced"]
    for old, new, replaced in reversed(state["renames"]):
        if generator.random() < 0.5 and Path(new).exists() and not Path(old).exists():
            with suppress(OSError):
                Path(old).parent.mkdir(parents=True, exist_ok=True)
                Path(new).rename(old)
                moved = [p for p in synced if p == new or p.startswith(f"{new}{os.sep}")]
                for path in moved:
                    synced[old + path.removeprefix(new)] = synced.pop(path)
                if replaced:
                    shutil.copyfile(replaced, new)
                    synced[new] = replaced
    for file in [path for path in root.rglob("*") if path.is_file()]:
        safe = Path(synced[str(file)]).read_bytes() if str(file) in synced else b""
        now = file.read_bytes()
        if now == safe or generator.random() < 0.3:
            continue
        # What was appended is lost from some byte on; what was never synced may be zeros.
        kept = safe if not now.startswith(safe) else now[: generator.randint(len(safe), len(now))]
        zeroed = bytes(len(now) - len(kept)) if generator.random() < 0.3 else b""
        file.write_bytes(kept + zeroed)
