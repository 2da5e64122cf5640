"""One writer per run folder, with or without locks of the file system."""

import errno
import subprocess
import sys

import pytest

from regard.core.errors import UserError
from regard.runs.lock import is_locked, lock_run

HOLD = """
import sys, time
from pathlib import Path
from regard.runs.lock import lock_run
with lock_run(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture(params=["system locks", "no locks", "no fcntl"])
def file_system(request, monkeypatch):
    if request.param != "system locks":
        number = errno.ENOSYS if request.param == "no fcntl" else errno.ENOLCK

        def refuse(descriptor):
            raise OSError(number, "no locks here")

        monkeypatch.setattr("filelock._unix._lock_fd_nonblocking", refuse)
    return request.param


@pytest.mark.filterwarnings("ignore:flock not supported")
@pytest.mark.usefixtures("file_system")
def test_a_run_folder_has_one_writer(tmp_path):
    folder = tmp_path / "runs" / "a"
    assert not is_locked(folder)
    with lock_run(folder):
        assert is_locked(folder)
        assert not is_locked(tmp_path / "runs" / "b")
        with pytest.raises(UserError, match="another process is training into"), lock_run(folder):
            pytest.fail("two writers")
    assert not is_locked(folder)
    with lock_run(folder):
        pass
    assert not (tmp_path / "runs").exists()


def test_a_lock_is_released_when_its_process_is_killed(tmp_path):
    folder = tmp_path / "a"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        assert is_locked(folder)
        holder.kill()
        holder.wait()
        assert not is_locked(folder)
