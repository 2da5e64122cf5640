"""Markup in every text that a report, a study's page, a lesson, an inspection or a judgement
shows."""

from __future__ import annotations

import dataclasses
import json
import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.journeys.workspace import Workspace
from tests.torture.browser import MARK, check_page, find_browser
from tests.torture.commands import one_thread, tortured
from tests.torture.harness import Target
from tests.torture.hostile_values import paths
from tests.torture.small_study import STUDY, judge_small_study
from tests.torture.training import RUN, Reference, fresh_copy, train_reference

from regard.core.files import sha256, write_json
from regard.core.seal import SCHEMA, SEAL, checksum
from regard.lessons import run_lesson
from regard.lessons.page import lesson_html
from regard.lessons.registry import lessons_by_topic

DO = f"document.body.setAttribute('{MARK}','1')"
ELEMENTS = (
    f"<{MARK}>",
    f"<img src=x onerror={DO}>",
    f"<svg onload={DO}>",
    f"<script>{DO}</script>",
    f'<a href="javascript:{DO}">x</a>',
    f"<iframe srcdoc='<script>parent.{DO}</script>'>",
)
BEFORE = (
    *("", '">', "'>", "</script>", "</style>", "</title>", "</textarea>", "-->", "]]>", "</svg>"),
    *("</template>", "{{7*7}}", "`>", "</td></table>", "</tspan></text>", "\\u003c", "&quot;>"),
    *("<!--", "<![CDATA[", "</noscript>", "\x00", "\u2028"),
)
ATTRIBUTES = (f"' {MARK}='1", f'" {MARK}="1', f'" onmouseover="{DO}', f"x onload={DO} ")


@dataclass(frozen=True)
class Prepared:
    trained: Reference
    studied: Workspace


def make(home: Path) -> Prepared:
    one_thread()
    return Prepared(train_reference(home / "trained"), judge_small_study(home / "studied"))


def payload(generator: random.Random) -> str:
    if generator.random() < 0.2:
        return generator.choice(ATTRIBUTES)
    return generator.choice(BEFORE) + generator.choice(ELEMENTS)


def inject(table: Any, generator: random.Random, *, most: int) -> None:
    """Replace texts of a table in place."""
    texts = []
    for path in paths(table):
        inner = table
        for key in path[:-1]:
            inner = inner[key]
        if isinstance(inner[path[-1]], str):
            texts.append((inner, path[-1]))
    for inner, key in generator.sample(texts, min(len(texts), most)):
        inner[key] = payload(generator)


def inject_into_file(file: Path, generator: random.Random, *, most: int) -> None:
    if file.suffix == ".jsonl":
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        for row in generator.sample(rows, min(len(rows), most)):
            inject(row, generator, most=2)
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    elif file.suffix == ".json":
        table = json.loads(file.read_text(encoding="utf-8"))
        inject(table, generator, most=most)
        file.write_text(json.dumps(table), encoding="utf-8")
    else:
        with file.open("a", encoding="utf-8") as opened:
            opened.write(f"\n# {payload(generator)}\n")


def reseal(home: Path) -> None:
    """As whoever changed the folder can."""
    names = json.loads((home / SEAL).read_text(encoding="utf-8"))["files"]
    files = {name: sha256(home / name) for name in names}
    write_json(home / SEAL, {"schema": SCHEMA, "files": files, "checksum": checksum(files)})


def damaged_folder(home: Path, generator: random.Random) -> None:
    sealed = sorted(json.loads((home / SEAL).read_text(encoding="utf-8"))["files"])
    shown = [name for name in sealed if not name.startswith("final/")]
    for name in generator.sample(shown, min(len(shown), generator.choice((1, 2, len(shown))))):
        inject_into_file(home / name, generator, most=generator.choice((1, 2, 4)))
    reseal(home)


def of_a_run(made: Prepared, generator: random.Random, folder: Path) -> Path | None:
    workspace = fresh_copy(made.trained, folder, with_run=True)
    damaged_folder(workspace.folder / RUN, generator)
    result = tortured(workspace, "report", RUN)
    return None if result.exit_code else workspace.folder / RUN / "report.html"


def of_a_study(made: Prepared, generator: random.Random, folder: Path) -> Path | None:
    workspace = Workspace(Path(shutil.copytree(made.studied.folder, folder / "work")))
    home = workspace.folder / STUDY
    homes = [home, *sorted(file.parent for file in home.glob(f"*/seed-*/{SEAL}"))]
    for one in generator.sample(homes, generator.choice((1, 2))):
        damaged_folder(one, generator)
    result = tortured(workspace, "report", STUDY)
    return None if result.exit_code else home / "report.html"


def of_a_lesson(made: Prepared, generator: random.Random, folder: Path) -> Path | None:
    run = run_lesson(generator.choice(LESSONS))
    rate = generator.choice((0.05, 0.3, 1.0))
    info = dataclasses.replace(
        run.info,
        **{name: _with_markup(getattr(run.info, name), generator, rate) for name in SHOWN},
    )
    run = dataclasses.replace(
        run,
        info=info,
        parameters={"n": payload(generator)},
        result=_with_markup(run.result, generator, rate),
    )
    page = folder / "lesson.html"
    page.write_text(lesson_html(run), encoding="utf-8")
    return page


def _with_markup(value: Any, generator: random.Random, rate: float) -> Any:
    """The same with other texts, in lists and dataclasses inside each other."""
    if isinstance(value, str):
        return payload(generator) if generator.random() < rate else value
    if isinstance(value, list | tuple):
        return [_with_markup(one, generator, rate) for one in value]
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    changed = {
        field.name: _with_markup(getattr(value, field.name), generator, rate)
        for field in dataclasses.fields(value)
        if field.name != "relation"  # one of four words, of the code's own
    }
    return dataclasses.replace(value, **changed)


def of_an_inspection(made: Prepared, generator: random.Random, folder: Path) -> Path | None:
    workspace = fresh_copy(made.trained, folder, with_run=True)
    text = f"the cat {payload(generator)} sees".replace("\x00", "")
    result = tortured(workspace, "inspect", RUN, "--text", text, "--out", "page.html")
    return None if result.exit_code else workspace.folder / "page.html"


def of_a_judgement(made: Prepared, generator: random.Random, folder: Path) -> Path | None:
    """Of files, variants, columns and items that somebody else has named."""
    workspace = Workspace(folder / "work")
    column, item, group = (payload(generator) for _ in range(3))
    arguments = ["judge"]
    for number in range(2):
        rows = [{"id": f"{item}{n}", column: generator.random(), group: n // 4} for n in range(40)]
        name = payload(generator).replace("/", "").replace("\0", "")[:90] + f"{number}.jsonl"
        workspace.write(name, "".join(json.dumps(row) + "\n" for row in rows))
        variant = payload(generator).replace("=", "")
        arguments.append(generator.choice((name, f"{variant}={name}")))
    arguments += ["--metric", column, "--id", "id", "--group", group, "--lower-is-better"]
    result = tortured(workspace, *(one.replace("\0", "") for one in arguments), "--out", "judged")
    return None if result.exit_code else workspace.folder / "judged/report.html"


LESSONS = sorted(lesson.name for infos in lessons_by_topic().values() for lesson in infos)
SHOWN = ("title", "question", "claim")
KINDS = (of_a_run, of_a_run, of_a_study, of_a_lesson, of_an_inspection, of_a_judgement)


def trial(made: Prepared, generator: random.Random, folder: Path) -> str:
    kind = generator.choice(KINDS)
    page = kind(made, generator, folder)
    if page is None:
        return "refused"
    check_page(page, folder / "profile")
    reader = "in chromium" if find_browser() else "by Python's parser alone: no browser here"
    return f"stayed text {reader}"


TARGET = Target(
    "HTML",
    "markup in texts of runs, studies, lessons, inspections and judged files: none becomes an "
    "element or an attribute of a page, nor runs (in chromium)",
    200,
    trial,
    make,
    seconds=120,
)
