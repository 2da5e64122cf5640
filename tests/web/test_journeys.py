"""A person at the page, in a real browser: a short way through each page."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator

import pytest
from tests.web.replay import Replay
from tests.web.served import Served, served

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
from axe_playwright_python.sync_playwright import Axe  # noqa: E402

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
DEMANDED = "REGARD_DEMAND_BROWSER"
"Set where these tests must not be skipped."
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--force-prefers-reduced-motion"),
]
SERIOUS = ("serious", "critical")
PATIENCE = 180_000
"Milliseconds: on a busy machine a worker takes as long to import torch."


@pytest.fixture(scope="module")
def browser() -> Iterator[sync_api.Browser]:
    if CHROMIUM is None:
        assert DEMANDED not in os.environ, "chromium is not installed, and it is demanded here"
        pytest.skip("chromium is not installed: these tests need a browser")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield running
        running.close()


sync_api.expect.set_options(timeout=PATIENCE)


class Visitor:
    """A page of the browser, let in, that remembers what went wrong in it."""

    def __init__(self, browser: sync_api.Browser, server: Served, state: dict) -> None:
        self.server = server
        self.problems: list[str] = []
        self.context = browser.new_context(storage_state=state)
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("dialog", lambda dialog: self.problems.append(f"dialog {dialog.message}"))
        self.page.on("request", self._requested)

    def _heard(self, message) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def _requested(self, request) -> None:
        if not request.url.startswith((self.server.base, "data:")):
            self.problems.append(f"asked for {request.url}")

    def visit(self, address: str) -> sync_api.Page:
        self.page.goto(self.server.base + address)
        return self.page

    def check_accessible(self) -> None:
        """axe finds no serious fault, and nothing is wider than the window."""
        found = Axe().run(self.page).response["violations"]
        faults = [
            (fault["id"], [node["html"][:160] for node in fault["nodes"][:3]])
            for fault in found
            if fault["impact"] in SERIOUS
        ]
        assert faults == [], self.page.url
        excess = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert excess <= 0, (self.page.url, self.page.viewport_size)


def let_in(browser: sync_api.Browser, server: Served) -> dict:
    context = browser.new_context()
    context.new_page().goto(server.address)
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture(scope="module")
def server(hostile_root) -> Iterator[Served]:
    with served(hostile_root) as running:
        yield running


@pytest.fixture(scope="module")
def cookies(browser, server) -> dict:
    return let_in(browser, server)


@pytest.fixture
def visitor(browser, server, cookies) -> Iterator[Visitor]:
    one = Visitor(browser, server, cookies)
    yield one
    one.context.close()
    assert one.problems == []


def test_a_study_is_watched_from_its_first_to_its_last_run(browser, tmp_path, drawn_study):
    replay = Replay(drawn_study, tmp_path / "runs" / "study")
    with served(tmp_path / "runs") as server:
        visitor = Visitor(browser, server, let_in(browser, server))
        page = visitor.visit("/")
        page.get_by_role("link", name="study").first.click()
        verdict = page.locator(".headline .verdict").first
        expect = sync_api.expect
        expect(verdict).to_have_text("Not decided: 0 of 3 seeds, planned")
        for number, name in enumerate(replay.runs()):
            replay.begin(name, lines=12)
            expect(page.locator("a.cell.running")).to_have_count(1)
            replay.finish(name)
            expect(page.locator("a.cell.finished")).to_have_count(number + 1)
            if number < 5:
                seeds = (number + 1) // 2
                expect(verdict).to_have_text(f"Not decided: {seeds} of 3 seeds, planned")
                assert "better" not in page.locator("[data-live=verdict]").inner_text()
            if number == 3:
                expect(page.locator(".preview .tag").first).to_have_text("Preview")
                expect(page.locator("[data-live=differences] svg").first).to_be_visible()
        replay.judge()
        expect(verdict).to_contain_text("one is better than other by")
        expect(page.locator(".tag")).to_have_count(0)
        assert page.url == server.base + page.locator("main").get_attribute(
            "data-events"
        ).removesuffix("/events")
        visitor.check_accessible()
        visitor.context.close()
        assert visitor.problems == []


def test_runs_are_filtered_sorted_and_two_compared(visitor):
    page = visitor.visit("/runs")
    rows = page.locator("tr[data-run]")
    assert rows.count() == 6
    sync_api.expect(page.locator(".spark svg")).to_have_count(6)
    assert page.locator(".bad", has_text="INVALID").count() == 2
    page.get_by_role("link", name="on dev").click()
    scores = [float(text) for text in page.locator("td.score b").all_inner_texts()]
    assert scores == sorted(scores)
    page.get_by_label("Where").fill("model.attention.kind=additive")
    page.get_by_role("button", name="Filter").click()
    sync_api.expect(page.locator("tr[data-run]")).to_have_count(2)
    assert "where=model.attention.kind" in page.url
    page.get_by_role("link", name="Show all").click()
    page.locator("tr[data-run] input").nth(0).check()
    page.locator("tr[data-run] input").nth(5).check()
    sync_api.expect(page.locator("#chosen")).to_have_text("2 chosen")
    page.get_by_role("button", name="Compare two").click()
    sync_api.expect(page.get_by_text("model.attention.kind")).to_be_visible()
    page.locator(".plot").scroll_into_view_if_needed()
    sync_api.expect(page.locator(".plot svg")).to_be_visible()
    page.go_back()
    page.locator("tr[data-run] input").nth(0).check()
    page.get_by_role("button", name="Delete…").click()
    sync_api.expect(page.get_by_role("button", name=re.compile("Delete"))).to_be_visible()
    page.get_by_role("link", name="Keep").click()
    assert page.locator("tr[data-run]").count() == 6


LESSONS = {
    "average-of-two": {"beta": (1, 50), "keys": (3, 64)},
    "three-masks": {"first": (1, 8)},
    "averaging": {"factor": (0.1, 10000)},
}
"With the ends of their sliders."


def test_three_lessons_with_sliders_at_their_ends(visitor):
    for name, ends in LESSONS.items():
        page = visitor.visit(f"/lessons/{name}")
        holds = page.locator("#summary")
        sync_api.expect(holds).to_contain_text("holds")
        sync_api.expect(page.locator("#chart svg")).to_be_visible()
        for parameter, values in ends.items():
            for value in values:
                before = page.locator("#table").inner_html() + page.locator("#checks").inner_html()
                page.locator(f"[data-for={parameter}]").fill(str(value))
                page.wait_for_url(re.compile(f"{parameter}={value}\\b"))
                sync_api.expect(page.locator("#result")).to_have_attribute("data-busy", "false")
                after = page.locator("#table").inner_html() + page.locator("#checks").inner_html()
                assert page.locator(f"input[name={parameter}]").input_value() == str(value)
                assert after != before
        sent = page.url
        page.goto(sent)  # the address has the sliders' values
        for parameter, values in ends.items():
            assert page.locator(f"input[name={parameter}]").input_value() == str(values[-1])


def test_an_exercise_is_posed_and_marked(visitor):
    page = visitor.visit("/lessons/average-of-two/exercise?seed=7")
    fields = page.locator("[data-slot=q] input")
    for n in range(fields.count()):
        fields.nth(n).fill("0")
    page.get_by_role("button", name="Mark it").click()
    sync_api.expect(page.locator("#mark .missed")).to_contain_text("Not yet")
    task = page.locator("h1").inner_text()
    a, b = map(int, re.search(r"values (\d+) and (\d+)", task).groups())
    keys = page.locator(".given dd").first.locator("tr")
    numbers = [
        [float(one.replace("−", "-")) for one in keys.nth(row - 1).locator("td").all_inner_texts()]
        for row in (a, b)
    ]
    for n, (x, y) in enumerate(zip(*numbers, strict=True)):
        fields.nth(n).fill(f"{30 * (x + y):.6f}")
    page.get_by_role("button", name="Mark it").click()
    sync_api.expect(page.locator("#mark .passed")).to_contain_text("Right")
    visitor.check_accessible()


class Workbench:
    """The attention workbench, once it has answered and audited what was asked for."""

    def __init__(self, page) -> None:
        self.page = page
        self.mask = page.locator("#mask-map")

    def wait(self) -> None:
        sync_api.expect(
            self.page.locator("#bench[data-busy=false][data-audit=done]")
        ).to_have_count(1)

    def middle_of(self, query: int, key: int) -> tuple[float, float]:
        """Of a cell of the mask, in the window."""
        self.mask.scroll_into_view_if_needed()
        box = self.mask.bounding_box()
        left, top, cell = map(float, self.mask.get_attribute("data-cells").split())
        return box["x"] + left + (key + 0.5) * cell, box["y"] + top + (query + 0.5) * cell

    def answers(self) -> list[str]:
        return self.page.locator(".audited > p:first-child").all_inner_texts()


def test_a_mask_is_painted_and_the_audit_s_answer_is_read(visitor):
    page, expect = visitor.visit("/attention?kinds=dot,hard"), sync_api.expect
    bench = Workbench(page)
    bench.wait()
    page.get_by_label("Sentence").fill("one cat follows the other cat home")
    expect(page.locator("#status")).to_contain_text("7 tokens")
    bench.wait()
    assert all("clean" in one for one in bench.answers())
    page.mouse.move(*bench.middle_of(1, 4))
    page.mouse.down()
    page.mouse.move(*bench.middle_of(1, 5))
    page.mouse.up()
    page.wait_for_url(re.compile(r"allow=1\.4-5\b"))
    expect(page.locator(".audited.leaks").first).to_contain_text("sees the future: position 1")
    bench.wait()
    page.get_by_role("button", name="Position 1, cat, reacts to 4, other; show it").first.click()
    expect(page.locator("#path")).to_have_text("The mask lets 1 cat attend to 4 other directly.")
    expect(page.locator("#readout")).to_contain_text("1 cat → 4 other")
    expect(page.get_by_label("Query", exact=True)).to_have_value("1")
    sent = page.url
    page.goto(sent)  # the address has the paint, the pair, the sentence
    bench.wait()
    assert page.get_by_label("Sentence").input_value() == "one cat follows the other cat home"
    assert all("position 1" in one for one in bench.answers())
    visitor.check_accessible()
    # By keyboard: the pair and the one after it are forbidden again.
    bench.mask.focus()
    page.keyboard.press("Space")
    page.keyboard.press("Shift+ArrowRight")
    expect(page.locator("#spoken")).to_contain_text("1 cat → 5 cat, may not attend")
    expect(page.locator(".audited.clean")).to_have_count(2)
    assert "allow" not in page.url
    page.get_by_text("Arcs", exact=True).click()
    expect(page.locator("#large .arcs svg")).to_have_count(2)
    page.get_by_role("button", name=re.compile("dot, layer 1, head 2, entropy")).click()
    expect(page.locator("#large-title")).to_have_text("Layer 1, head 2")
    bench.wait()
    page.get_by_label("Mask expression").fill("causal & sliding_window")
    expect(page.locator("#status")).to_contain_text("sliding-window takes 1 number")
    page.get_by_label("Mask expression").fill("causal & sliding_window:3")
    bench.wait()
    files = page.locator("#links a").evaluate_all("links => links.map((one) => one.href)")
    kinds = {page.request.get(one).headers["content-type"].partition(";")[0] for one in files}
    assert kinds == {"image/png", "image/svg+xml", "application/json", "text/csv"}
    visitor.problems = [one for one in visitor.problems if "status of 400" not in one]


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (1280, "light"),
        (390, "dark"),
        pytest.param(2000, "dark", marks=pytest.mark.long),
        pytest.param(390, "light", marks=pytest.mark.long),
    ],
)
def test_every_page_is_accessible_at_every_width(visitor, hostile_root, width, scheme):
    page = visitor.page
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    visitor.visit("/runs")
    ids = [row.get_attribute("data-run") for row in page.locator("tr[data-run]").all()]
    visitor.check_accessible()
    visitor.visit("/")
    visitor.check_accessible()
    page.locator(".card h2 a").first.click()
    page.locator(".plot").first.scroll_into_view_if_needed()
    sync_api.expect(page.locator(".plot svg").first).to_be_visible()
    visitor.check_accessible()
    for address in (
        f"/runs/{ids[0]}",
        f"/compare/{ids[0]}/{ids[-1]}",
        f"/runs/chosen?do=delete&run={ids[0]}",
        "/lessons",
        "/lessons/three-masks",
    ):
        visitor.visit(address)
        visitor.check_accessible()
    visitor.visit("/attention?allow=4.7&show=arcs&kinds=dot,linear")
    Workbench(page).wait()
    visitor.check_accessible()


def test_the_page_works_by_keyboard(visitor):
    page = visitor.visit("/runs")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.outerHTML.slice(0, 60)"))
    for wanted in ("wordmark", 'name="q"', 'name="where"', "checkbox", 'value="compare"'):
        assert any(wanted in one for one in reached), wanted


def test_who_has_no_cookie_sees_nothing(browser, server):
    context = browser.new_context()
    page = context.new_page()
    for address in (server.address, server.base, f"{server.base}/runs"):
        answer = page.goto(address)
        assert answer.status == 403
        assert "dot-vs-additive" not in page.content()
    context.close()
