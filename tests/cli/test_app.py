"""The command itself: quick to start, quiet when it breaks, and honest about whose fault it is."""

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from regard.cli import app

HEAVY = ("torch", "numpy", "pyarrow", "tokenizers", "rich.progress", "regard.core.settings")


def in_a_new_python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("words", [("--help",), ("train", "--help"), ("tokenizer", "--help")])
def test_help_loads_nothing_heavy(words: tuple[str, ...]) -> None:
    done = in_a_new_python(
        "import atexit, json, sys\n"
        "atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))\n"
        "from regard.cli.app import main\n"
        "main()",
        *words,
    )
    assert done.returncode == 0
    assert "Usage" in done.stdout
    loaded = json.loads(done.stderr)
    assert "regard.cli.app" in loaded
    assert not {*HEAVY} & {*loaded}


def test_python_dash_m_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "regard", "--help"], capture_output=True, text=True
    )
    assert done.returncode == 0
    for verb in ("new", "validate", "train", "evaluate", "generate", "report", "ls", "corpus"):
        assert f"\n  {verb} " in done.stdout


def leaves(problem: BaseException, monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit code when some verb ends in `problem`."""

    def broken() -> None:
        raise problem

    monkeypatch.setattr(app, "app", broken)
    with pytest.raises(SystemExit) as left:
        app.main()
    return int(left.value.code)  # type: ignore[arg-type]


def test_a_bug_is_one_sentence_and_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("REGARD_TRACEBACK", raising=False)
    monkeypatch.setattr(app.tempfile, "tempdir", str(tmp_path))
    assert leaves(ZeroDivisionError("by nothing"), monkeypatch) == 70
    said = capsys.readouterr().err.strip()
    told = re.fullmatch(
        r"this is a bug in regard: ZeroDivisionError: by nothing; the traceback is in (\S+)", said
    )
    assert told
    assert Path(told[1]).parent == tmp_path
    assert "Traceback" in Path(told[1]).read_text()
    assert "in broken" in Path(told[1]).read_text()


def test_the_traceback_is_shown_when_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REGARD_TRACEBACK", "1")
    monkeypatch.setattr(app.tempfile, "tempdir", str(tmp_path))
    assert leaves(ZeroDivisionError("by nothing"), monkeypatch) == 70
    assert capsys.readouterr().err.startswith("Traceback")
    assert not list(tmp_path.iterdir())


def test_a_bug_is_told_even_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("REGARD_TRACEBACK", raising=False)
    monkeypatch.setattr(app.tempfile, "tempdir", str(tmp_path / "gone"))
    assert leaves(ZeroDivisionError("by nothing"), monkeypatch) == 70
    said = capsys.readouterr().err
    assert said.startswith("Traceback")
    assert "this is a bug in regard" in said


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENOSPC, "no space left for runs/a"),
        (errno.EDQUOT, "no space left for runs/a"),
        (errno.EACCES, "runs/a cannot be used (Permission denied)"),
        (errno.EROFS, "runs/a cannot be used (Read-only file system)"),
    ],
)
def test_what_the_system_refuses_is_the_persons_to_mend(
    number: int,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert leaves(OSError(number, os.strerror(number), "runs/a"), monkeypatch) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    "problem",
    [
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 16 TB"),
        RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"),
    ],
)
def test_a_model_too_big_for_the_machine_is_the_persons_to_mend(
    problem: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert leaves(problem, monkeypatch) == 2
    assert "model.width" in capsys.readouterr().err


def test_a_file_we_should_have_made_is_our_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(app.tempfile, "tempdir", str(tmp_path))
    assert leaves(FileNotFoundError(errno.ENOENT, "no such file", "x"), monkeypatch) == 70
    assert "bug in regard" in capsys.readouterr().err


def test_ctrl_c_anywhere_exits_130(monkeypatch: pytest.MonkeyPatch) -> None:
    assert leaves(KeyboardInterrupt(), monkeypatch) == 130


def test_a_closed_pipe_is_no_error() -> None:
    """`regard … | head -c 1`: the reader goes away, nobody complains."""
    done = subprocess.run(
        ["bash", "-c", f"'{sys.executable}' -m regard --help | head -c 1"],
        capture_output=True,
        text=True,
    )
    assert done.stdout == "U"
    assert "Traceback" not in done.stderr
