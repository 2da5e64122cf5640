"""Markup in every text that a report or a study's page shows: it stays text."""

from __future__ import annotations

import json
import random
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from tests.torture.commands import tortured
from tests.torture.harness import Failure, Target
from tests.torture.hostile_values import paths
from tests.torture.training import RUN, Reference, fresh_copy, train_reference

MARK = "xinjected"
PAYLOADS = tuple(
    start + f"<{MARK} onload=alert(1)>"
    for start in ("", '">', "'>", "</script>", "</style>", "</title>", "</textarea>", "-->", "]]>",
                  "</svg>", "</template>", "\\u003c", "{{7*7}}", "&quot;>", "`>", "</td></table>")
)  # fmt: skip


class Finder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == MARK or any(name.startswith("onload") for name, _ in attrs):
            self.found.append(str(self.getpos()))


def inject(table: Any, generator: random.Random) -> int:
    """Replace texts in place; how many."""
    texts = []
    for path in paths(table):
        inner = table
        for key in path[:-1]:
            inner = inner[key]
        if isinstance(inner[path[-1]], str):
            texts.append((inner, path[-1]))
    chosen = generator.sample(texts, min(len(texts), generator.choice((1, 3, 10))))
    for inner, key in chosen:
        inner[key] = generator.choice(PAYLOADS)
    return len(chosen)


def trial(reference: Reference, generator: random.Random, folder: Path) -> str:
    workspace = fresh_copy(reference, folder, with_run=True)
    run = workspace.folder / RUN
    (run / "seal.json").unlink()
    results = json.loads((run / "results.json").read_text(encoding="utf-8"))
    inject(results, generator)
    (run / "results.json").write_text(json.dumps(results), encoding="utf-8")
    lines = (run / "events.jsonl").read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    for event in generator.sample(events, 3):
        inject(event, generator)
    (run / "events.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events), "utf-8")
    with (run / "recipe.toml").open("a", encoding="utf-8") as file:
        file.write(f"\n# {generator.choice(PAYLOADS)}\n")
    result = tortured(workspace, "report", RUN)
    if result.exit_code:
        return "refused"
    finder = Finder()
    finder.feed((run / "report.html").read_text(encoding="utf-8"))
    if finder.found:
        raise Failure("believed", f"markup of a text became an element at {finder.found[:3]}")
    return "stayed text"


TARGET = Target(
    "HTML",
    "markup in texts of results, events and recipe: none becomes an element of the report (by "
    "Python's HTML parser, not in a browser)",
    200,
    trial,
    train_reference,
)
