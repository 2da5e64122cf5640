"""`regard judge`: files of other tools, paired by item, with the verdict and report of a study."""

from __future__ import annotations

import json
import random

import pytest
from tests.journeys.workspace import Workspace

from regard.studies.outcome import read_outcome


def rows(mean: float, *, n: int = 120) -> list[dict[str, object]]:
    generator = random.Random(int(1000 * mean))
    easy = [random.Random(item).random() for item in range(n)]
    return [
        {"id": item, "passage": item // 5, "correct": easy[item] + generator.gauss(0, 0.05) < mean}
        for item in range(n)
    ]


def json_lines(content: list[dict[str, object]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in content)


def csv(content: list[dict[str, object]]) -> str:
    lines = [",".join(content[0])] + [",".join(map(str, row.values())) for row in content]
    return "\n".join(lines) + "\n"


WEAK, STRONG = rows(0.5), rows(0.75)


@pytest.fixture
def files(workspace: Workspace) -> Workspace:
    workspace.write("weak.jsonl", json_lines(WEAK))
    workspace.write("strong.csv", csv(STRONG))
    return workspace


def test_two_files_become_a_verdict_and_a_folder(files):
    shown = files.run("judge", "weak.jsonl", "strong.csv", "--metric", "accuracy", "--id", "id")
    assert "VERDICT" in shown
    assert "strong" in shown
    folder = files.folder / "runs" / "weak-vs-strong"
    outcome = read_outcome(folder)
    expected = sum(b["correct"] - a["correct"] for a, b in zip(WEAK, STRONG, strict=True)) / 120
    assert outcome.verdicts[0].value == pytest.approx(expected)
    assert outcome.verdicts[0].better == "strong"
    assert [source.file for source in outcome.sources] == ["weak.jsonl", "strong.csv"]
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "strong.csv" in page
    assert "<script" not in page
    for absent in ("not audited", "parameters", "Cost of the study", "fixed before"):
        assert absent not in page
    assert {"report.md", "tables.tex", "charts"} <= {file.name for file in folder.iterdir()}


def test_json_and_the_report_again(files):
    command = ("judge", "weak.jsonl", "strong.csv", "--metric", "correct", "--out", "judged")
    outcome = json.loads(files.run(*command, "--json"))
    assert outcome["verdicts"][0]["n"] == 120
    page = files.folder / "judged" / "report.html"
    before = page.read_text(encoding="utf-8")
    page.unlink()
    files.run("report", "judged")
    assert page.read_text(encoding="utf-8") == before
    assert json.loads(files.run(*command, "--json")) == outcome


def test_items_are_counted_in_groups(files):
    shown = files.run(
        *("judge", "weak.jsonl", "strong.csv", "--metric", "accuracy", "--group", "passage")
    )
    assert "n = 120 in 24 groups" in " ".join(shown.split())


def test_several_files_of_one_name_are_its_seeds(files):
    names = []
    for seed in range(3):
        for name, mean in (("small", 0.5), ("large", 0.8)):
            file = f"{name}-{seed}.jsonl"
            files.write(file, json_lines(rows(mean + seed / 100)))
            names.append(f"{name}={file}")
    files.run("judge", *names, "--metric", "accuracy", "--out", "judged")
    verdict = read_outcome(files.folder / "judged").verdicts[0]
    assert (verdict.variant, verdict.better, verdict.seeds) == ("large", "large", 3)


def test_files_of_the_same_name_are_called_after_their_folders(files):
    for name, content in (("a", WEAK), ("b", STRONG)):
        files.write(f"runs/{name}/items/dev.jsonl", json_lines(content))
    files.run("judge", "runs/a/items/dev.jsonl", "runs/b/items/dev.jsonl", "--metric", "accuracy")
    outcome = read_outcome(files.folder / "runs" / "a-vs-b")
    assert [variant.name for variant in outcome.variants] == ["a", "b"]


def test_rows_are_selected(files):
    mixed = [row | {"filter": name} for row in WEAK for name in ("strict", "flexible")]
    files.write("mixed.jsonl", json_lines(mixed))
    files.write("other.jsonl", json_lines([row | {"filter": "strict"} for row in STRONG]))
    command = ("judge", "mixed.jsonl", "other.jsonl", "--metric", "accuracy")
    refused = files.invoke(*command)
    assert refused.exit_code == 2
    assert "--where filter=" in refused.error
    files.run(*command, "--where", "filter=strict", "--out", "judged")
    assert read_outcome(files.folder / "judged").verdicts[0].n == 120


BROKEN = {
    "fewer.jsonl": json_lines(STRONG[:-2]),
    "again.jsonl": json_lines([*STRONG, STRONG[3]]),
    "percent.jsonl": json_lines([STRONG[0] | {"correct": 87.5}, *STRONG[1:]]),
    "gap.jsonl": json_lines([*STRONG[:2], STRONG[2] | {"correct": None}, *STRONG[3:]]),
    "cut.jsonl": json_lines(STRONG)[:-9],
    "none.jsonl": "",
    "notes.md": "Results: very good.\n",
    "double.csv": "id,correct,correct\n1,1,0\n",
    "nameless.jsonl": json_lines([{"id": row["id"], "value": 0.5} for row in STRONG]),
}


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["fewer.jsonl"], ("fewer.jsonl", "118", "120", "line 119")),
        (["again.jsonl"], ("again.jsonl, line 121", "line 4", "--seed")),
        (["percent.jsonl"], ("percent.jsonl, line 1", "87.5", "Divide by 100")),
        (["gap.jsonl"], ("gap.jsonl, line 3", "correct")),
        (["cut.jsonl"], ("cut.jsonl, line 120", "JSON")),
        (["double.csv"], ("double.csv", "2 columns", "correct")),
        (["none.jsonl"], ("none.jsonl", "no items")),
        (["notes.md"], ("notes.md", "CSV")),
        (["absent.jsonl"], ("absent.jsonl", "no such file")),
        (["."], ("folder",)),
        (["nameless.jsonl"], ("nameless.jsonl", "accuracy", "--metric")),
        (["strong.csv", "--id", "idd"], ("idd", "did you mean id", "--id")),
        (["strong.csv", "--seed", "nope"], ("nope", "--seed")),
        (["strong.csv", "--group", "pasage"], ("did you mean passage", "--group")),
        (["strong.csv", "--metric", "acuracy"], ("acuracy", "did you mean accuracy")),
        (["strong.csv", "--where", "passage"], ("--where", "COLUMN=VALUE")),
        (["strong.csv", "--where", "passage=99"], ("passage = 99",)),
        (["strong.csv", "--reference", "strang"], ("did you mean strong",)),
        (["strong.csv", "--out", "weak.jsonl"], ("weak.jsonl", "--out")),
        (["strong.csv", "--out", "."], ("--out",)),
        (["weak.jsonl"], ("twice",)),
        ([], ("weak.jsonl", "--variant")),
    ],
)
def test_what_cannot_be_judged_is_one_sentence(files, arguments, facts):
    for name, content in BROKEN.items():
        files.write(name, content)
    metric = () if "--metric" in arguments else ("--metric", "accuracy")
    result = files.invoke("judge", "weak.jsonl", *arguments, *metric)
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert all(fact in result.error for fact in facts), result.error
    assert not (files.folder / "runs").exists()
