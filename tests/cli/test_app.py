"""The command line itself: fast startup, one-sentence errors, exit codes."""

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from regard.cli import app, exit_codes

HEAVY = ("torch", "numpy", "pyarrow", "tokenizers", "rich.progress", "regard.core.settings")


def run_python(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("args", [("--help",), ("train", "--help"), ("tokenizer", "--help")])
def test_help_imports_nothing_heavy(args: tuple[str, ...]) -> None:
    result = run_python(
        "import atexit, json, sys\n"
        "atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))\n"
        "from regard.cli.app import main\n"
        "main()",
        *args,
    )
    assert result.returncode == 0
    assert "Usage" in result.stdout
    loaded = json.loads(result.stderr)
    assert "regard.cli.app" in loaded
    assert not {*HEAVY} & {*loaded}


def test_python_dash_m_runs_the_command() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "regard", "--help"], capture_output=True, text=True
    )
    assert result.returncode == 0
    for command in ("new", "validate", "train", "evaluate", "generate", "report", "ls", "corpus"):
        assert f"\n  {command} " in result.stdout


def test_output_that_the_terminal_cannot_encode_is_no_error() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "regard", "mask", "causal"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
    )
    assert (result.returncode, result.stderr) == (0, "")
    rows = result.stdout.splitlines()[1:]
    assert [row.split().count("#") for row in rows] == list(range(1, len(rows) + 1))
    assert "?" not in result.stdout


def exit_code(problem: BaseException, monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit code if a command raises `problem`."""

    def broken(*_: object, **__: object) -> None:
        raise problem

    monkeypatch.setattr(app, "app", broken)
    with pytest.raises(SystemExit) as exit_info:
        app.main()
    return int(exit_info.value.code)  # type: ignore[arg-type]


def test_bug_is_one_sentence_and_a_traceback_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("REGARD_TRACEBACK", raising=False)
    monkeypatch.setattr(exit_codes.tempfile, "tempdir", str(tmp_path))
    assert exit_code(ZeroDivisionError("by zero"), monkeypatch) == 70
    error = capsys.readouterr().err.strip()
    match = re.fullmatch(
        r"this is a bug in regard: ZeroDivisionError: by zero; the traceback is in (\S+)", error
    )
    assert match
    assert Path(match[1]).parent == tmp_path
    assert "Traceback" in Path(match[1]).read_text()
    assert "in broken" in Path(match[1]).read_text()


def test_traceback_is_printed_with_environment_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REGARD_TRACEBACK", "1")
    monkeypatch.setattr(exit_codes.tempfile, "tempdir", str(tmp_path))
    assert exit_code(ZeroDivisionError("by zero"), monkeypatch) == 70
    assert capsys.readouterr().err.startswith("Traceback")
    assert not list(tmp_path.iterdir())


def test_traceback_is_printed_if_no_file_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("REGARD_TRACEBACK", raising=False)
    monkeypatch.setattr(exit_codes.tempfile, "tempdir", str(tmp_path / "gone"))
    assert exit_code(ZeroDivisionError("by zero"), monkeypatch) == 70
    error = capsys.readouterr().err
    assert error.startswith("Traceback")
    assert "this is a bug in regard" in error


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, "no space left for runs/a"),
        (errno.EDQUOT, "no space left for runs/a"),
        (errno.EACCES, "runs/a cannot be used (Permission denied)"),
        (errno.EROFS, "runs/a cannot be used (Read-only file system)"),
    ],
)
def test_disk_errors_give_exit_code_2(
    number: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert exit_code(OSError(number, os.strerror(number), "runs/a"), monkeypatch) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "problem",
    [
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 16 TB"),
        RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
    ],
)
def test_out_of_memory_gives_exit_code_2(
    problem: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(problem, monkeypatch) == 2
    assert "model.width" in capsys.readouterr().err


def test_unexpected_missing_file_is_a_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(exit_codes.tempfile, "tempdir", str(tmp_path))
    assert exit_code(FileNotFoundError(errno.ENOENT, "no such file", "x"), monkeypatch) == 70
    assert "bug in regard" in capsys.readouterr().err


@pytest.mark.parametrize(("encoding", "code"), [("ascii", 2), ("utf-8", 70)])
def test_a_path_that_cannot_be_named_here_is_one_sentence(
    encoding: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`LC_ALL=C` and a path with ü; in a traceback it must not stop the report of the bug."""
    monkeypatch.setattr(exit_codes.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(exit_codes.sys, "getfilesystemencoding", lambda: encoding)
    problem = UnicodeEncodeError(encoding, "r\udcc3n", 1, 2, "not in range")
    assert exit_code(problem, monkeypatch) == code
    assert ("PYTHONUTF8=1" in capsys.readouterr().err) is (code == 2)


def test_links_in_a_circle_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(exit_codes.tempfile, "tempdir", str(tmp_path))
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(OSError, match=r"loop|levels of symbolic links") as caught:
        loop.read_bytes()
    before_python_3_13 = RuntimeError(f"Symlink loop from {str(loop)!r}")
    for problem in (caught.value, before_python_3_13):
        assert exit_code(problem, monkeypatch) == 2
        assert str(loop) in capsys.readouterr().err


def test_a_cache_that_cannot_be_made_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As on a drive that is not there."""
    monkeypatch.setenv("REGARD_CACHE", "/proc/nothing")
    problem = FileNotFoundError(errno.ENOENT, "no such file", "/proc/nothing/tokens")
    assert exit_code(problem, monkeypatch) == 2
    assert "Set REGARD_CACHE" in capsys.readouterr().err


def test_ctrl_c_gives_exit_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    assert exit_code(KeyboardInterrupt(), monkeypatch) == 130


def test_closed_pipe_is_no_error() -> None:
    """`regard … | head -c 1`: the closed pipe causes no error message."""
    result = subprocess.run(
        ["bash", "-c", f"'{sys.executable}' -m regard --help | head -c 1"],
        capture_output=True,
        text=True,
    )
    assert result.stdout == "U"
    assert "Traceback" not in result.stderr
