"""A person in the playground: a text branched, a head switched off, a threshold moved."""

from __future__ import annotations

import re

import pytest
from tests.web.served import Served, served
from tests.web.test_journeys import Visitor, browser, let_in, sync_api

from regard.web.listing import id_of

__all__ = ["browser"]
expect = sync_api.expect


@pytest.fixture(scope="module")
def server(trained_root):
    with served(trained_root) as running:
        yield running


@pytest.fixture(scope="module")
def cookies(browser, server: Served):
    return let_in(browser, server)  # the address works once


@pytest.fixture
def visitor(browser, server: Served, cookies):
    one = Visitor(browser, server, cookies)
    yield one
    one.context.close()
    assert one.problems == []


def ready(page) -> None:
    expect(page.locator(".sheet")).to_have_attribute("data-busy", "false")


def test_a_text_is_branched_and_a_head_switched_off(visitor):
    page = visitor.visit("/playground")
    page.get_by_role("link", name=re.compile("^writer")).click()
    ready(page)
    page.get_by_label("Prompt").fill("the cat")
    page.get_by_label("Temperature", exact=True).fill("0")
    page.wait_for_url(re.compile("prompt=the\\+cat.*temperature=0"))
    expect(page.locator(".token.prompt")).to_have_count(2)
    ready(page)
    first = page.locator("#text").inner_text()
    # By keyboard: from the first token to the third, and down its alternatives to another word.
    page.locator('.token[tabindex="0"]').focus()
    for key in ("ArrowRight", "ArrowRight", "Enter", "ArrowDown"):
        page.keyboard.press(key)
    focused = page.locator(".alternative:focus .alternative-label")
    for _ in range(6):
        if not (chosen := focused.inner_text()).startswith("<"):
            break
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"branches=2\.\d+"))
    expect(page.locator(".token.chosen")).to_have_text(re.compile(re.escape(chosen.strip("·"))))
    ready(page)
    assert page.locator("#text").inner_text() != first
    expect(page.locator(".branch")).to_have_count(2)
    sent = page.url
    page.locator(".branch").first.click()
    ready(page)
    expect(page.locator(".token.chosen")).to_have_count(0)
    page.go_back()
    expect(page.locator(".token.chosen")).to_have_count(1)
    page.goto(sent)  # the address has the branch
    expect(page.locator(".token.chosen")).to_have_count(1)
    expect(page.locator("button.head")).to_have_count(4)
    page.locator("button.head").nth(2).click()
    page.wait_for_url(re.compile(r"off=1\.0"))
    expect(page.locator(".rise")).to_contain_text("Without this head the loss of the first text")
    expect(page.locator("button.head[aria-pressed=true]")).to_have_text("off")
    expect(page.locator("table.lens td.right, table.lens td").first).to_be_visible()
    visitor.check_accessible()
    page.set_viewport_size({"width": 390, "height": 800})
    expect(page.locator("#lens-table")).to_have_attribute("tabindex", "0")  # it scrolls here
    page.locator(".token").nth(1).click()
    expect(page.locator("#card")).to_be_visible()
    visitor.check_accessible()


def test_a_threshold_is_moved_until_the_model_does_not_know(visitor):
    page = visitor.visit(f"/playground/{id_of('classifier')}/answers?item=1")
    answer = page.locator("p.answer")
    expect(answer).to_have_text(re.compile("good <b>|bad"))
    expect(page.locator("#curve svg")).to_be_visible()
    coverage = page.locator("#coverage")
    expect(coverage).to_contain_text("100 %")
    slider = page.get_by_label(re.compile("Threshold"))
    slider.focus()
    page.keyboard.press("Home")
    expect(answer).to_have_text(re.compile("I don't know|good <b>|bad"))
    expect(coverage).not_to_contain_text("100 %")
    page.wait_for_url(re.compile("threshold=0"))
    assert re.search(r"n = \d+", page.locator("#risk").inner_text())
    page.get_by_label("text", exact=True).fill("every bird hears slowly")
    page.wait_for_url(re.compile("text=every"))
    ready(page)
    visitor.check_accessible()
    page.set_viewport_size({"width": 390, "height": 800})
    page.emulate_media(color_scheme="dark")
    expect(page.locator("#curve svg")).to_be_visible()
    visitor.check_accessible()
