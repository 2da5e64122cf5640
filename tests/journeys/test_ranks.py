"""Several processes train one model, as typed: what one process trains, one sentence for what
fails, and the same bits after a kill."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

import pytest
import torch
from safetensors.torch import load_file
from tests.journeys.workspace import Workspace
from tests.training.parallel.rank_processes import finish, free_port, start_ranks

from regard.core.files import find_damage
from regard.training.checkpoint import list_checkpoints

RUN = "runs/tiny"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
LONGER = {
    "train__max_steps": 120,
    "train__checkpoint_every": 4,
    "train__evaluate_every": 40,
    "train__keep_checkpoints": 2,
}
KILLS = 4
"In one training; each of five trainings has its own."
MAX_SECONDS = 60
"Between the death of a rank and the end of all."


def train(
    workspace: Workspace, *arguments: str, size: int = 2, of_last: Sequence[str] = ()
) -> list[tuple[int, str, str]]:
    """`regard train tiny.toml ARGUMENTS` on ranks; the last one may have more arguments."""
    return finish(start(workspace, *arguments, size=size, of_last=of_last))


def start(
    workspace: Workspace,
    *arguments: str,
    size: int = 2,
    of_last: Sequence[str] = (),
    port: int | None = None,
) -> list[subprocess.Popen[str]]:
    return start_ranks(
        ["-m", "regard", "train", "tiny.toml", *arguments],
        size=size,
        port=port,
        of_rank={size - 1: of_last},
        cwd=workspace.folder,
        variables=workspace.environment,
    )


def said(ended: list[tuple[int, str, str]]) -> str:
    """The only sentence that any rank printed after an error, with which all ended."""
    assert {code for code, _, _ in ended} == {2}, ended
    sentences = [line for _, _, errors in ended for line in errors.splitlines() if line.strip()]
    sentences = [line for line in sentences if not line.startswith("  ")]  # progress
    assert len(sentences) == 1, sentences
    return sentences[0]


def final(workspace: Workspace) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = load_file(
        workspace.folder / RUN / "final" / "model.safetensors"
    )
    return tensors


def test_two_ranks_train_what_one_process_trains(workspace: Workspace) -> None:
    workspace.recipe(model__dropout=0.0)
    workspace.run("train", "tiny.toml", "--out", "runs/one")
    first, second = train(workspace)
    assert first[0] == second[0] == 0, (first, second)
    assert "runs/tiny" in first[1]
    assert not second[1] + second[2]  # only rank 0 speaks
    divided, whole = (
        json.loads((workspace.folder / "runs" / name / "results.json").read_text())
        for name in ("tiny", "one")
    )
    assert divided["environment"]["ranks"] == 2
    assert divided["environment"]["parallel"] == "ddp"
    assert divided["order"] == whole["order"]
    assert divided["cost"]["tokens"] == whole["cost"]["tokens"]
    for ours, theirs in zip(divided["estimates"], whole["estimates"], strict=True):
        assert ours["value"] == pytest.approx(theirs["value"], rel=1e-4)


def uninterrupted(workspace: Workspace, parallel: str) -> dict[str, torch.Tensor]:
    """The final weights of a training that nobody stopped; its recipe stays in the workspace."""
    workspace.recipe(train__parallel=parallel, **LONGER)
    assert {code for code, _, _ in train(workspace)} == {0}
    tensors = final(workspace)
    shutil.rmtree(workspace.folder / RUN)
    return tensors


def assert_same_bits(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert torch.equal(tensor, theirs[name]), name


def wait_for_checkpoint(workspace: Workspace, ranks: Sequence[subprocess.Popen[str]]) -> None:
    deadline = time.monotonic() + 60
    while not list((workspace.folder / RUN / "checkpoints").glob("step-*")):
        assert all(rank.poll() is None for rank in ranks), finish(ranks)
        assert time.monotonic() < deadline
        time.sleep(0.02)


def children_of(launcher: subprocess.Popen[str]) -> list[int]:
    """The ranks that torchrun has started."""
    command = ["ps", "-o", "pid=", "--ppid", str(launcher.pid)]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return sorted(map(int, listed.split()))


@pytest.mark.long
@pytest.mark.parametrize(
    ("parallel", "rank", "stop"),
    [
        ("ddp", 0, signal.SIGINT),
        ("ddp", 1, signal.SIGTERM),
        ("fsdp", 0, signal.SIGTERM),
        ("fsdp", 1, signal.SIGINT),
    ],
)
def test_a_signal_to_one_rank_saves_on_all(
    parallel: str, rank: int, stop: signal.Signals, workspace: Workspace
) -> None:
    expected = uninterrupted(workspace, parallel)
    ranks = start(workspace)
    wait_for_checkpoint(workspace, ranks)
    ranks[rank].send_signal(stop)
    ended = finish(ranks)
    assert {code for code, _, _ in ended} == {128 + stop}, ended
    errors = "".join(text for _, _, text in ended)
    assert len(re.findall(r"saved at step \d+\. Resume with: regard train", errors)) == 1
    assert {code for code, _, _ in train(workspace, "--resume")} == {0}
    assert_same_bits(final(workspace), expected)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_killed_ranks(seed: int, workspace: Workspace) -> None:
    """kill -9 of a random rank at random moments, under torchrun: everything ends, and goes on."""
    expected = uninterrupted(workspace, ("ddp", "fsdp")[seed % 2])
    draws = random.Random(seed)
    for number in range(KILLS):
        launcher = torchrun(workspace, "--resume")
        # One in four while they start; the others after a random number of steps of this start.
        done = last_step(workspace)
        wanted = done + draws.randrange(1, (LONGER["train__max_steps"] - done) // 2) * bool(number)
        children: list[int] = []
        while launcher.poll() is None and (last_step(workspace) < wanted or len(children) < 2):
            children = children_of(launcher)
            time.sleep(0.05)
        time.sleep(draws.uniform(0, 0.2 if number else 4))
        rank = draws.randrange(2)
        assert launcher.poll() is None, launcher.communicate()
        with suppress(ProcessLookupError):  # it ended just now
            os.kill(children[rank], signal.SIGKILL)
        began = time.monotonic()
        try:
            _, errors = launcher.communicate(timeout=MAX_SECONDS)
        except subprocess.TimeoutExpired:
            launcher.terminate()  # and with it the ranks
            raise
        # pytest -rP shows it.
        print(f"rank {rank} after {wanted} steps: ended in {time.monotonic() - began:.1f} s")
        assert errors.count("ended without a word") <= 1
        assert "this is a bug" not in errors
        checkpoints = list_checkpoints(workspace.folder / RUN / "checkpoints")
        # Of older ones a kill may have left half, while they were deleted.
        assert all(find_damage(newest) is None for newest in checkpoints[-1:])
    assert {code for code, _, _ in train(workspace, "--resume")} == {0}
    assert_same_bits(final(workspace), expected)


def last_step(workspace: Workspace) -> int:
    """The newest step in the events, which a kill may have cut within a line."""
    file = workspace.folder / RUN / "events.jsonl"
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    return max(map(int, re.findall(r'"step": ?(\d+)', text)), default=0)


def torchrun(workspace: Workspace, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*TORCHRUN, "-m", "regard", "train", "tiny.toml", *arguments],
        cwd=workspace.folder,
        env={**os.environ, **workspace.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1])
def test_a_dead_rank_is_named_once_and_torchrun_goes_on(rank: int, workspace: Workspace) -> None:
    workspace.recipe(**LONGER)
    command = [*TORCHRUN, "--max-restarts", "1", "-m", "regard", "train", "tiny.toml"]
    launcher = subprocess.Popen(
        command,
        cwd=workspace.folder,
        env={**os.environ, **workspace.environment},
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    wait_for_checkpoint(workspace, [launcher])
    os.kill(children_of(launcher)[rank], signal.SIGKILL)
    _, errors = launcher.communicate(timeout=120)
    assert launcher.returncode == 0, errors
    assert errors.count(f"ranks: rank {rank} ended without a word") == 1
    assert "run: torchrun started runs/tiny again" in errors
    # A folder that was there before is not taken for one that this launch has begun.
    ended = subprocess.run(
        command,
        cwd=workspace.folder,
        env={**os.environ, **workspace.environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr.count("run: runs/tiny exists already") == 2  # once a start


@pytest.mark.long
@pytest.mark.parametrize(
    ("before", "after"),
    [((2, "ddp"), (1, "ddp")), ((1, "ddp"), (2, "fsdp")), ((2, "fsdp"), (3, "fsdp"))],
)
def test_another_number_of_ranks_is_said(before, after, workspace: Workspace) -> None:
    settings = {"model__dropout": 0.0, "train__checkpoint_every": 5, "train__max_steps": 30}
    workspace.recipe(train__parallel=after[1], **settings)
    workspace.run("train", "tiny.toml", "--out", "runs/one")
    ranks = start(workspace, size=before[0])
    wait_for_checkpoint(workspace, ranks)
    ranks[-1].send_signal(signal.SIGTERM)
    finish(ranks)
    ended = train(workspace, "--resume", size=after[0])
    assert {code for code, _, _ in ended} == {0}, ended
    assert f"ranks was {before[0]} when this run began and is {after[0]} now" in ended[0][2]
    results = [
        json.loads((workspace.folder / "runs" / name / "results.json").read_text())
        for name in ("tiny", "one")
    ]
    for ours, theirs in zip(*(one["estimates"] for one in results), strict=True):
        assert ours["value"] == pytest.approx(theirs["value"], rel=1e-3)


@pytest.mark.long
def test_what_differs_between_ranks_is_said_once(workspace: Workspace) -> None:
    workspace.recipe()
    sentence = said(train(workspace, of_last=["--set", "train.lr=0.5"]))
    assert "the ranks differ: train.lr is 0.5 here and 0.01 on rank 0" in sentence
    workspace.write("other.txt", "Another text.\n" * 50)
    workspace.recipe("other.toml", data__corpus="other.txt")
    sentence = said(finish(start_other_recipe(workspace, "other.toml")))
    assert "data.corpus is 'other.txt' here and 'generated.txt' on rank 0" in sentence
    sentence = said(finish(start_other_recipe(workspace, "missing.toml")))
    assert re.match(r"rank 1 on .*missing.toml does not exist", sentence)
    # The same recipe beside another file.
    elsewhere = Workspace(workspace.folder / "elsewhere")
    elsewhere.write("generated.txt", "Another text.\n" * 50)
    shutil.copy(workspace.folder / "tiny.toml", elsewhere.folder)
    sentence = said(finish(start_other_recipe(workspace, "elsewhere/tiny.toml")))
    assert "generated.txt" in sentence
    assert not (workspace.folder / "runs").exists()


def start_other_recipe(workspace: Workspace, recipe: str) -> list[subprocess.Popen[str]]:
    """Rank 1 has another recipe than rank 0."""
    return start_ranks(
        ["-m", "regard", "train"],
        size=2,
        of_rank={0: ["tiny.toml"], 1: [recipe]},
        cwd=workspace.folder,
        variables=workspace.environment,
    )


@pytest.mark.long
def test_what_no_rank_can_use_is_said_once(workspace: Workspace) -> None:
    workspace.recipe()
    assert "paralel — did you mean" in said(train(workspace, "--set", "train.paralel=ddp"))
    assert "'cuda:7' cannot be used here" in said(train(workspace, "--set", "train.device=cuda:7"))
    assert "cannot be shared by 2 ranks" in said(train(workspace, "--set", "train.device=mps"))
    assert "no such option: --nonsense" in said(train(workspace, "--nonsense"))
    ranks = start_ranks(
        ["-m", "regard", "evaluate", RUN],
        size=2,
        cwd=workspace.folder,
        variables=workspace.environment,
    )
    assert "only regard train divides its work" in said(finish(ranks))


@pytest.mark.long
def test_a_port_in_use_is_said(workspace: Workspace) -> None:
    workspace.recipe()
    port = free_port()
    with socket.socket() as taken:
        taken.bind(("", port))
        taken.listen()
        first, second = start(workspace, port=port)
        code, _, errors = finish([first])[0]
        second.kill()
        second.communicate()
    assert code == 2
    assert errors.strip().startswith(f"ranks: port {port} is in use on this machine.")


@pytest.mark.long
def test_two_launchers_meet(workspace: Workspace) -> None:
    """As on two machines that see the same folder: each launcher starts a rank."""
    workspace.recipe()
    command = [*TORCHRUN[:3], "--nnodes", "2", "--nproc-per-node", "1"]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{free_port()}"]
    launchers = [
        subprocess.Popen(
            [*command, "-m", "regard", "train", "tiny.toml"],
            cwd=workspace.folder,
            env={**os.environ, **workspace.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    ended = finish(launchers)
    assert {code for code, _, _ in ended} == {0}, ended
    assert sum("runs/tiny" in output for _, output, _ in ended) == 1
    results = json.loads((workspace.folder / RUN / "results.json").read_text())
    assert results["environment"]["ranks"] == 2
