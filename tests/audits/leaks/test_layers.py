"""A window wider than declared is a leak, in whatever layer it is."""

import pytest
import torch
from tests.audits.windows import NARROW, WIDE, declared
from torch import Tensor, nn

from regard.audits.audit import audit


@pytest.mark.parametrize("name", WIDE)
def test_window_wider_than_declared_is_a_leak(name: str) -> None:
    build, mask = WIDE[name]
    report = audit(build(), mask=mask)
    assert report.verdict == "leak"
    assert all("layer" in leak.where and leak.how == "gradient" for leak in report.leaks)
    assert not any(bool(mask(12)[leak.query, leak.key]) for leak in report.leaks)


@pytest.mark.parametrize("name", NARROW)
def test_window_as_declared_is_clean(name: str) -> None:
    build, mask = NARROW[name]
    report = audit(build(), mask=mask)
    assert report.verdict == "clean", report.sentence()
    assert any("layers alone, by gradient" in note for note in report.checked)


def test_only_the_wide_layer_is_named() -> None:
    build, mask = WIDE["one layer of three"]
    assert {leak.where.rpartition("layer ")[2] for leak in audit(build(), mask=mask).leaks} == {
        "blocks.1"
    }


def test_what_opens_a_wider_window_is_named() -> None:
    build, mask = WIDE["behind a zero gate"]
    report = audit(build(), mask=mask)
    assert {leak.opens_with for leak in report.leaks} == {("extra.gate",)}
    assert "opens when extra.gate trains" in report.sentence()


class OneForward(nn.Module):
    """Two windows applied in one forward: no submodule is a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(9, 4)

    def forward(self, ids: Tensor) -> Tensor:
        x: Tensor = self.tokens(ids)
        for _ in range(2):
            x = x + declared(ids.shape[1]).float() @ x
        return x


def test_layers_that_cannot_be_told_apart_are_said() -> None:
    report = audit(OneForward(), mask=declared)
    assert report.verdict == "clean"
    assert any(note.startswith("each layer alone") for note in report.unchecked)


def test_torch_attention_is_a_layer() -> None:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(9, 8)
            self.layers = nn.ModuleList(
                nn.TransformerEncoderLayer(8, 2, 16, batch_first=True) for _ in range(2)
            )

        def forward(self, ids: Tensor) -> Tensor:
            x: Tensor = self.tokens(ids)
            for layer in self.layers:
                x = layer(x, src_mask=~declared(ids.shape[1]))
            return x

    narrow = declared(12) & torch.ones(12, 12).triu(-1).bool()
    assert audit(Encoder(), mask=declared, lengths=[12]).verdict == "clean"
    assert audit(Encoder(), mask=narrow).verdict == "leak"
