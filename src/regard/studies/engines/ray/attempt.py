"""An attempt: a training that was sent to a cluster, and what has arrived of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from regard.runs.observer import OnJob
from regard.runs.recipe_paths import ORIGIN_FILE, write_origin
from regard.studies.engines.job import Job
from regard.studies.engines.ray.folder_transfer import FolderReceiver, decode

LOST = "its process ended without a word"


@dataclass
class Attempt:
    """Takes the messages of `node.py:train_on_node`."""

    job: Job
    log: Path
    on_job: OnJob
    node: str = ""
    "Its id; empty until it runs."
    address: str = ""
    exit_code: int | None = None
    "None until it ended; negative: the signal that killed it."
    is_gone: bool = False
    "Whether the process that trained is gone, or its whole node."
    unusable: str = ""
    "Why the node cannot train."
    problem: str = ""
    "What went wrong on the way."
    _receiver: FolderReceiver | None = None
    _log_text: str = ""

    @property
    def was_killed(self) -> bool:
        return self.is_gone or (self.exit_code is not None and self.exit_code < 0)

    @property
    def reason(self) -> str:
        """Why it failed: the last line of its log."""
        said = self._log_text.strip().rpartition("\n")[2].strip()
        code = "" if self.exit_code is None else f"exit code {self.exit_code}"
        return self.problem or said or code or LOST

    def take(self, message: bytes) -> None:
        """Its next message; a folder is in place once its last chunk is here."""
        header, payload = decode(message)
        kind = header["kind"]
        if kind == "node":
            self.node, self.address = str(header["id"]), str(header["address"])
            self.on_job("started", self.job, "")
        elif kind == "unusable":
            self.unusable = str(header["reason"])
        elif kind == "progress":
            self.on_job("running", self.job, str(header["text"]))
        elif kind == "folder":
            self._receiver = FolderReceiver(self.job.folder, header)
        elif kind == "bytes" and self._receiver is not None:
            self._receiver.take(payload)
        elif kind == "end":
            self.exit_code, self._log_text = int(header["exit_code"]), str(header["log"])
            self.log.write_text(self._log_text, encoding="utf-8")
        if self._receiver is not None and self._receiver.is_complete:
            keep_origin(self._receiver.inside, self.job)
            self._receiver.commit()
            self._receiver = None

    def abandon(self) -> None:
        """Forget a folder that has not arrived whole."""
        if self._receiver is not None:
            self._receiver.abandon()
            self._receiver = None


def keep_origin(inside: Path, job: Job) -> None:
    """A node writes where it was; the run's paths are found from where the study is."""
    if (inside / ORIGIN_FILE).is_file():
        write_origin(inside, job.folder)
