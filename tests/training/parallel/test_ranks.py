"""What ranks agree on, and who says what went wrong: ranks are threads here, with torch's store of
one process."""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import torch.distributed as dist

from regard.core.errors import UserError
from regard.training.interrupt import SignalInterrupt, TrainingInterrupt
from regard.training.parallel import join, ranks
from regard.training.parallel.launch import Launch, launched_rank
from regard.training.parallel.ranks import JoinedRanks, LostRankError, OneRank

TORCHRUN = {
    "RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "node",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RESTART_COUNT": "2",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
}


def launch(rank: int, size: int, *, local_size: int = 0) -> Launch:
    return Launch(
        rank=rank,
        size=size,
        local_rank=rank,
        local_size=local_size or size,
        address="localhost",
        port=1,
        restarts=0,
        hosts_store=False,
    )


def as_ranks(work: Callable[[JoinedRanks], Any], *, size: int = 2) -> list[Any]:
    """What each rank returns, or raises."""
    store = dist.HashStore()
    store.set_timeout(timedelta(seconds=20))

    def run(rank: int) -> Any:
        try:
            return work(JoinedRanks(launch(rank, size), store, lasting=store))
        except BaseException as problem:
            return problem

    with ThreadPoolExecutor(size) as threads:
        return list(threads.map(run, range(size)))


def test_what_the_first_rank_decides_all_know():
    decided = as_ranks(lambda one: one.first_decides("it", lambda: {"rank": one.rank}), size=3)
    assert decided == [{"rank": 0}] * 3
    assert OneRank().first_decides("it", lambda: "alone") == "alone"


def test_the_first_rank_goes_before_the_others():
    order: list[int] = []

    def work(one: JoinedRanks) -> None:
        with one.first_before_others("data"):
            order.append(one.rank)

    as_ranks(work, size=3)
    assert order[0] == 0
    assert sorted(order) == [0, 1, 2]


def test_a_rank_that_waits_notices_a_failure():
    def work(one: JoinedRanks) -> None:
        if one.is_first:
            one.store.set("failed", "")
        else:
            one.meet("never")

    assert isinstance(as_ranks(work)[1], LostRankError)


def test_ranks_that_differ_are_refused_and_what_differs_is_named():
    facts = [
        {"train.lr": "0.1", "torch": "2.13.0", "file a.txt": "12"},
        {"train.lr": "0.2", "torch": "2.13.0", "file b.txt": "12"},
    ]

    def work(one: JoinedRanks) -> None:
        ours = facts[one.rank]
        try:
            one.check_same(lambda: ours)
        except UserError:
            one.store.set("failed", "")
            raise

    first, second = as_ranks(work)
    assert isinstance(first, LostRankError)
    assert str(second) == (
        "the ranks differ: file a.txt is missing here and 12 on rank 0; file b.txt is 12 here and "
        "missing on rank 0; train.lr is 0.2 here and 0.1 on rank 0. Give every rank the same "
        "versions, recipe and files."
    )
    assert as_ranks(lambda one: one.check_same(lambda: facts[0])) == [None, None]


class Heart:
    """Says which ranks are alive."""

    def __init__(self, alive: Sequence[int]) -> None:
        self.alive = alive

    def beats(self, rank: int) -> bool:
        return rank in self.alive

    def only_beat(self) -> None: ...

    def stop(self) -> None: ...


@pytest.fixture
def hasty(monkeypatch):
    waits = {"FIRST_SPEAKS_SECONDS": 0.2, "SILENT_SECONDS": 1.5, "LEAVE_SECONDS": 0.5}
    for name, seconds in waits.items():
        monkeypatch.setattr(join, name, seconds)


def failing(problems: Sequence[BaseException | None]) -> list[str]:
    """What each rank says at the end; a rank without a problem is dead."""

    def work(one: JoinedRanks) -> None:
        problem = problems[one.rank]
        if problem is not None:
            alive = [rank for rank, other in enumerate(problems) if other is not None]
            join._fail(one, Heart(alive), problem)

    ended = as_ranks(work, size=len(problems))
    return [
        f"silent {one.code}" if isinstance(one, SystemExit) else str(one) if one else ""
        for one in ended
    ]


BROKEN = "[gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:3333"


@pytest.mark.usefixtures("hasty")
def test_one_rank_speaks():
    same = [UserError("no file", topic="data") for _ in range(3)]
    assert failing(same) == ["data: no file", "silent 2", "silent 2"]
    said = failing([LostRankError(), UserError("no file", topic="data")])
    assert said[0] == "silent 2"
    assert said[1].startswith("rank 1 on ")
    assert said[1].endswith(": data: no file")
    assert failing([RuntimeError(BROKEN), ValueError("a bug")]) == ["silent 70", "a bug"]
    stopped = [TrainingInterrupt("saved at step 3", 15) for _ in range(2)]
    assert failing(stopped) == ["saved at step 3", "silent 143"]


@pytest.mark.usefixtures("hasty")
def test_a_rank_that_ended_without_a_word_is_named():
    for problem in (RuntimeError(BROKEN), LostRankError(), SignalInterrupt(15)):
        said = failing([problem, None, LostRankError()])
        assert sorted(said)[:1] == [""]
        [message] = [one for one in said if one and not one.startswith("silent")]
        assert message.startswith("ranks: rank 1 ended without a word: killed, out of memory")
        assert "--resume" in message


@pytest.mark.usefixtures("hasty")
def test_a_signal_to_all_is_no_death():
    said = failing([SignalInterrupt(2), SignalInterrupt(2)])
    assert sorted(said) == ["", "silent 130"]


def test_what_the_launcher_says():
    one = Launch.of_environment(TORCHRUN)
    assert one == Launch(1, 4, 1, 2, "node", 29500, 2, hosts_store=False)
    assert launched_rank(TORCHRUN) == 1
    by_hand = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "node", "MASTER_PORT": "1"}
    started = Launch.of_environment(by_hand)
    assert started is not None
    assert started.hosts_store
    for alone in ({}, {"RANK": "0", "WORLD_SIZE": "1"}, {"RANK": "0"}):
        assert Launch.of_environment(alone) is None
        assert launched_rank(alone) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"RANK": ""}, "the environment variable RANK is missing"),
        ({"RANK": "4"}, "the environment variable RANK = '4' is not below 4"),
        ({"RANK": "one"}, "RANK = 'one' is no number"),
        ({"WORLD_SIZE": "many"}, "WORLD_SIZE = 'many' is no number"),
        ({"MASTER_PORT": ""}, "MASTER_PORT is missing"),
        ({"MASTER_PORT": "70000"}, "MASTER_PORT = '70000' is not below 65536"),
        ({"MASTER_ADDR": ""}, "MASTER_ADDR is missing"),
    ],
)
def test_a_launcher_that_says_nonsense_is_refused(change, message):
    with pytest.raises(UserError, match=r"torchrun --nproc-per-node") as refused:
        Launch.of_environment(TORCHRUN | change)
    assert message in str(refused.value)


def rank_of(rank: int, *, size: int = 4, local_size: int = 0) -> JoinedRanks:
    store = dist.HashStore()
    return JoinedRanks(launch(rank, size, local_size=local_size), store, lasting=store)


def test_each_rank_takes_its_own_gpu(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert [rank_of(rank).device("auto") for rank in (0, 1)] == ["cuda:0", "cuda:1"]
    assert rank_of(1).device("cuda") == "cuda:1"
    assert rank_of(1).device("cpu") == "cpu"
    assert rank_of(0, local_size=1).device("cuda:1") == "cuda:1"
    with pytest.raises(UserError, match="this machine has 2 GPUs for 4 ranks"):
        rank_of(2).device("cuda")
    with pytest.raises(UserError, match="'cuda:1' is one GPU for 4 ranks"):
        rank_of(0).device("cuda:1")
    with pytest.raises(UserError, match="'mps' cannot be shared by 4 ranks"):
        rank_of(0).device("mps")
    # Left to the check of devices, which says how many there are.
    assert rank_of(0).device("cuda:7") == "cuda:7"
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert rank_of(3).device("auto") == "cpu"


def test_ranks_of_a_machine_share_its_cores(monkeypatch):
    monkeypatch.setattr(ranks, "usable_cores", lambda: 8)
    assert rank_of(0, local_size=2).threads(8) == 4
    assert rank_of(0, local_size=2).threads(3) == 3
    assert rank_of(0, local_size=16).threads(8) == 1
    assert OneRank().threads(8) == 8


def test_what_is_decided_is_json():
    with pytest.raises(TypeError):
        rank_of(0).first_decides("it", lambda: {1, 2})
    assert json.loads(rank_of(0).first_decides("it", lambda: json.dumps([1.5]))) == [1.5]
