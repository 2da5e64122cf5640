"""Rows that depend on their batch have a verdict of their own."""

import pytest
import torch
from tests.audits.planted_coupling import COUPLED
from tests.audits.planted_hidden_leaks import Branch, past
from tests.audits.toy_models import Components, ToyTransformer
from torch import Tensor, nn

from regard.audits.audit import audit
from regard.runs.results import AuditRecord


@pytest.mark.parametrize("name", COUPLED)
def test_batch_coupling_is_the_verdict(name: str) -> None:
    build, mode = COUPLED[name]
    report = audit(build())
    assert report.verdict == "batch coupling"
    assert report.leaks == ()
    assert not any("depend on the inputs" in note for note in report.unchecked)
    assert report.findings[0].check == f"batch, {mode}"
    assert mode in report.sentence()
    record = AuditRecord.of_audit(report)
    assert not record.is_valid
    assert record.reasons == (report.sentence(),)


def test_hidden_coupling_names_what_opens_it() -> None:
    report = audit(COUPLED["behind a zero gate"][0]())
    assert "opens when extra.gate trains" in report.sentence()


def test_overflow_behind_a_closed_gate_is_no_coupling() -> None:
    module = Branch(torch.tensor(-200.0), lambda m, x: m.value.exp() * past(x))
    report = audit(ToyTransformer(Components(extra=lambda width: module, max_length=12)))
    assert report.verdict == "clean", report.sentence()


def test_batch_norm_couples_and_does_not_leak() -> None:
    """Its buffer of zeros is replaced in training too, where its rows are coupled."""

    class Norm(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(width)

        def forward(self, x: Tensor) -> Tensor:
            # One position at a time: nothing of the future.
            return torch.stack([self.norm(one) for one in x.unbind(dim=1)], dim=1)

    report = audit(ToyTransformer(Components(extra=Norm, max_length=12)))
    assert report.verdict == "batch coupling"
    assert "training mode" in report.sentence()


def test_a_leak_comes_before_batch_coupling() -> None:
    model = ToyTransformer(
        Components(between_blocks=lambda x, p: x - x.mean(dim=(0, 1), keepdim=True), max_length=12)
    )
    assert audit(model).verdict == "leak"
