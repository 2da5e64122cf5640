"""A process that may not address what drawing reserves writes its report without charts."""

import pytest

from regard.core.errors import UserError
from regard.reports.charts import drawing, run_charts
from regard.reports.run_report import draw_inline_charts


def test_charts_are_named_as_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "address_limit", lambda: 4 << 30)
    shown = draw_inline_charts(run_charts.loss_chart, None)
    assert {one.theme for one in shown} == {"light", "dark"}
    assert all("this process may address 4.0 GB" in one.svg for one in shown)
    with pytest.raises(UserError, match="ulimit -v"):
        drawing.check_drawing()


@pytest.mark.parametrize("limit", [None, 70 << 30])
def test_enough_addresses_are_no_error(monkeypatch: pytest.MonkeyPatch, limit: int | None) -> None:
    monkeypatch.setattr(drawing, "address_limit", lambda: limit)
    drawing.check_drawing()
