"""A person at the form of a recipe, in a real browser: it is built, trained, stopped, resumed."""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.journeys.workspace import WORDS
from tests.web.served import Served, served
from tests.web.test_journeys import Visitor, browser, let_in, sync_api  # noqa: F401

from regard import Recipe

SETTINGS = {
    "name": "built",
    "model.layers": "1",
    "model.heads": "2",
    "model.width": "16",
    "model.context": "16",
    "train.max_steps": "1500",
    "train.batch_tokens": "512",
    "train.threads": "1",
    "train.evaluate_every": "500",
}


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    (tmp_path / "runs").mkdir()
    sentences = [" ".join(words) for words in itertools.product(*WORDS)]
    (tmp_path / "generated.txt").write_text("\n".join(sentences[::3]))
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def server(home) -> Iterator[Served]:
    with served(home / "runs") as running:
        yield running


@pytest.fixture
def visitor(browser, server) -> Iterator[Visitor]:  # noqa: F811
    one = Visitor(browser, server, let_in(browser, server))
    yield one
    one.context.close()
    assert one.problems == []


def field(page, key):
    return page.locator(f'[data-key="{key}"]').first


def test_a_recipe_is_built_trained_stopped_resumed_and_deleted(visitor, home):
    expect = sync_api.expect
    page = visitor.visit("/recipe")
    form = page.locator("#recipe")
    field(page, "data.corpus").select_option(label="generated.txt")
    for key, text in SETTINGS.items():
        field(page, key).fill(text)
    page.locator("summary", has_text="Tokenizer").click()
    field(page, "tokenizer.kind").select_option("word")
    toml = page.locator("#toml")
    expect(toml).to_contain_text('kind = "word"')
    expect(form).to_have_attribute("data-busy", "false")

    # A mistake is said at its field, and the other settings stay.
    field(page, "train.lr").fill("fast")
    wrong = page.locator('[data-row="train.lr"] .wrong')
    expect(wrong).to_contain_text("train.lr = 'fast' is not allowed: give a number")
    expect(page.get_by_role("button", name="Train")).to_be_disabled()
    expect(field(page, "train.lr")).to_have_attribute("aria-invalid", "true")
    visitor.check_accessible()
    field(page, "train.lr").fill("1e-2")
    expect(wrong).to_have_count(0)

    # Another kind of attention has other settings; its formula stands beside it.
    field(page, "model.attention.kind").select_option("additive")
    field(page, "model.attention.hidden").fill("4")
    expect(toml).to_contain_text('attention = { kind = "additive", hidden = 4 }')
    expect(page.locator("#counts")).to_contain_text("additive")
    field(page, "model.attention.kind").select_option("")
    expect(field(page, "model.attention.hidden")).to_have_count(0)
    expect(page.locator("#forecast dl")).to_contain_text("1,500")
    expect(page.locator("#counts tfoot")).to_contain_text(re.compile(r"v = \d+ tokens"))
    shown = tomllib.loads(toml.inner_text())
    with page.expect_download() as download:
        page.get_by_text("Download").click()
    assert download.value.suggested_filename == "built.toml"
    assert tomllib.loads(Path(download.value.path()).read_text()) == shown
    sent = page.url
    page.goto(sent)  # the address has what was filled in
    expect(toml).to_have_text(toml.inner_text())
    assert tomllib.loads(toml.inner_text()) == shown

    page.get_by_role("button", name="Train").click()
    page.wait_for_url("**/trainings/*")
    expect(page.locator(".state")).to_have_text("running")
    visitor.check_accessible()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".state")).to_have_text("stopped")
    expect(page.locator(".output")).to_contain_text(re.compile(r"saved at step [\d,]+"))
    steps = int(
        re.search(r"saved at step ([\d,]+)", page.locator(".output").inner_text())[1].replace(
            ",", ""
        )
    )
    assert 0 < steps < 1500
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".state")).to_have_text("finished")
    expect(page.locator(".output")).to_contain_text(f"resuming at step {steps:,}")
    assert Recipe.load(home / "runs" / "built") == Recipe.load(home / "built.toml")
    page.get_by_role("link", name="Results").click()
    expect(page.locator(".state").first).to_contain_text("finished")

    # The run is deleted with the form that asks for it.
    visitor.visit("/runs")
    page.locator("tr[data-run] input").check()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete 1 run").click()
    expect(page.locator("[data-live=count]")).to_contain_text("1 run deleted")
    assert not (home / "runs" / "built").exists()
    assert (home / "built.toml").is_file()


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (390, "dark"),
        pytest.param(1280, "light", marks=pytest.mark.long),
        pytest.param(2000, "dark", marks=pytest.mark.long),
    ],
)
def test_the_form_is_accessible_at_every_width(visitor, width, scheme):
    page = visitor.page
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    for address in (
        "/recipe?name=a&data.corpus=opinions&train.lr=x&task.kind=recall",
        "/trainings",
    ):
        visitor.visit(address)
        if address.startswith("/recipe"):
            sync_api.expect(page.locator("#recipe")).to_have_attribute("data-busy", "false")
            page.evaluate("document.querySelectorAll('details').forEach((one) => one.open = true)")
        visitor.check_accessible()
    page.goto(visitor.server.base + "/recipe")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
