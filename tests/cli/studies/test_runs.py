"""`regard runs`: listing, filtering, sorting, and what is never deleted."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console
from tests.runs.archive.test_index import write_run
from tests.wording import says

from regard.cli import app
from regard.cli.studies import runs as runs_command
from regard.cli.studies import runs_deletion, runs_table
from regard.runs.archive import deletion
from regard.runs.locking.lock import lock_run


@dataclass(frozen=True)
class CommandResult:
    code: int
    out: str
    err: str

    @property
    def listed(self) -> list[str]:
        """The run names: the first word of each line below the headings."""
        return [line.split()[0] for line in self.out.splitlines()[1:] if line[:1].isalpha()]


Regard = Callable[..., CommandResult]


@pytest.fixture
def regard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Regard:
    """Run the command in a folder with runs/; `answer` is typed at the prompt."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str, answer: str = "") -> CommandResult:
        monkeypatch.setattr(sys, "argv", ["regard", "runs", *words])
        monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_info:
            app.main()
        printed = capsys.readouterr()
        return CommandResult(int(exit_info.value.code or 0), printed.out, printed.err)  # type: ignore[arg-type]

    return run


@pytest.fixture
def three_runs() -> None:
    write_run(Path("runs/study/dot"), perplexity=118.4)
    write_run(Path("runs/study/additive"), perplexity=116.5, attention="additive")
    write_run(Path("runs/stopped"), perplexity=None)


def test_one_line_per_run(regard, three_runs):
    result = regard()
    assert result.code == 0
    assert result.listed == ["stopped", "study/additive", "study/dot"]
    lines = result.out.splitlines()
    shown = dict(zip(*(re.split(r"  +", lines[n].strip()) for n in (0, 3)), strict=True))
    assert shown == {
        "run": "study/dot",
        "state": "finished",
        "family": "decoder",
        "attention": "dot",
        "parameters": "473,712",
        "steps": "500",
        "seed": "2",
        "on dev": "perplexity 118.4",
        "audit": "clean",
        "finished": "2026-11-15 21:56",
    }
    assert re.search(r"unfinished .* 120 of 500 ", lines[1])
    assert "size" not in result.out
    assert (Path("runs") / ".index.json").is_file() is False  # all runs are too new to be cached


@pytest.mark.parametrize(
    ("words", "listed"),
    [
        (("--where", "model.attention.kind=additive"), ["study/additive"]),
        (("--where", "dev.perplexity<118", "--where", "seed=2"), ["study/additive"]),
        (("--where", "attention!=additive"), ["stopped", "study/dot"]),
        (("--state", "unfinished"), ["stopped"]),
        (("study",), ["study/additive", "study/dot"]),
        (("*d*",), ["stopped", "study/additive", "study/dot"]),
        (("*/dot", "stopped"), ["stopped", "study/dot"]),
        (("runs/study/dot/",), ["study/dot"]),
        (("--sort", "dev.perplexity"), ["study/additive", "study/dot", "stopped"]),
        (("--sort", "-dev.perplexity"), ["study/dot", "study/additive", "stopped"]),
        (("--sort", "-dev.perplexity", "--limit", "1"), ["study/dot"]),
    ],
)
def test_filtering_and_sorting(regard, three_runs, words, listed):
    result = regard(*words, "--json")
    assert [run["run"] for run in json.loads(result.out)] == listed
    assert [name for name in regard(*words).listed if "/" in name or name == "stopped"] == listed


def test_json_has_interval_and_settings(regard, three_runs):
    (run,) = json.loads(regard("study/dot", "--json").out)
    assert run["folder"] == "runs/study/dot"
    assert (run["dev.perplexity.low"], run["dev.perplexity.high"]) == (113.4, 123.4)
    assert run["model.attention.kind"] == "dot"


def test_counts_of_runs_not_shown(regard, three_runs):
    assert "1 of 3 runs, 2 match" in regard("--state", "finished", "--limit", "1").out
    assert "none of 3 runs matches" in regard("--state", "damaged").out


def test_size_counts_all_files_of_the_folder(regard, three_runs):
    weights = Path("runs/stopped/checkpoints/step-1/model.safetensors")
    weights.parent.mkdir(parents=True)
    weights.write_bytes(bytes(3_000_000))
    result = regard("--sizes", "--sort", "-size", "--limit", "1")
    assert result.listed[0] == "stopped"
    assert "3.00 MB" in result.out or "3 MB" in result.out


def test_warns_if_perplexities_do_not_compare(regard, three_runs):
    assert "cannot be compared" not in regard().out
    tokenizer = {"name": "bpe", "size": 4000, "fingerprint": "77ab"}
    write_run(Path("runs/other"), tokenizer=tokenizer)
    assert "cannot be compared" in regard().out
    assert "cannot be compared" not in regard("study").out


def test_invalid_run_is_red_and_table_fits_the_terminal(monkeypatch, tmp_path):
    leak = {"verdict": "leak", "sentence": "leak: position 7 reacts to 8"}
    write_run(tmp_path / "cheat", perplexity=61.0, audit=leak)
    (write_run(tmp_path / "half") / "results.json").write_text("{")
    for width in (60, 80, 120):
        output = io.StringIO()
        terminal = Console(
            file=output, width=width, force_terminal=True, color_system="standard", highlight=False
        )
        monkeypatch.setattr(runs_table, "console", lambda terminal=terminal: terminal)
        runs_command.runs(root=tmp_path)
        text = output.getvalue()
        assert "\x1b[1;31mINVALID" in text
        assert re.search(r"\x1b\[31m *perplexity 61.0", text)
        assert "\x1b[31mdamaged  half/results.json: damaged, not JSON" in text
        plain = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
        assert all(len(line) <= width for line in plain[:3])
        assert ("not shown: " in text) is (width < 120)


def test_task_run_shows_its_main_metric_and_its_collapse(regard):
    estimate = {"split": "dev", "metric": "exact_match", "value": 0.59, "n": 300, "of": "model"}
    health = {"predictions": {"n": 300, "collapsed": "all rows are answered 'true'"}}
    write_run(Path("runs/answers"), estimates=[estimate])
    write_run(Path("runs/one-class"), estimates=[estimate], health=health)
    lines = regard().out.splitlines()
    assert " exact match 0.590 " in lines[1]
    assert "COLLAPSED" not in lines[1]
    assert " COLLAPSED exact match 0.590 " in lines[2]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--where", "model.atention.kind=dot"), "did you mean model.attention.kind?"),
        (("--where", "model.layers"), "no condition"),
        (("--sort", "perplexity"), "did you mean dev.perplexity?"),
        (("--state", "finshed"), "did you mean finished?"),
        (("study/dott",), "did you mean study/dot?"),
        (("--in", "nowhere"), "nowhere: there is no such folder"),
        (("--in", "runs/stopped"), "runs/stopped: is a run itself"),
        (("--delete",), "would delete every run"),
        (("--delete", "--yes", "--limit", "1"), "would delete every run"),
    ],
)
def test_errors_are_one_sentence(regard, three_runs, words, says):
    result = regard(*words)
    assert result.code == 2
    assert says in result.err
    assert result.err.count("\n") == 1
    assert len(list(Path("runs").rglob("recipe.toml"))) == 3


def remaining_runs() -> set[str]:
    return {str(file.parent.relative_to("runs")) for file in Path("runs").rglob("recipe.toml")}


def test_delete_asks_for_confirmation(regard, three_runs):
    result = regard("--delete", "--state", "unfinished", answer="n\n")
    assert result.code == 1
    assert says(result.err, "runs/stopped", "unfinished", "step 120 of 500", "written to")
    assert "Delete 1 run?" in result.err
    assert "nothing was deleted" in result.err
    assert regard("--delete", "stopped", answer="").code == 1  # no terminal
    assert remaining_runs() == {"stopped", "study/dot", "study/additive"}
    assert regard("--delete", "--state", "unfinished", answer="y\n").code == 0
    assert remaining_runs() == {"study/dot", "study/additive"}


def test_delete_removes_the_selected_runs_completely(regard, three_runs):
    result = regard("--delete", "--where", "dev.perplexity<117", "--yes", "--json")
    assert json.loads(result.out) == {"deleted": ["study/additive"]}
    assert [file.name for file in Path("runs/study").iterdir()] == ["dot"]
    assert json.loads(regard("--delete", "--state", "damaged", "--yes", "--json").out) == {
        "deleted": []
    }
    assert regard("--delete", "*", "--yes").code == 0
    assert remaining_runs() == set()


def test_leftovers_of_a_killed_deletion_are_removed(regard, three_runs):
    write_run(Path("runs/.regard-deleted-12345678"))
    assert regard().listed == ["stopped", "study/additive", "study/dot"]
    assert regard("--delete", "stopped", "--yes").code == 0
    assert [file.name for file in Path("runs").iterdir()] == ["study"]


@pytest.mark.parametrize("init_from", ["runs/study/dot", "{tmp}/runs/study/dot", "dot.toml"])
def test_initial_model_of_another_run_is_only_deleted_by_name(
    regard, three_runs, tmp_path, init_from
):
    recipe = write_run(Path("runs/study/tuned")) / "recipe.toml"
    init_from = init_from.format(tmp=tmp_path)
    recipe.write_text(f'init_from = "{init_from}"\n{recipe.read_text()}')
    for words in (("--where", "attention=dot", "*/dot"), ("*/dot", "--yes"), ("study/dot",)):
        result = regard("--delete", *words, answer="y\n")
        assert result.code == 2
        assert "study/tuned starts from study/dot; nothing was deleted" in result.err
    assert regard("--delete", "study/dot", "--yes").code == 0
    assert remaining_runs() == {"stopped", "study/additive", "study/tuned"}


def test_run_of_an_init_from_recipe_is_protected(regard, three_runs):
    Path("first.toml").write_text('name = "pre"')
    write_run(Path("runs/study/pre-0123abcd"))
    recipe = write_run(Path("runs/study/tuned")) / "recipe.toml"
    recipe.write_text(f'init_from = "first.toml"\n{recipe.read_text()}')
    result = regard("--delete", "*/pre*", "--yes")
    assert "study/tuned starts from study/pre-0123abcd" in result.err
    assert regard("--delete", "*/pre*", "*/tuned", "--yes").code == 0  # both are deleted
    assert remaining_runs() == {"stopped", "study/additive", "study/dot"}


def test_run_containing_another_is_only_deleted_with_it(regard, three_runs):
    write_run(Path("runs/stopped/inner"))
    result = regard("--delete", "--state", "unfinished", "--yes")
    assert result.code == 2
    assert "stopped contains another run, stopped/inner" in result.err
    assert regard("--delete", "stopped", "--yes").code == 0  # a name includes runs below it
    assert remaining_runs() == {"study/dot", "study/additive"}


def test_folder_with_user_files_is_not_deleted(regard, three_runs):
    mine = Path("runs/mine")
    mine.mkdir()
    (mine / "recipe.toml").write_text('name = "mine"')
    (mine / "thesis.tex").write_text("years of work")
    result = regard("--delete", "mine", "stopped", "--yes")
    assert result.code == 2
    assert says(result.err, "runs/mine", "no training", "other files", "thesis.tex")
    assert remaining_runs() == {"mine", "stopped", "study/dot", "study/additive"}


def test_symlinks_are_deleted_without_their_targets(regard, three_runs, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "data.txt").write_text("kept")
    Path("runs/stopped/data").symlink_to(outside)
    write_run(tmp_path / "far")
    Path("runs/link").symlink_to(tmp_path / "far")
    assert regard("--delete", "*", "--yes").code == 0
    assert (outside / "data.txt").read_text() == "kept"
    assert (tmp_path / "far" / "recipe.toml").is_file()
    assert Path("runs/link").is_symlink()


def test_folder_replaced_by_a_symlink_is_not_deleted(regard, three_runs, tmp_path, monkeypatch):
    write_run(tmp_path / "far", perplexity=None)

    def swap(*args: object, **kwargs: object) -> bool:
        Path("runs/stopped").rename(tmp_path / "moved")
        Path("runs/stopped").symlink_to(tmp_path / "far")
        return True

    monkeypatch.setattr(runs_deletion.typer, "confirm", swap)
    result = regard("--delete", "stopped")
    assert result.code == 2
    assert says(result.err, "runs/stopped", "not a run any more")
    assert Path("runs/stopped").is_symlink()
    assert (tmp_path / "far" / "recipe.toml").is_file()


def test_run_that_finishes_meanwhile_is_not_deleted(regard, three_runs, monkeypatch):
    real = runs_command._in_state

    def finish_run(*args, **kwargs):
        selected = real(*args, **kwargs)
        write_run(Path("runs/stopped"), perplexity=99.0)
        return selected

    monkeypatch.setattr(runs_command, "_in_state", finish_run)
    result = regard("--delete", "--state", "unfinished", "--yes")
    assert result.code == 2
    assert says(result.err, "runs/stopped", "changed", "nothing was deleted")


def test_undeletable_files_are_reported(regard, three_runs, monkeypatch):
    monkeypatch.setattr(deletion.shutil, "rmtree", lambda *args, **kwargs: None)
    result = regard("--delete", "stopped", "--yes")
    assert result.code == 2
    assert says(result.err, "cannot be removed", "runs/.regard-deleted-")
    assert regard().listed == ["study/additive", "study/dot"]


def test_run_that_is_being_trained_is_not_deleted(regard, three_runs):
    with lock_run(Path("runs/stopped"), "training"):
        result = regard("--delete", "stopped", "--yes")
    assert result.code == 2
    assert "another process is writing to" in result.err
    assert "stopped" in remaining_runs()
