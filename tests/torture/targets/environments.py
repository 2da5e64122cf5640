"""The same recipe elsewhere: locale, time zone, hash seed, folder, umask, allocator."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

from tests.torture.commands import check
from tests.torture.harness import Failure, Target
from tests.torture.training import RUN, Reference, compare, fresh_copy, train_reference

CHOICES = {
    "PYTHONHASHSEED": ("0", "1", "4294967295"),
    "TZ": ("UTC", "Asia/Kathmandu", "America/St_Johns"),
    "LC_ALL": ("C", "C.UTF-8", "xx_XX"),
    "PYTHONUTF8": ("0", "1"),
    "OMP_NUM_THREADS": ("1", "2", "7"),
    "COLUMNS": ("20", "400"),
    "TERM": ("dumb", "xterm-256color"),
    "PYTHONOPTIMIZE": ("", "1"),
    "PYTHONDONTWRITEBYTECODE": ("", "1"),
    "MALLOC_PERTURB_": ("", "85"),
}


def trial(reference: Reference, generator: random.Random, folder: Path) -> str:
    name = generator.choice(("a b", "ünïcode", "x" * 100, "plain", "a'b\"c"))
    (folder / name).mkdir()
    workspace = fresh_copy(reference, folder / name)
    given = {key: generator.choice(values) for key, values in CHOICES.items()}
    umask = generator.choice((0o077, 0o022, 0))
    completed = subprocess.run(
        [sys.executable, "-m", "regard", "train", "tiny.toml"],
        cwd=workspace.folder,
        env={**workspace.environment, "PYTHONPATH": os.environ.get("PYTHONPATH", ""), **given},
        capture_output=True,
        umask=umask,
        check=False,
    )
    stderr = completed.stderr.decode(errors="replace")
    check(completed.returncode, stderr, ("train", str(given)))
    if completed.returncode:
        raise Failure("crashed", f"{given}: {stderr[-300:]}")
    compare(reference, workspace.folder / RUN)
    return "same bits"


TARGET = Target(
    "environments",
    "the same recipe under another locale, time zone, hash seed, folder, umask, allocator",
    100,
    trial,
    train_reference,
    seconds=200,
)
