"""`regard mask`: a mask drawn for the terminal and as a file, or one sentence and exit code 2."""

import sys
from pathlib import Path

import pytest

from regard.attention.masks.drawing import LEGEND
from regard.cli import app

TOKENS = "Jill Birt [MASK] outdoor activities He was [MASK] hiking"


def regard(monkeypatch: pytest.MonkeyPatch, *args: str) -> int:
    monkeypatch.setattr(sys, "argv", ["regard", "mask", *args])
    with pytest.raises(SystemExit) as exit_info:
        app.main()
    return int(exit_info.value.code or 0)  # type: ignore[arg-type]


def test_prefix_mask_with_labels(monkeypatch, capsys):
    assert regard(monkeypatch, "prefix", "--prefix", "5", "--labels", TOKENS) == 0
    title, numbers, *rows = capsys.readouterr().out.splitlines()
    assert title == f"prefix · {LEGEND}"
    assert numbers.split() == [str(key) for key in range(9)]
    for query, (label, row) in enumerate(zip(TOKENS.split(), rows, strict=True)):
        allowed = max(5, query + 1)
        assert row.split() == [str(query), label, *"■" * allowed, *"·" * (9 - allowed)]
    assert len({row.index("■") for row in rows}) == 1, "columns are aligned"


def drawn_rows(capsys) -> list[str]:
    """The rows below the title, without the spaces between cells."""
    return [row.replace(" ", "") for row in capsys.readouterr().out.splitlines()[1:]]


def test_composed_mask(monkeypatch, capsys):
    assert regard(monkeypatch, "causal & ~sliding-window:2 | same-block:2", "--length", "4") == 0
    assert drawn_rows(capsys) == ["■■··", "■■··", "■·■■", "■■■■"]


def test_options_set_the_numbers(monkeypatch, capsys):
    args = ("sliding-window | same-block", "--window", "1", "--block", "2", "--length", "3")
    assert regard(monkeypatch, *args) == 0
    assert drawn_rows(capsys) == ["■■·", "■■·", "··■"]


def test_svg_file(monkeypatch, capsys, tmp_path: Path):
    file = tmp_path / "new" / "mask.svg"
    assert regard(monkeypatch, "causal", "--length", "3", "--svg", str(file)) == 0
    assert capsys.readouterr().out.endswith(f"{file}\n")
    assert file.read_text(encoding="utf-8").startswith("<svg ")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["causl"], "did you mean causal?"),
        (["causal & (sliding-window:4"], "not closed"),
        (
            ["lookback:3"],
            "did you mean sliding-window:4? (A window counts the query's own position.)",
        ),
        (["lookback"], "did you mean sliding-window?"),
        (["sliding-window", "--window", "0"], "1 position or more"),
        (["prefix", "--prefix", "-1"], "prefix of -1 positions in a row of 9. Give it 0 to 9."),
        (["prefix", "--length", "4"], "prefix of 5 positions in a row of 4"),
        (["causal", "--length", "0"], "Choose a length from 1 to 500."),
        (["causal", "--length", "501"], "Choose a length from 1 to 500."),
        (["causal", "--labels", ""], "a sequence of 0 positions"),
        (["causal", "--labels", "a b", "--length", "3"], "2 tokens and --length says 3"),
        (["sliding-window:2", "--window", "3"], "Write sliding-window, or leave --window out."),
        (["causal", "--block", "3"], "Write same-block, or leave --block out."),
    ],
)
def test_errors_are_one_sentence(monkeypatch, capsys, args, message):
    assert regard(monkeypatch, *args) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert printed.err.count("\n") == 1


def test_svg_to_a_folder_is_refused(monkeypatch, capsys, tmp_path: Path):
    assert regard(monkeypatch, "causal", "--svg", str(tmp_path)) == 2
    assert capsys.readouterr().err == f"mask: {tmp_path}: is a folder. Name a file.\n"


def test_unwritable_svg_path_is_one_sentence(monkeypatch, capsys, tmp_path: Path):
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    target = tmp_path / "file" / "mask.svg"
    assert regard(monkeypatch, "causal", "--svg", str(target)) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"mask: {target}: cannot be written (")
    assert error.count("\n") == 1
