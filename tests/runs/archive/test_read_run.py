"""Reading a run folder: finished, unfinished, resumed or damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.core.printable import printable
from regard.data.statistics import LengthHistogram
from regard.evaluation.statistics.baseline_verdict import BaselineVerdict
from regard.runs.archive.read_run import read_run


def step(at: int, loss: float) -> str:
    return json.dumps({"event": "step", "step": at, "loss": loss, "lr": 1e-3, "tokens": 10 * at})


def losses(folder: Path) -> dict[int, float]:
    return {event.step: event.loss for event in read_run(folder).events.steps}


def test_everything_written_is_read(make_run):
    run = read_run(make_run())
    assert run.name == "mini-gpt"
    assert run.events.start.steps == 1200
    assert (len(run.events.steps), len(run.events.evaluations), len(run.events.samples)) == (
        120,
        12,
        12,
    )
    assert run.events.finished_at == run.events.last_step == 1200
    assert run.events.unreadable_lines == 0
    assert run.results is not None
    assert len(run.results.estimates) == 36
    assert run.results.corpus is not None
    assert run.results.corpus.splits["dev"].documents == 2104


def test_a_training_that_diverged_says_how(make_run):
    rising = [step(at, 9.0 if at < 4 else 3.0 if at < 60 else 8.0) for at in range(1, 101)]
    assert read_run(make_run()).events.diverged == ""
    assert "8.00" in read_run(make_run(events=rising)).events.diverged
    stopped = json.dumps({"event": "divergence", "step": 3, "text": "not finite at step 3"})
    run = read_run(make_run(events=[step(1, 9.0), step(2, 8.0), stopped], finished=False))
    assert run.events.diverged == "not finite at step 3"


def test_comparisons_are_read_as_written(make_run):
    comparisons = read_run(make_run(model=100.0, kneser_ney=90.0)).results.comparisons
    assert [(c.split, c.against, c.verdict) for c in comparisons] == [
        ("dev", "Kneser-Ney 3-gram", BaselineVerdict.BEHIND),
        ("dev", "unigram", BaselineVerdict.BETTER),
        ("test", "Kneser-Ney 3-gram", BaselineVerdict.BEHIND),
        ("test", "unigram", BaselineVerdict.BETTER),
    ]
    assert (comparisons[0].value, comparisons[0].low, comparisons[0].high) == (10.0, 7.0, 13.0)


def test_comparisons_are_optional(make_run):
    folder = make_run()
    table = json.loads((folder / "results.json").read_text())
    del table["comparisons"]
    (folder / "results.json").write_text(json.dumps(table))
    assert read_run(folder).results.comparisons == ()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"verdict": "ahead of"}, r"damaged at comparisons\.0\.verdict: .*'better than', 'behind'"),
        ({"against": "4-gram"}, r"damaged: .*compared with 4-gram, .*no such estimate of 4-gram"),
        ({"split": "far"}, r"damaged: .*far perplexity .*no such estimate of model"),
    ],
)
def test_an_inconsistent_comparison_is_an_error(make_run, change, says):
    folder = make_run()
    table = json.loads((folder / "results.json").read_text())
    table["comparisons"][0] |= change
    (folder / "results.json").write_text(json.dumps(table))
    with pytest.raises(UserError, match=says):
        read_run(folder)


def test_a_run_without_results_is_unfinished(make_run):
    run = read_run(make_run(finished=False))
    assert run.results is None
    assert run.name == "mini-gpt"


def test_a_truncated_last_line_is_ignored(make_run):
    folder = make_run(events=[step(10, 5.0)])
    with (folder / "events.jsonl").open("a") as events:
        events.write(step(20, 4.0)[:-9])
    assert losses(folder) == {10: 5.0}
    assert read_run(folder).events.unreadable_lines == 0


@pytest.mark.parametrize("bad", ['{"event": "st', "[1, 2]", '"text"', '{"event": "step"}', "\x00"])
def test_damaged_lines_are_counted(make_run, bad):
    folder = make_run(events=[step(10, 5.0), bad, step(20, 4.0)])
    assert losses(folder) == {10: 5.0, 20: 4.0}
    assert read_run(folder).events.unreadable_lines == 1


def test_events_undone_by_a_resume_are_dropped(make_run):
    resume = json.dumps({"event": "resume", "step": 20})
    folder = make_run(events=[step(10, 5), step(20, 4), step(30, 9), resume, step(30, 3)])
    assert losses(folder) == {10: 5, 20: 4, 30: 3}
    assert read_run(folder).events.resumed_from == [20]


def test_undone_events_are_dropped_without_a_resume_event(make_run):
    folder = make_run(events=[step(10, 5), step(20, 9), step(30, 9), step(20, 4), step(30, 3)])
    assert losses(folder) == {10: 5, 20: 4, 30: 3}


def test_unknown_events_are_ignored(make_run):
    folder = make_run(events=[step(10, 5.0), '{"event": "audit", "leaks": 0}'])
    assert read_run(folder).events.unreadable_lines == 0


def test_a_folder_without_a_run_is_an_error(tmp_path):
    with pytest.raises(UserError, match=r"not a run: .* recipe\.toml nor events\.jsonl"):
        read_run(tmp_path)
    with pytest.raises(UserError, match=r"nowhere: not a run: it does not exist"):
        read_run(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"schema": 3, "run"', r"results\.json: damaged, not JSON .*Delete the file"),
        ("\xff", r"damaged, not JSON"),
        ('{"schema": 2}', r"schema 2 is unknown; this regard reads schema 3"),
        ('{"schema": 7}', r"schema 7 is unknown; this regard reads schema 3"),
        ("[]", r"schema None is unknown"),
        ('{"schema": 3, "run": "a"}', r"damaged at estimates: Field required"),
    ],
)
def test_unreadable_results_are_an_error(make_run, content, says):
    folder = make_run()
    (folder / "results.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(UserError, match=says) as problem:
        read_run(folder)
    assert problem.value.topic == "run"
    assert "\n" not in str(problem.value)


def test_results_of_schema_1_are_refused_in_one_sentence(make_run):
    folder = make_run()
    (folder / "results.json").rename(folder / "figures.json")
    with pytest.raises(UserError) as refused:
        read_run(folder)
    said = str(refused.value)
    assert said.startswith(f"run: {folder}/figures.json: schema 1")
    assert "results.json, schema 3" in said


def test_a_histogram_needs_one_more_edge_than_counts():
    with pytest.raises(ValueError, match="2 edges cannot bound 3 counts"):
        LengthHistogram(edges=(0, 1), counts=(1, 2, 3))


@given(st.text(alphabet=st.characters(codec=None, categories=None)))
def test_printable_text_is_valid_utf8_without_control_characters(text):
    shown = printable(text)
    shown.encode("utf-8")
    controls = {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F))}
    assert not (set(shown) & controls) - {"\n", "\t"}
    assert printable(shown) == shown


@given(st.text(alphabet=st.characters(categories=("L", "N", "P", "S", "Zs"))))
def test_printable_keeps_ordinary_text(text):
    assert printable(text) == text


def test_printable_recurses_into_containers():
    assert printable({"a\x00": ["\u202eb", 3, None]}) == {"a[U+0000]": ["[U+202E]b", 3, None]}
    assert printable("\ud83d\ude00 \ud83d") == "😀 \ufffd"
