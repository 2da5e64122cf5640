"""Commands as typed: their environment and clock, the loss both sides are judged by, the page."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.as_typed.command import Command
from benchmarks.as_typed.row import typed_row
from benchmarks.as_typed.shakespeare_loss import nats_per_character
from benchmarks.environment import user_environment
from benchmarks.speed.page import write_page
from benchmarks.speed.timing import OURS, Ratio, Row

ROOT = Path(__file__).parents[2]
MACHINE = {
    "cores": 2,
    "cpu": "a CPU",
    "simd": "AVX2",
    "kernels": "avx2",
    "torch": "2",
    "load": 0.0,
}


def command_of(tmp_path, code, **settings):
    return Command((sys.executable, "-c", code), tmp_path, **settings)


def test_nothing_of_the_harness_reaches_a_command(tmp_path, monkeypatch):
    for name in ("OMP_NUM_THREADS", "MALLOC_ARENA_MAX", "PYTHONDONTWRITEBYTECODE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("REGARD_KERNELS", "off")
    monkeypatch.setenv("REGARD_DATA", "data")
    code = "import os; print(*sorted(os.environ), sep='\\n')"
    command_of(tmp_path, code, environment={"MALLOC_MMAP_MAX_": "0"})()
    seen = set((tmp_path / "printed.txt").read_text().splitlines())
    assert {"MALLOC_MMAP_MAX_", "REGARD_DATA", "REGARD_CACHE", "PATH"} <= seen
    assert not seen & {"OMP_NUM_THREADS", "MALLOC_ARENA_MAX", "PYTHONDONTWRITEBYTECODE"}
    assert "REGARD_KERNELS" not in user_environment()


@pytest.mark.skipif(sys.platform == "win32", reason="no exec there")
def test_the_harness_restarts_once_without_them(tmp_path, monkeypatch):
    (tmp_path / "probe.py").write_text(
        "import os\n"
        "os.environ['KMP_INIT_AT_FORK'] = 'FALSE'  # as libraries do when they are loaded\n"
        "from benchmarks.environment import restart_in_user_environment\n"
        "print('started')\n"
        "restart_in_user_environment('probe')\n"
        "print('OMP_NUM_THREADS' in os.environ)\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    command = [sys.executable, "-u", "-m", "probe"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(tmp_path)))}
    (tmp_path / "benchmarks").symlink_to(ROOT / "benchmarks")  # found after PYTHONPATH is gone
    output = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )
    assert output.stdout.split() == ["started", "started", "False"], output.stderr


def test_each_turn_is_a_first_one_and_its_seconds_are_the_command_s(tmp_path):
    code = "import os, time; os.mkdir('runs'); time.sleep(0.2)"
    command = command_of(tmp_path, code, outputs=("runs",))
    assert command() >= 0.2
    assert command() >= 0.2  # the folder was deleted


def test_a_command_that_fails_says_what_it_printed(tmp_path):
    with pytest.raises(RuntimeError, match=r"(?s)ended with code 3.*no such file"):
        command_of(tmp_path, "import sys; print('no such file'); sys.exit(3)")()


def uniform(ids, targets):
    return torch.full(targets.shape, math.log(65))


def test_loss_of_a_uniform_model_is_the_entropy_whatever_is_cut_off():
    stream = np.arange(1000) % 65
    loss = nats_per_character(uniform, stream, context=64, characters=999)
    assert loss == pytest.approx(math.log(65))


def test_every_character_is_predicted_once_and_start_never():
    seen = []

    def losses(ids, targets):
        seen.extend(targets.flatten().tolist())
        return torch.ones(targets.shape)

    # <start> a b <stop> <start> c <stop>: of the six predicted tokens, one is <start>.
    stream = np.array([0, 10, 11, 1, 0, 12, 1])
    loss = nats_per_character(losses, stream, context=3, characters=6, never=0)
    assert seen == stream[1:].tolist()
    assert loss == pytest.approx(5 / 6)


def row_as_typed(tmp_path):
    command = Command(("regard", "train", str(tmp_path / "a.toml")), tmp_path)
    known = Command(("python", "b.py"), tmp_path, {"MALLOC_MMAP_MAX_": "0"})
    return typed_row(
        "a text",
        {OURS: [2.0], "peer": [6.0], "peer, memory kept": [5.0]},
        peer="peer",
        documented="peer",
        commands={OURS: command, "peer": command, "peer, memory kept": known},
        goal=1.5,
        same_work="the same loss",
    )


def test_the_goal_is_against_the_better_column(tmp_path):
    row = row_as_typed(tmp_path)
    assert row.ratio == Ratio(2.5, 2.5, 2.5)
    assert row.typed[OURS] == "regard train a.toml"
    assert row.typed["peer, memory kept"] == "MALLOC_MMAP_MAX_=0 python b.py"


def test_the_page_begins_with_what_was_typed(tmp_path):
    part = Row("training", "one step", "ms", {OURS: 1.0}, Ratio.single(2.0), "time", 1.0)
    runs = [
        {"date": "2026-01-01", "machine": MACHINE, "rows": [row.as_dict()], "missing": []}
        for row in (part, row_as_typed(tmp_path))
    ]
    runs[1]["in_user_environment"] = True
    write_page(runs, tmp_path, remarks="\nRemarks\n")
    page = (tmp_path / "performance.md").read_text(encoding="utf-8")
    assert page.index("## As typed") < page.index("`regard train a.toml`")
    older = page.index("## Older results, in another environment")
    assert page.index("`regard train a.toml`") < page.index("Remarks") < older
    assert older < page.index("### Training")
    assert "## Parts" not in page  # none was timed in a user's environment
    assert "| 2 s | peer 6 s | memory kept 5 s | **2.50**" in page
