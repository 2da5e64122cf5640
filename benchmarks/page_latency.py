"""How long people wait at the page of `regard serve`, in headless Chromium: docs/page.md's figures.

    .venv/bin/python -m benchmarks.page_latency                  # all, about a quarter of an hour
    .venv/bin/python -m benchmarks.page_latency --only lessons   # runs, events, lessons, …

Prints Markdown tables of medians and worst values. Runs are generated, and models trained for a few
steps: what is measured is the page. Times are taken in the browser, from the event that a person
causes to the frame after the picture has changed. Needs Playwright and an installed Chromium.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.runs_index import write_runs
from playwright.sync_api import Browser, Page, sync_playwright
from tests.web.drawn_study import draw_study
from tests.web.replay import Replay

from regard.lessons.registry import lessons_by_topic
from regard.runs.archive.index import INDEX
from regard.web.listing import id_of

RUNS = 5000
STARTS, VISITS, MOVES = 2, 8, 12
LESSON_SECONDS = 30.0
"Of one lesson: no further move begins after it."
LONGEST = 120_000
"Milliseconds that a picture may take."
MODELS = {"3 layers, width 48": (3, 3, 48), "6 layers, width 96": (6, 6, 96)}
"Layers, heads, width."
SENTENCE = "The animal did not cross the street because it was too tired."


@dataclass
class Row:
    """Seconds of one kind of wait."""

    what: str
    seconds: list[float]

    def __str__(self) -> str:
        if not self.seconds:
            return f"| {self.what} | no picture in {LONGEST // 1000} s | | 0 |"
        median, worst = statistics.median(self.seconds), max(self.seconds)
        return f"| {self.what} | {median:.2f} | {worst:.2f} | {len(self.seconds)} |"


@dataclass
class Window:
    """A page of the browser that the server has let in."""

    page: Page
    base: str
    process: subprocess.Popen[str]

    def visit(self, address: str) -> float:
        """Seconds to the first paint."""
        self.page.goto(self.base + address)
        paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
        until = time.monotonic() + 30
        while (found := self.page.evaluate(paint)) is None:
            assert time.monotonic() < until, address
            time.sleep(0.02)
        return float(found) / 1000

    def after(self, cause: str, given: Any, *, place: str, until: str) -> float | None:
        """Seconds from what `cause` (JavaScript of `given`) does until the data attribute of
        `place` was busy and is `until` ("busy=false")."""
        attribute, _, done = until.partition("=")
        script = f"""async (given) => {{
          const place = document.querySelector({place!r});
          let busy = false;
          const changed = new Promise((resolve) => new MutationObserver((_, observer) => {{
            const is = place.dataset[{attribute!r}];
            if (is !== {done!r}) busy = true;
            else if (busy) {{
              observer.disconnect();
              requestAnimationFrame(() => resolve(performance.now()));
            }}
          }}).observe(place, {{ attributes: true }}));
          const late = new Promise((resolve) => setTimeout(() => resolve(null), {LONGEST}));
          const began = performance.now();
          {cause}
          const ended = await Promise.race([changed, late]);
          return ended === null ? null : (ended - began) / 1000;
        }}"""
        seconds = self.page.evaluate(script, given)
        return None if seconds is None else float(seconds)

    def memory(self) -> float:
        """Megabytes of the server."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", status)
        assert found is not None
        return int(found[1]) / 1024


@contextmanager
def window(browser: Browser, runs: Path) -> Iterator[Window]:
    """`regard serve` over these runs, and a page that is let in."""
    runs.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "regard", "serve", "--in", str(runs), "--port", "0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=runs.parent
    )
    assert process.stdout is not None
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(LONGEST)
    try:
        address = process.stdout.readline().strip()
        page = context.new_page()
        page.goto(address)
        yield Window(page, address.partition("/?")[0], process)
    finally:
        context.close()
        process.kill()
        process.wait()


def runs(browser: Browser, home: Path) -> Iterator[str]:
    """First paint with thousands of runs."""
    root = home / "runs"
    write_runs(root, count=RUNS)
    first, read = Row("first paint after the start, no index yet", []), Row("all of them read", [])
    table = Row("first paint of the table, from then on", [])
    sifted = Row("the same, filtered and sorted", [])
    studies = Row("first paint of the studies", [])
    megabytes = 0.0
    for _ in range(STARTS):
        (root / INDEX).unlink(missing_ok=True)
        with window(browser, root) as one:
            began = time.monotonic()
            first.seconds.append(one.visit("/runs"))
            while f"{RUNS:,} runs" not in one.page.locator(".when").inner_text():
                time.sleep(0.2)
            read.seconds.append(time.monotonic() - began)
            for _ in range(VISITS // STARTS):
                table.seconds.append(one.visit("/runs"))
                sifted.seconds.append(one.visit("/runs?where=train.seed=3&sort=-dev.perplexity"))
                studies.seconds.append(one.visit("/"))
            megabytes = one.memory()
    yield f"{RUNS:,} runs"
    yield from map(str, (first, read, table, sifted, studies))
    yield f"memory of the server: {megabytes:.0f} MB"


def events(browser: Browser, home: Path) -> Iterator[str]:
    """From a line in events.jsonl to the screen, while a study is watched."""
    variants = {name: {"train.lr": lr} for name, lr in (("low", 0.01), ("high", 0.02))}
    finished = draw_study(home / "drawn", variants={"base": {}, **variants}, seeds=5)
    replay = Replay(finished, home / "runs" / "study")
    row = Row("from an event to the screen (study of 15 trainings)", [])
    watch = """() => { window.changed = new Promise((resolve) => {
      const places = document.querySelectorAll("[data-live]");
      const observer = new MutationObserver(() => {
        observer.disconnect();
        requestAnimationFrame(() => resolve(Date.now()));
      });
      for (const place of places) observer.observe(place, { subtree: true, childList: true,
        characterData: true, attributes: true });
    }); }"""
    with window(browser, home / "runs") as one:
        one.visit(f"/studies/{id_of('study')}")
        for name in list(replay.runs())[: MOVES // 2]:
            for happens in (partial(replay.begin, lines=12), replay.finish):
                time.sleep(2.5)  # the last event is on the screen
                one.page.evaluate(watch)
                began = time.time()
                happens(name)
                row.seconds.append(one.page.evaluate("window.changed") / 1000 - began)
    yield "A study, watched"
    yield str(row)


def lessons(browser: Browser, home: Path) -> Iterator[str]:
    """Each slider of each lesson moved twice, or as often as LESSON_SECONDS allow."""
    move = """const slider = document.querySelector(`[data-for="${given[0]}"]`);
      slider.value = Number(slider.min) + given[1] * (slider.max - slider.min);
      slider.dispatchEvent(new Event("input", { bubbles: true }));"""
    yield "From a slider to the picture"
    medians = []
    with window(browser, home / "runs") as one:
        for info in (info for group in lessons_by_topic().values() for info in group):
            one.page.goto(f"{one.base}/lessons/{info.name}")
            one.page.locator("#result[data-busy=false]").wait_for()
            row = Row(info.name, [])
            sliders = one.page.locator("[data-for]").evaluate_all(
                "sliders => sliders.map((one) => one.dataset.for)"
            )
            until = time.monotonic() + LESSON_SECONDS
            for fraction in (0.3, 0.6):
                for name in sliders:
                    if time.monotonic() < until:
                        given = [name, fraction]
                        took = one.after(move, given, place="#result", until="busy=false")
                        row.seconds += [] if took is None else [took]
            yield str(row)
            medians += [statistics.median(row.seconds)] if row.seconds else []
    yield f"{len(medians)} lessons; the median of the medians is {statistics.median(medians):.2f} s"


def attention(browser: Browser, home: Path) -> Iterator[str]:
    """From a letter, or a painted cell, to the maps and to the audit's answer."""
    letter = """const field = document.querySelector("[name=text]");
      field.value += "abcdefghijkl"[given];
      field.dispatchEvent(new Event("input", { bubbles: true }));"""
    paint = """const map = document.getElementById("mask-map"), box = map.getBoundingClientRect();
      const [left, top, cell] = map.dataset.cells.split(" ").map(Number);
      const at = { bubbles: true, pointerId: 1, isPrimary: true, button: 0, buttons: 1,
        clientX: box.left + left + (given + 3.5) * cell, clientY: box.top + top + 1.5 * cell };
      for (const type of ["pointerdown", "pointerup", "click"])
        map.dispatchEvent(new (type === "click" ? MouseEvent : PointerEvent)(type, at));"""
    with window(browser, home / "runs") as one:
        for words in (1, 5):
            one.page.goto(f"{one.base}/attention?kinds=dot,additive")
            one.page.get_by_label("Sentence").fill(" ".join([SENTENCE] * words))
            ready = one.page.locator("#bench[data-busy=false][data-audit=done]")
            ready.wait_for()
            time.sleep(1)
            ready.wait_for()
            tokens = one.page.locator("#status").inner_text().partition(" token")[0]
            yield f"The attention workbench: {tokens} tokens, dot and additive"
            for cause, script in (("a letter", letter), ("a painted cell", paint)):
                for what, until in (("the picture", "busy=false"), ("the audit", "audit=done")):
                    row = Row(f"from {cause} to {what}", [])
                    for number in range(MOVES // 2):
                        took = one.after(script, number, place="#bench", until=until)
                        row.seconds += [] if took is None else [took]
                        ready.wait_for()
                    yield str(row)


def playground(browser: Browser, home: Path) -> Iterator[str]:
    """From a click to the changed text of 60 new tokens."""
    for layers, heads, width in MODELS.values():
        settings = [f"model.layers={layers}", f"model.heads={heads}", f"model.width={width}"]
        settings += ["train.max_steps=40", "train.evaluate_every=0"]
        recipe = Path(__file__).parents[1] / "recipes" / "mini-gpt.toml"
        options = [part for one in settings for part in ("--set", one)]
        out = home / "runs" / f"width-{width}"
        command = [sys.executable, "-m", "regard", "train", str(recipe), "--out", str(out)]
        subprocess.run([*command, *options], check=True, capture_output=True, cwd=home)
    other = """document.querySelectorAll("#text .token")[given].click();
      document.querySelectorAll("#card .alternative")[1].click();"""
    slide = """const field = document.getElementById("s-temperature");
      field.value = 0.5 + given / 20;
      field.dispatchEvent(new Event("input", { bubbles: true }));"""
    head = """document.querySelectorAll("button.head")[given % 4].click();"""
    with window(browser, home / "runs") as one:
        for name, (_, _, width) in MODELS.items():
            began = time.monotonic()
            one.page.goto(f"{one.base}/playground/{id_of(f'width-{width}')}?n=60")
            one.page.locator(".sheet[data-busy=false]").wait_for()
            one.page.locator("button.head").first.wait_for()
            yield f"The playground: {name}; the first text took {time.monotonic() - began:.1f} s"
            causes = {"an alternative chosen": other, "a slider moved": slide, "a head": head}
            for what, script in causes.items():
                row = Row(what, [])
                for number in range(1, MOVES + 1):
                    took = one.after(script, number, place=".sheet", until="busy=false")
                    row.seconds += [] if took is None else [took]
                    time.sleep(0.3)
                yield str(row)


PARTS: dict[str, Callable[[Browser, Path], Iterator[str]]] = {
    "runs": runs,
    "events": events,
    "lessons": lessons,
    "attention": attention,
    "playground": playground,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=PARTS, nargs="*", default=list(PARTS))
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    arguments = ["--no-sandbox", "--disable-gpu", "--force-prefers-reduced-motion"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        for name in parser.parse_args().only:
            began = time.monotonic()
            with tempfile.TemporaryDirectory(prefix="regard-page-") as home:
                in_table = False
                for line in PARTS[name](browser, Path(home)):
                    if line.startswith("|") and not in_table:
                        print("| what | median, s | worst, s | n |\n|---|---|---|---|")
                    in_table = line.startswith("|")
                    print(line if in_table else f"\n{line}\n", flush=True)
            print(f"\n({name}: {time.monotonic() - began:.0f} s)", flush=True)
        browser.close()


if __name__ == "__main__":
    main()
