"""Which engine trains a study, and in which folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard.core.errors import UserError, did_you_mean
from regard.core.process.cpu import usable_cores
from regard.runs.observer import Observer
from regard.studies.engines.local import LocalEngine

if TYPE_CHECKING:
    from regard.studies.engines.ray.engine import RayEngine

ENGINES = ("local", "ray")


@dataclass(frozen=True)
class EngineChoice:
    """As the command line or `regard.compare` gives it."""

    name: str = "local"
    address: str | None = None
    "Of a Ray cluster; None starts one on this machine."
    storage: Path | None = None
    "A folder that every node sees under the same path."

    def check(self) -> None:
        if self.name not in ENGINES:
            raise UserError(
                f"--engine {self.name}: no such engine{did_you_mean(self.name, ENGINES)}",
                topic="study",
                hint="local, the default, trains on this machine.",
            )
        if self.name == "local" and (self.address is not None or self.storage is not None):
            option = "--address" if self.address is not None else "--storage"
            raise UserError(f"{option} is of --engine ray", topic="study", hint="Add --engine ray.")
        if self.storage is not None and not self.storage.is_dir():
            raise UserError(
                "is no folder",
                topic="study",
                where=f"--storage {self.storage}",
                hint="Give a folder that every node sees under this path.",
            )

    def home(self, name: str, out: Path | None) -> Path:
        """The folder of a study."""
        if self.storage is None:
            return out if out is not None else Path("runs") / name
        if out is not None and not out.absolute().is_relative_to(self.storage.absolute()):
            raise UserError(
                f"--out {out} is not inside --storage {self.storage}, where nodes write",
                topic="study",
                hint="Leave --out out, or give a folder inside.",
            )
        return out if out is not None else self.storage / name

    def engine(
        self, *, slots: int, recipes: Path, user_files: Sequence[Path], observer: Observer
    ) -> LocalEngine | RayEngine:
        """`slots`: trainings in parallel; 0: as many as there are cores."""
        if self.name == "local":
            return LocalEngine(
                slots=slots or usable_cores(),
                recipes=recipes,
                user_files=user_files,
                on_job=observer.on_job,
                on_study=observer.on_study,
            )
        from regard.studies.engines.ray.cluster import Cluster
        from regard.studies.engines.ray.engine import RayEngine

        return RayEngine(
            Cluster.connect(self.address, slots=slots),
            recipes=recipes,
            user_files=user_files,
            shared=self.storage is not None,
            max_parallel=slots,
            on_job=observer.on_job,
            on_study=observer.on_study,
        )


LOCAL = EngineChoice()
