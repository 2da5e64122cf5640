"""`regard ls` at the widths that terminals have: nothing torn, the broken ones marked."""

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from regard.api import catalogs
from regard.attention.kinds import ATTENTION
from regard.cli.catalog import ls as verb
from regard.cli.catalog.properties import further, main_property


@pytest.fixture(params=[80, 120])
def shown(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What the verb prints in a terminal of this width, colours included."""

    def run(sort: str | None) -> str:
        screen = io.StringIO()
        console = Console(
            file=screen, width=request.param, force_terminal=True, color_system="standard"
        )
        monkeypatch.setattr(verb, "console", lambda: console)
        verb.ls(sort)
        return screen.getvalue()

    return run


@pytest.mark.parametrize("catalog", catalogs(), ids=lambda catalog: catalog.name)
def test_no_source_is_torn(shown: Callable[..., str], catalog) -> None:
    text = shown(catalog.name)
    for entry in catalog:
        assert entry.source in text
        assert main_property(entry)
        assert main_property(entry) in text
    assert "…" not in text


def test_broken_kinds_are_red_with_their_reason(shown: Callable[..., str]) -> None:
    text = shown("attention")
    assert "\x1b[31mzero-masked\x1b[0m" in text
    assert "\x1b[31mbroken: the mask comes after the softmax" in text
    assert "\x1b[1mdot\x1b[0m" in text


def test_the_overview_has_every_name_and_no_source(shown: Callable[..., str]) -> None:
    text = shown(None)
    for catalog in catalogs():
        assert catalog.name in text
        assert all(name in text for name in catalog.names())
    assert ".py:" not in text


def test_traits_are_said_by_what_is_missing() -> None:
    assert further(ATTENTION.get("dot")) == "causal · cacheable · cross · any mask"
    assert "absolute positions only" in further(ATTENTION.get("linear"))
    assert "masks causal, bidirectional" in further(ATTENTION.get("linear"))
