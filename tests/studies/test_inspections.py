"""Stored inspections of probe sentences equal those of the run."""

import numpy as np
import pytest
from tests.journeys.workspace import Workspace, generated_text

import regard
from regard.studies.inspections import MAX_PROBES, read_inspections, store_inspections
from regard.studies.outcome import Outcome, RunOutcome, VariantOutcome, write_outcome

TEXTS = ["the cat sees a dog", "every river follows one stone"]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    workspace = Workspace(tmp_path_factory.mktemp("study"))
    workspace.write("generated.txt", generated_text())
    workspace.recipe(train__max_steps=2)
    workspace.run("train", "tiny.toml")
    return workspace.folder / "runs"


def outcome_with(*variants: VariantOutcome) -> Outcome:
    return Outcome(
        name="s",
        question="",
        decides="dev.perplexity",
        reference=variants[0].name,
        seeds=(0,),
        budget="steps",
        tuned=(),
        variants=list(variants),
        verdicts=[],
        baselines=[],
        unequal=[],
        invalid=[],
        missing=[],
        remarks=[],
        command="",
    )


def test_stored_inspection_equals_regard_inspect(home):
    outcome = outcome_with(
        VariantOutcome("tiny", {}, runs=[RunOutcome(0, "tiny")]),
        VariantOutcome("gone", {}, runs=[RunOutcome(0, "gone")]),
        VariantOutcome("unfinished", {}, runs=[RunOutcome(0, "tiny", reason="stopped")]),
    )
    store_inspections(outcome, TEXTS * MAX_PROBES, home=home)
    stored = read_inspections(home, outcome)
    assert [(one.variant, one.text) for one in stored[:2]] == [
        ("tiny", TEXTS[0]),
        ("gone", TEXTS[0]),
    ]
    assert len(stored) == 2 * MAX_PROBES
    assert stored[1].inspection is None
    assert "does not exist" in stored[1].reason
    expected = regard.inspect(home / "tiny", TEXTS[0])
    actual = stored[0].inspection
    assert (actual.row, actual.source, actual.remarks) == (
        expected.row,
        expected.source,
        expected.remarks,
    )
    for one, other in zip(actual.attention, expected.attention, strict=True):
        assert one.name == other.name
        assert np.abs(one.weights - other.weights).max() <= 5e-7


def test_unreadable_inspection_is_shown_as_its_reason(home):
    outcome = outcome_with(VariantOutcome("tiny", {}, runs=[RunOutcome(0, "tiny")]))
    store_inspections(outcome, TEXTS, home=home)
    (home / "inspections" / "tiny-probe0.json").write_text('{"schema": 1}')
    damaged, intact = read_inspections(home, outcome)
    assert (damaged.variant, damaged.inspection) == ("tiny", None)
    assert "tiny-probe0.json: schema 1 is unknown" in damaged.reason
    assert (intact.text, intact.reason) == (TEXTS[1], "")


def test_attention_that_changed_after_the_study_is_not_shown(home):
    """One flipped digit is another weight."""
    outcome = outcome_with(VariantOutcome("tiny", {}, runs=[RunOutcome(0, "tiny")]))
    store_inspections(outcome, TEXTS, home=home)
    write_outcome(home, outcome)
    file = home / "inspections" / "tiny-probe0.json"
    content = file.read_bytes()
    file.write_bytes(content.replace(b"0.1", b"0.9", 1))
    assert file.read_bytes() != content
    damaged, intact = read_inspections(home, outcome)
    assert damaged.inspection is None
    assert "is damaged" in damaged.reason
    assert intact.inspection is not None


def test_study_without_probes_stores_nothing(home, tmp_path):
    outcome = outcome_with(VariantOutcome("tiny", {}, runs=[RunOutcome(0, "tiny")]))
    store_inspections(outcome, [], home=tmp_path)
    assert read_inspections(tmp_path, outcome) == []
    assert list(tmp_path.iterdir()) == []
