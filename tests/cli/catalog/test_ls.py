"""`regard ls` at common terminal widths: sources are not wrapped, broken kinds are marked."""

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from regard.api import catalogs
from regard.attention.kinds import ATTENTION
from regard.cli import tables
from regard.cli.catalog import ls as ls_command
from regard.cli.catalog.properties import main_property, other_properties


@pytest.fixture(params=[80, 120])
def run_ls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Output in a terminal of this width, with colours."""

    def run(catalog: str | None) -> str:
        output = io.StringIO()
        console = Console(
            file=output, width=request.param, force_terminal=True, color_system="standard"
        )
        for module in (ls_command, tables):
            monkeypatch.setattr(module, "console", lambda: console)
        ls_command.ls(catalog)
        return output.getvalue()

    return run


@pytest.mark.parametrize("catalog", catalogs(), ids=lambda catalog: catalog.name)
def test_sources_are_not_wrapped(run_ls: Callable[..., str], catalog) -> None:
    text = run_ls(catalog.name)
    for entry in catalog:
        assert entry.source in text
        assert main_property(entry)
        assert main_property(entry) in text
    assert "…" not in text


def test_broken_kinds_are_red_with_their_reason(run_ls: Callable[..., str]) -> None:
    text = run_ls("attention")
    assert "\x1b[31mzero-masked\x1b[0m" in text
    assert "\x1b[31mbroken: the mask comes after the softmax" in text
    assert "\x1b[1mdot\x1b[0m" in text


def test_overview_has_every_name_and_no_source(run_ls: Callable[..., str]) -> None:
    text = run_ls(None)
    for catalog in catalogs():
        assert catalog.name in text
        assert all(name in text for name in catalog.names())
    assert ".py:" not in text


def test_attention_traits() -> None:
    listed = other_properties(ATTENTION.get("dot")).split(" · ")
    assert listed == ["causal", "cacheable", "cross", "any mask"]
    assert "absolute positions only" in other_properties(ATTENTION.get("linear"))
    assert "masks causal, bidirectional" in other_properties(ATTENTION.get("linear"))
