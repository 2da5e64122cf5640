"""Arguments beside the ids are given, and none that a model takes is said to be missing."""

import pytest
from tests.audits.models_with_arguments import CLEAN, LEAKING

from regard.audits.audit import audit
from regard.audits.build_subject import build_subject


@pytest.mark.parametrize("name", LEAKING)
def test_leak_by_an_argument_is_found(name: str) -> None:
    build, mode = LEAKING[name]
    report = audit(build())
    assert report.verdict == "leak"
    assert report.leaks[0].where.startswith(f"{mode}, length")


@pytest.mark.parametrize("name", CLEAN)
def test_clean_model_with_arguments_is_clean(name: str) -> None:
    report = audit(CLEAN[name]())
    assert report.verdict == "clean", report.sentence()
    assert not any("takes no padding mask" in note for note in report.unchecked)


def test_the_arguments_that_run_are_known() -> None:
    taken = build_subject(CLEAN["Model"]()).arguments
    assert taken == ("attention_mask", "token_type_ids", "position_ids")
    square = build_subject(CLEAN["SquareMask"]())
    assert square.arguments == ()
    assert "(b,t,t)" in square.refused_arguments[0]
    assert not square.accepts_padding_mask


def test_a_refused_mask_is_said_with_its_error() -> None:
    report = audit(CLEAN["SquareMask"](), lengths=[5])
    assert any(note.startswith("attention_mask: ") for note in report.unchecked)


def test_left_padding_with_position_ids_changes_nothing() -> None:
    report = audit(CLEAN["Model"](), lengths=[8])
    checks = {finding.check for finding in report.findings}
    assert "with padding on the left" in checks
    assert "with padding on the left and position ids" not in checks
    assert "with padding on the left and position ids" in report.checked
