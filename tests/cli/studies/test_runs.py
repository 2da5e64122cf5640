"""`regard runs` as a person types it: what is shown, what is chosen, and what is never deleted."""

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

from regard.cli import app, console
from regard.cli.studies import runs as verb
from regard.runs.archive import deletion


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def listed(self) -> list[str]:
        """The first word of each line below the headings."""
        return [line.split()[0] for line in self.out.splitlines()[1:] if line[:1].isalpha()]


Regard = Callable[..., Done]


@pytest.fixture
def regard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Regard:
    """The command, in a folder with runs/; `answer` is what the person types when asked."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str, answer: str = "") -> Done:
        for one in (console.console, console.side_console):
            one.cache_clear()
        monkeypatch.setattr(sys, "argv", ["regard", "runs", *words])
        monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            app.main()
        said = capsys.readouterr()
        return Done(int(left.value.code or 0), said.out, said.err)  # type: ignore[arg-type]

    return run


@pytest.fixture
def three() -> None:
    write_run(Path("runs/study/dot"), perplexity=118.4)
    write_run(Path("runs/study/additive"), perplexity=116.5, attention="additive")
    write_run(Path("runs/stopped"), perplexity=None)


def test_each_run_is_a_line(regard, three):
    done = regard()
    assert done.code == 0
    assert done.listed == ["stopped", "study/additive", "study/dot"]
    lines = done.out.splitlines()
    assert re.fullmatch(
        r"run +state +family +attention +parameters +steps +seed +on dev +audit +finished",
        lines[0],
    )
    assert re.fullmatch(
        r"study/dot +finished +decoder +dot +473,712 +500 +2 +perplexity 118.4 +clean "
        r"+2026-11-15 21:56",
        lines[3],
    )
    assert re.search(r"unfinished .* 120 of 500 ", lines[1])
    assert "size" not in done.out
    assert (Path("runs") / ".index.json").is_file() is False  # all of it is too new to be kept


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
def test_choosing_and_sorting(regard, three, words, listed):
    done = regard(*words, "--json")
    assert [run["run"] for run in json.loads(done.out)] == listed
    assert [name for name in regard(*words).listed if "/" in name or name == "stopped"] == listed


def test_json_has_the_interval_and_the_keys_of_conditions(regard, three):
    (run,) = json.loads(regard("study/dot", "--json").out)
    assert run["folder"] == "runs/study/dot"
    assert (run["dev.perplexity.low"], run["dev.perplexity.high"]) == (113.4, 123.4)
    assert run["model.attention.kind"] == "dot"


def test_what_is_cut_away_is_counted(regard, three):
    assert "1 of 3 runs, 2 match" in regard("--state", "finished", "--limit", "1").out
    assert "none of 3 runs matches" in regard("--state", "damaged").out


def test_sizes_are_of_everything_in_the_folder(regard, three):
    weights = Path("runs/stopped/checkpoints/step-1/model.safetensors")
    weights.parent.mkdir(parents=True)
    weights.write_bytes(bytes(3_000_000))
    done = regard("--sizes", "--sort", "-size", "--limit", "1")
    assert done.listed[0] == "stopped"
    assert "3.00 MB" in done.out or "3 MB" in done.out


def test_runs_on_other_items_are_not_to_be_compared(regard, three):
    assert "cannot be compared" not in regard().out
    tokenizer = {"name": "bpe", "size": 4000, "fingerprint": "77ab"}
    write_run(Path("runs/other"), tokenizer=tokenizer)
    assert "cannot be compared" in regard().out
    assert "cannot be compared" not in regard("study").out


def test_an_invalid_run_is_red_and_the_table_fits(monkeypatch, tmp_path):
    leak = {"verdict": "leak", "sentence": "leak: position 7 reacts to 8"}
    write_run(tmp_path / "cheat", perplexity=61.0, audit=leak)
    (write_run(tmp_path / "half") / "figures.json").write_text("{")
    for width in (60, 80, 120):
        screen = io.StringIO()
        terminal = Console(
            file=screen, width=width, force_terminal=True, color_system="standard", highlight=False
        )
        monkeypatch.setattr(verb, "console", lambda terminal=terminal: terminal)
        verb.runs(root=tmp_path)
        text = screen.getvalue()
        assert "\x1b[1;31mINVALID" in text
        assert re.search(r"\x1b\[31m *perplexity 61.0", text)
        assert "\x1b[31mdamaged  half/figures.json: damaged, not JSON" in text
        plain = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
        assert all(len(line) <= width for line in plain[:3])
        assert ("no room here for" in text) is (width < 120)


def test_a_run_that_answers_is_told_by_its_own_metric_and_a_collapse_is_said(regard):
    judged = {"part": "dev", "metric": "exact_match", "value": 0.59, "n": 300, "of": "model"}
    health = {"predictions": {"n": 300, "collapsed": "all rows are answered 'true'"}}
    write_run(Path("runs/answers"), figures=[judged])
    write_run(Path("runs/one-class"), figures=[judged], health=health)
    lines = regard().out.splitlines()
    assert " exact match 0.5900 " in lines[1]
    assert "COLLAPSED" not in lines[1]
    assert " COLLAPSED exact match 0.5900 " in lines[2]


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
def test_bad_input_is_one_sentence(regard, three, words, says):
    done = regard(*words)
    assert done.code == 2
    assert says in done.err
    assert done.err.count("\n") == 1
    assert len(list(Path("runs").rglob("recipe.toml"))) == 3


def left() -> set[str]:
    return {str(file.parent.relative_to("runs")) for file in Path("runs").rglob("recipe.toml")}


def test_deleting_asks_first(regard, three):
    done = regard("--delete", "--state", "unfinished", answer="n\n")
    assert done.code == 1
    assert "runs/stopped  unfinished at step 120 of 500, written to" in done.err
    assert "Delete 1 run?" in done.err
    assert "nothing was deleted" in done.err
    assert regard("--delete", "stopped", answer="").code == 1  # nobody is there to answer
    assert left() == {"stopped", "study/dot", "study/additive"}
    assert regard("--delete", "--state", "unfinished", answer="y\n").code == 0
    assert left() == {"study/dot", "study/additive"}


def test_deleting_takes_what_would_be_listed_and_leaves_no_trace(regard, three):
    done = regard("--delete", "--where", "dev.perplexity<117", "--yes", "--json")
    assert json.loads(done.out) == {"deleted": ["study/additive"]}
    assert [file.name for file in Path("runs/study").iterdir()] == ["dot"]
    assert json.loads(regard("--delete", "--state", "damaged", "--yes", "--json").out) == {
        "deleted": []
    }
    assert regard("--delete", "*", "--yes").code == 0
    assert left() == set()


def test_what_a_killed_deletion_left_goes_with_the_next(regard, three):
    write_run(Path("runs/.regard-deleted-12345678"))
    assert regard().listed == ["stopped", "study/additive", "study/dot"]
    assert regard("--delete", "stopped", "--yes").code == 0
    assert [file.name for file in Path("runs").iterdir()] == ["study"]


@pytest.mark.parametrize("start", ["runs/study/dot", "{tmp}/runs/study/dot", "dot.toml"])
def test_a_run_that_another_starts_from_stays_unless_it_is_named(regard, three, tmp_path, start):
    recipe = write_run(Path("runs/study/tuned")) / "recipe.toml"
    start = start.format(tmp=tmp_path)
    recipe.write_text(f'start = "{start}"\n{recipe.read_text()}')
    for words in (("--where", "attention=dot", "*/dot"), ("*/dot", "--yes"), ("study/dot",)):
        done = regard("--delete", *words, answer="y\n")
        assert done.code == 2
        assert "study/tuned starts from study/dot; nothing was deleted" in done.err
    assert regard("--delete", "study/dot", "--yes").code == 0
    assert left() == {"stopped", "study/additive", "study/tuned"}


def test_the_result_of_a_recipe_is_known_by_its_name_and_identity(regard, three):
    Path("first.toml").write_text('name = "pre"')
    write_run(Path("runs/study/pre-0123abcd"))
    recipe = write_run(Path("runs/study/tuned")) / "recipe.toml"
    recipe.write_text(f'start = "first.toml"\n{recipe.read_text()}')
    done = regard("--delete", "*/pre*", "--yes")
    assert "study/tuned starts from study/pre-0123abcd" in done.err
    assert regard("--delete", "*/pre*", "*/tuned", "--yes").code == 0  # both go: nobody is left
    assert left() == {"stopped", "study/additive", "study/dot"}


def test_a_run_that_holds_another_goes_only_with_it(regard, three):
    write_run(Path("runs/stopped/inner"))
    done = regard("--delete", "--state", "unfinished", "--yes")
    assert done.code == 2
    assert "stopped holds another run, stopped/inner" in done.err
    assert regard("--delete", "stopped", "--yes").code == 0  # the name means what is below it too
    assert left() == {"study/dot", "study/additive"}


def test_a_folder_where_a_person_keeps_a_recipe_is_not_deleted(regard, three):
    mine = Path("runs/mine")
    mine.mkdir()
    (mine / "recipe.toml").write_text('name = "mine"')
    (mine / "thesis.tex").write_text("years of work")
    done = regard("--delete", "mine", "stopped", "--yes")
    assert done.code == 2
    assert "runs/mine: no training began there, and it holds other things (thesis.tex)" in done.err
    assert left() == {"mine", "stopped", "study/dot", "study/additive"}


def test_links_inside_a_run_go_without_what_they_lead_to(regard, three, tmp_path):
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


def test_a_folder_swapped_for_a_link_after_it_was_chosen_is_left_alone(
    regard, three, tmp_path, monkeypatch
):
    write_run(tmp_path / "far", perplexity=None)

    def swap(*words: object, **more: object) -> bool:
        Path("runs/stopped").rename(tmp_path / "moved")
        Path("runs/stopped").symlink_to(tmp_path / "far")
        return True

    monkeypatch.setattr(verb.typer, "confirm", swap)
    done = regard("--delete", "stopped")
    assert done.code == 2
    assert "runs/stopped: it is not a run any more" in done.err
    assert Path("runs/stopped").is_symlink()
    assert (tmp_path / "far" / "recipe.toml").is_file()


def test_a_run_that_finished_meanwhile_is_not_deleted_as_unfinished(regard, three, monkeypatch):
    real = verb._in_state

    def later(*words, **more):
        chosen = real(*words, **more)
        write_run(Path("runs/stopped"), perplexity=99.0)
        return chosen

    monkeypatch.setattr(verb, "_in_state", later)
    done = regard("--delete", "--state", "unfinished", "--yes")
    assert done.code == 2
    assert "runs/stopped: it has changed since it was chosen; nothing was deleted" in done.err


def test_what_cannot_be_removed_is_said(regard, three, monkeypatch):
    monkeypatch.setattr(deletion.shutil, "rmtree", lambda *words, **more: None)
    done = regard("--delete", "stopped", "--yes")
    assert done.code == 2
    assert "some of its files cannot be removed; they are in runs/.regard-deleted-" in done.err
    assert regard().listed == ["study/additive", "study/dot"]
