"""Results of other tools that are damaged or hostile: a sentence, or a verdict on what is there."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from tests.journeys.workspace import Workspace
from tests.torture.commands import flip_bits, one_thread, tortured
from tests.torture.harness import Failure, Target
from tests.torture.hostile_values import hostile, mutate

from regard.reports import study_report

COLUMNS = ("id", "item", "seed", "variant", "passage", "correct", "accuracy", "loss", "é", "")
OPTIONS = ("--metric", "--id", "--seed", "--group", "--variant", "--predicted", "--truth")
VALUES: tuple[Callable[[random.Random, int], Any], ...] = (
    lambda g, n: n,
    lambda g, n: n // 5,
    lambda g, n: g.random() < 0.6,
    lambda g, n: g.gauss(0, 1),
    lambda g, n: g.choice(("cat", "dog", "", " cat", "1", "true", "nan")),
    lambda g, n: 1.0,
    lambda g, n: 10.0 ** g.choice((-320, -30, 30, 300, 308)),
)
Row = dict[str, Any]


def _fraction(generator: random.Random, n: int) -> float:
    return generator.random()


def rows(generator: random.Random, *, judged: bool) -> list[Row]:
    """`judged`: what is there could be judged, before values of it are changed."""
    names = generator.sample(COLUMNS, generator.randrange(1, 6))
    columns = {name: generator.choice(VALUES) for name in names}
    count = generator.choice((0, 1, 2, 30, 200))
    if judged:
        columns |= {"id": VALUES[0], "accuracy": generator.choice((VALUES[2], _fraction))}
        columns.pop("variant", None)
        count = 40
    made = [{name: make(generator, n) for name, make in columns.items()} for n in range(count)]
    if made and generator.random() < (0.2 if judged else 0.5):
        for _ in range(generator.choice((1, 3))):
            at = generator.randrange(len(made))
            made[at] = mutate(made[at], generator, changes=1)
    if generator.random() < (0.05 if judged else 0.2):
        made += made[:3]  # the same items again
    return made


def json_lines(made: list[Row], generator: random.Random) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in made).encode("utf-8", "surrogatepass")


def table(made: list[Row], generator: random.Random) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, list({name: 0 for row in made for name in row}))
    writer.writeheader()
    writer.writerows(made)
    return out.getvalue().encode("utf-8", "surrogatepass")


def arrays(made: list[Row], generator: random.Random) -> bytes:
    """Of any shape and type, and now and then with a pickle inside."""
    kinds: list[Any] = [np.float64, np.float16, np.int8, np.bool_, np.complex64, "U3", "M8[s]"]
    shape = generator.choice(((), (0,), (5,), (3, 5), (2, 3, 5), (1, 1)))
    given = np.zeros(shape).astype(generator.choice(kinds))
    held = {"weak": given, "strong": np.random.default_rng(0).random((3, 5))}
    if generator.random() < 0.3:
        held["weak"] = np.array([{"a": 1}, None], dtype=object)
    out = io.BytesIO()
    np.savez(out, **held)
    return out.getvalue()


def other_tool(made: list[Row], generator: random.Random) -> bytes:
    """Almost a log of inspect-ai or samples of lm-evaluation-harness."""
    samples = [{"id": n, "epoch": 1, "scores": {"match": {"value": "C"}}} for n in range(5)]
    log = {"version": 2, "status": "success", "eval": {"task": "t"}, "samples": samples}
    return json.dumps(mutate(log, generator, changes=generator.randrange(3))).encode()


FORMATS = {
    ".jsonl": json_lines,
    ".csv": table,
    ".npz": arrays,
    ".json": other_tool,
    ".eval": other_tool,
    ".parquet": json_lines,
}


def trial(context: None, generator: random.Random, folder: Path) -> str:
    workspace = Workspace(folder / "work")
    files, judged = [], generator.random() < 0.6
    for number in range(2 if judged else generator.choice((1, 2, 2, 3))):
        suffix = generator.choice((".jsonl", ".csv") if judged else [*FORMATS])
        content = FORMATS[suffix](rows(generator, judged=judged), generator)
        if generator.random() < (0.1 if judged else 0.3):
            content = flip_bits(content, generator)
        files.append(f"{number}{suffix}")
        workspace.write(files[-1], content)
    arguments = ["judge", *files, *(("--metric", "accuracy", "--id", "id") if judged else ())]
    for option in generator.sample(OPTIONS, generator.choice((0, 0, 1) if judged else (0, 1, 2))):
        arguments += [option, generator.choice((*COLUMNS[:-1], str(hostile(generator))[:80]))]
    arguments = [one.replace("\0", "") for one in arguments]
    no_charts = {name: lambda *_, **__: None for name in study_report.CHARTS}
    with mock.patch.object(study_report, "CHARTS", no_charts):
        result = tortured(workspace, *arguments)
    if result.exit_code == 0:
        for shown in ("nan", "inf"):
            if f" {shown}" in result.stdout.partition("VERDICT")[2].partition("\n")[0]:
                raise Failure("believed", f"a verdict on {shown}: {result.stdout[:300]}")
        return "judged"
    return "refused"


def make(home: Path) -> None:
    one_thread()


TARGET = Target(
    "judged results",
    "results of other tools with hostile values, duplicates, other types, pickles, damaged or not",
    2_000,
    trial,
    make,
    batch=20,
)
