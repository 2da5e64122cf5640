"""Task specs: what a node is sent for one training. A file travels once per node, however many
trainings read it."""

from __future__ import annotations

import getpass
import hashlib
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.core.files import sha256
from regard.studies.engines.job import Job
from regard.studies.engines.ray.cluster import Cluster, Reference
from regard.studies.engines.ray.folder_transfer import FileEntry, chunks, list_files
from regard.studies.engines.ray.inputs import Inputs, expected_of, inputs_of
from regard.studies.engines.ray.node import Contents


class TaskSpecs:
    """Keeps references to what is stored, as long as the study runs."""

    def __init__(self, cluster: Cluster, *, study: Path, user_files: Sequence[Path]) -> None:
        self._cluster = cluster
        self._user_files = user_files
        owner = f"{getpass.getuser()}@{platform.node()}:{study.absolute()}"
        self._study = hashlib.sha256(owner.encode()).hexdigest()[:16]
        self._stored: dict[tuple[Path, int, int], tuple[FileEntry, list[Reference]]] = {}
        self._expected: dict[str, dict[str, Any]] = {}

    def spec(self, job: Job, *, shared: bool) -> tuple[dict[str, Any], Contents]:
        """The spec as JSON, and references to the files that it names."""
        inputs, contents, files = inputs_of(job.recipe, self._user_files), {}, []
        for name, path in inputs.files.items():
            entry, references = self._put(path)
            files.append([name, entry.size, entry.sha256])
            contents[entry.sha256] = references
        run = [] if shared or not job.folder.is_dir() else list_files(job.folder)
        for entry in run:
            contents[entry.sha256] = self._cluster.put(chunks(job.folder / entry.path))
        spec = {
            "study": self._study,
            "name": job.file_name,
            "recipe": job.recipe.to_toml(),
            "folder": str(job.folder.absolute()) if shared else _folder_on_node(job),
            "shared": shared,
            "files": files,
            "own_files": inputs.own_files,
            "run": [list(entry) for entry in run],
            "expected": self._expected_of(inputs),
        }
        return spec, contents

    def _put(self, path: Path) -> tuple[FileEntry, list[Reference]]:
        status = path.stat()
        key = (path, status.st_size, status.st_mtime_ns)
        if key not in self._stored:
            entry = FileEntry(path.as_posix(), status.st_size, sha256(path))
            self._stored[key] = entry, self._cluster.put(chunks(path))
        return self._stored[key]

    def _expected_of(self, inputs: Inputs) -> dict[str, Any]:
        key = repr((inputs.elsewhere, inputs.builtin, inputs.packages))
        if key not in self._expected:
            self._expected[key] = expected_of(inputs)
        return self._expected[key]


def _folder_on_node(job: Job) -> str:
    """Where the run is below a node's working directory: as below ours, if it is."""
    folder = job.folder.absolute()
    if folder.is_relative_to(Path.cwd()):
        return folder.relative_to(Path.cwd()).as_posix()
    return f"run/{job.variant}/seed-{job.seed}"
