"""Rows that depend on their batch have a verdict of their own."""

import pytest
from tests.audits.planted_coupling import COUPLED
from tests.audits.toy_models import Components, ToyTransformer

from regard.audits.audit import audit
from regard.runs.results import AuditRecord


@pytest.mark.parametrize("name", COUPLED)
def test_batch_coupling_is_the_verdict(name: str) -> None:
    build, mode = COUPLED[name]
    report = audit(build())
    assert report.verdict == "batch coupling"
    assert report.leaks == ()
    assert report.findings[0].check == f"batch, {mode}"
    assert mode in report.sentence()
    record = AuditRecord.of_audit(report)
    assert not record.is_valid
    assert record.reasons == (report.sentence(),)


def test_hidden_coupling_names_what_opens_it() -> None:
    report = audit(COUPLED["behind a zero gate"][0]())
    assert "opens when extra.gate trains" in report.sentence()


def test_a_leak_comes_before_batch_coupling() -> None:
    model = ToyTransformer(
        Components(between_blocks=lambda x, p: x - x.mean(dim=(0, 1), keepdim=True), max_length=12)
    )
    assert audit(model).verdict == "leak"
