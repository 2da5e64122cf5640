"""One writer per run folder: processes, machines, file systems with and without locks."""

import dataclasses
import errno
import os
from pathlib import Path

import pytest
from tests.runs.locking.other_process import held_by_another_process

from regard.core.errors import UserError
from regard.runs.locking import lock, lock_holder
from regard.runs.locking.lock import RunLockedError, is_locked, lock_run, lock_run_for_evaluation


def refuse_locks(monkeypatch, number=errno.ENOLCK):
    def refuse(descriptor):
        raise OSError(number, "no locks here")

    monkeypatch.setattr("filelock._unix._lock_fd_nonblocking", refuse)


@pytest.fixture(params=["system locks", "no locks", "no fcntl"])
def file_system(request, monkeypatch):
    if request.param != "system locks":
        refuse_locks(monkeypatch, errno.ENOSYS if request.param == "no fcntl" else errno.ENOLCK)
    return request.param


@pytest.mark.usefixtures("file_system")
def test_a_run_folder_has_one_writer(tmp_path):
    folder = tmp_path / "runs" / "a"
    assert not is_locked(folder)
    with lock_run(folder, "training"):
        assert is_locked(folder)
        assert not is_locked(tmp_path / "runs" / "b")
        with pytest.raises(RunLockedError), lock_run(folder, "report"):
            pytest.fail("two writers")
    assert not is_locked(folder)
    with lock_run(folder, "training"):
        pass
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("file_system", ["system locks", "no locks"])
def test_the_second_writer_is_told_the_first_and_takes_over_when_it_dies(
    tmp_path, monkeypatch, file_system
):
    if file_system == "no locks":
        refuse_locks(monkeypatch)
    folder = tmp_path / "a"
    with held_by_another_process(folder, "deletion", file_system=file_system) as holder:
        assert is_locked(folder)
        with pytest.raises(RunLockedError) as caught, lock_run(folder, "training"):
            pytest.fail("two writers")
        found = caught.value.holder
        assert (found.purpose, found.pid) == ("deletion", holder.pid)
        for said in (str(folder), "deletion", str(holder.pid), found.host, found.since[:10]):
            assert said in str(caught.value)
        holder.kill()
        holder.wait()
        assert not is_locked(folder)
        with lock_run(folder, "training"):
            assert lock_holder.LockHolder.read(tmp_path / ".a.writer.json").pid == os.getpid()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("file_system", ["system locks", "no locks"])
def test_a_holder_on_another_machine_keeps_the_lock_while_it_beats(
    tmp_path, monkeypatch, file_system
):
    """Two machines on a network folder: neither sees the other's processes or system locks."""
    monkeypatch.setattr(lock_holder, "BEAT_SECONDS", 0.1)
    refuse_locks(monkeypatch)
    if file_system == "system locks":  # granted to each machine alone
        monkeypatch.setattr("filelock._unix._lock_fd_nonblocking", lambda descriptor: True)
        monkeypatch.setattr("filelock._unix._unlock_fd", lambda descriptor: None)
    folder = tmp_path / "a"
    with held_by_another_process(folder, host="elsewhere", file_system=file_system) as holder:
        if file_system == "no locks":
            # As filelock records the holder: a process of this machine would count as dead.
            soft_lock = tmp_path / ".a.soft-lock"
            soft_lock.write_text(soft_lock.read_text().replace(lock_holder.platform.node(), "x"))
        with pytest.raises(RunLockedError, match="elsewhere"), lock_run(folder, "training"):
            pytest.fail("two writers")
        holder.kill()
        holder.wait()
        with lock_run(folder, "training"):
            assert lock_holder.LockHolder.read(tmp_path / ".a.writer.json").pid == os.getpid()


@pytest.mark.parametrize("at", ["first", "after a dead one"])
def test_of_two_machines_that_come_at_once_one_writes(tmp_path, monkeypatch, at):
    """The same lock was granted to both; each has looked for the other before it came."""
    folder, writer = tmp_path / "a", tmp_path / ".a.writer.json"
    monkeypatch.setattr(lock_holder, "BEAT_SECONDS", 0.01)
    other = lock_holder.LockHolder("training", "elsewhere", 1, "2026-11-19T10:00:00+00:00")
    dead = lock_holder.LockHolder("training", "dead", 2, "2026-11-18T10:00:00+00:00")
    if at == "after a dead one":
        lock_holder._create(writer, dead)
    seen = lock_holder.LockHolder.read(writer)

    def announced(holder, file, *, instead_of, original=lock_holder.announced):
        file.unlink(missing_ok=True)
        lock_holder._create(file, other)
        return original(holder, file, instead_of=instead_of)

    monkeypatch.setattr(lock, "announced", announced)
    with pytest.raises(RunLockedError, match="elsewhere"), lock_run(folder, "training"):
        pytest.fail("two writers")
    assert seen == (dead if at == "after a dead one" else None)
    assert lock_holder.LockHolder.read(writer) == other, "the other's announcement stays"
    assert [file.name for file in tmp_path.iterdir()] == [writer.name]


@pytest.mark.parametrize("marker", ["", "4711\nelsewhere\n"])
@pytest.mark.parametrize("announced", ["nobody", "a former one"])
def test_a_lock_file_of_a_process_killed_at_once_is_taken_over(
    tmp_path, monkeypatch, marker, announced
):
    """Killed between making the file, filling it, and saying who it is; locks are not supported."""
    refuse_locks(monkeypatch)
    monkeypatch.setattr(lock_holder, "BEAT_SECONDS", 0.1)
    if announced == "a former one":
        former = lock_holder.LockHolder.this_process("training")
        if marker:  # else filelock would have found out that it is gone
            former = dataclasses.replace(former, host="elsewhere")
        lock_holder._create(tmp_path / ".a.writer.json", former)
    (tmp_path / ".a.soft-lock").write_text(marker)
    with lock_run(tmp_path / "a", "training"):
        assert lock_holder.LockHolder.read(tmp_path / ".a.writer.json").pid == os.getpid()
    assert list(tmp_path.iterdir()) == []


def test_evaluations_run_beside_each_other_and_beside_nothing_else(tmp_path):
    folder = tmp_path / "a"
    with (
        held_by_another_process(folder, "evaluation"),
        lock_run_for_evaluation(folder),
        pytest.raises(RunLockedError),
        lock_run(folder, "training"),
    ):
        pytest.fail("trains while evaluated")
    with (
        held_by_another_process(folder, "training"),
        pytest.raises(RunLockedError),
        lock_run_for_evaluation(folder),
    ):
        pytest.fail("evaluates while trained")


def test_an_evaluation_needs_no_permission_to_write(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(errno.EROFS, "read-only file system")

    monkeypatch.setattr(lock, "_acquired", refuse)
    with lock_run_for_evaluation(tmp_path / "a"):
        pass
    with pytest.raises(PermissionError), lock_run(tmp_path / "a", "training"):
        pass


def test_a_lock_of_an_unknown_holder_is_still_a_lock(tmp_path):
    with lock_run(tmp_path / "a", "training"):
        (tmp_path / ".a.writer.json").write_text("half a fi")
        with pytest.raises(RunLockedError) as caught, lock_run(tmp_path / "a", "training"):
            pytest.fail("two writers")
        assert caught.value.holder is None
        assert isinstance(caught.value, UserError)


def test_the_folder_may_be_the_working_directory(tmp_path, monkeypatch):
    folder = tmp_path / "a"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with lock_run(Path(), "report"):
        assert is_locked(folder)
    assert list(tmp_path.iterdir()) == [folder]
