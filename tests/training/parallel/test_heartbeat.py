"""A rank that falls silent ends the others; one that has left, or only takes its time, does not."""

import threading
import time

import pytest
import torch.distributed as dist
from tests.training.parallel.test_ranks import launch

from regard.training.parallel import heartbeat
from regard.training.parallel.heartbeat import Heartbeat


@pytest.fixture
def ends(monkeypatch):
    """The exit codes with which a process would have ended."""
    codes: list[int] = []

    def end(code: int) -> None:
        codes.append(code)
        raise SystemExit

    monkeypatch.setattr("os._exit", end)
    monkeypatch.setattr(heartbeat, "BEAT_SECONDS", 0.01)
    monkeypatch.setattr(heartbeat, "SILENT_BEATS", 30)
    return codes


def watch(store: dist.Store) -> None:
    """Until it ends the process."""
    with pytest.raises(SystemExit):
        Heartbeat(launch(0, 2), lambda: store).run()


def test_a_silent_rank_ends_the_others(ends, capsys):
    watch(dist.HashStore())
    assert ends == [2]
    assert capsys.readouterr().err.startswith("ranks: rank 1 has given no sign of life for 30 s.")


def test_a_signal_makes_it_sooner(ends, capsys, monkeypatch):
    monkeypatch.setattr(heartbeat, "signal_received", lambda: True)
    watch(dist.HashStore())
    assert ends == [2]
    assert "for 6 s" in capsys.readouterr().err


def test_a_rank_that_beats_or_has_left_ends_nobody(ends):
    store = dist.HashStore()
    ranks = [Heartbeat(launch(rank, 2), lambda: store) for rank in range(2)]
    for one in ranks:
        one.start()
    time.sleep(0.8)
    assert all(one.is_alive() for one in ranks)
    assert all(one.beats(rank) for rank, one in enumerate(ranks))
    store.set("left/1", "")
    ranks[1].stop()
    time.sleep(0.8)
    assert ranks[0].is_alive()
    assert not ranks[0].beats(1)
    ranks[0].stop()
    for one in ranks:
        one.join(5)
    assert not ends


def test_after_a_failure_elsewhere_a_rank_that_does_not_notice_is_ended(ends, capsys):
    store = dist.HashStore()
    store.set("failed", "")
    other = threading.Thread(target=lambda: [store.add("beat/1", 1) for _ in range(10_000)])
    other.start()
    watch(store)
    other.join()
    assert ends == [2]
    assert not capsys.readouterr().err  # the rank that failed has said it


def test_a_rank_that_ends_in_order_is_left_alone(ends):
    store = dist.HashStore()
    store.set("failed", "")
    one = Heartbeat(launch(0, 2), lambda: store)
    one.only_beat()
    one.start()
    time.sleep(0.8)
    assert one.is_alive()
    one.stop()
    one.join(5)
    assert not ends
