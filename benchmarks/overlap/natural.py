"""Overlap that public data sets, and regard's own, have as they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.overlap.corpora import lines

from regard.data.builtin import BUILTIN, read_rows
from regard.data.overlap.agreement import label_agreement
from regard.data.overlap.search import find_overlaps

Row = dict[str, Any]
BUILT_IN = {
    "opinions": (["text"], "label"),
    "likeness": (["first", "second"], "score"),
    "statements": (["passage", "claim"], "label"),
    "lookups": (["query"], None),
    "birthplaces": (["question"], "answer"),
    "headlines": (["document"], None),
    "phrases": (["source"], None),
}


@dataclass(frozen=True)
class DataSet:
    name: str
    train: list[Row]
    held_out: dict[str, list[Row]]
    inputs: list[str]
    label: str | None = None


def data_sets(folder: Path) -> Iterator[DataSet]:
    """One at a time: the public ones that have splits, then the built-in ones."""

    def tsv(file: str, *columns: str) -> list[Row]:
        head, *rows = [line.split("\t") for line in lines(folder / file)]
        return [
            dict(zip(columns or head, row, strict=False)) for row in ([head] * bool(columns) + rows)
        ]

    def jsonl(file: str) -> list[Row]:
        return [json.loads(line) for line in lines(folder / file)]

    def passages(file: str) -> list[Row]:
        articles = json.loads("\n".join(lines(folder / file)))["data"]
        return [{"passage": each["context"]} for one in articles for each in one["paragraphs"]]

    def text(file: str) -> list[Row]:
        return [{"text": line} for line in lines(folder / file)]

    news = [tsv(f"ag-news-10k/{split}.tsv.xz", "text", "label") for split in ("dev", "test")]
    yield DataSet("AG News, part", news[0], {"test": news[1]}, ["text"], "label")
    sst2 = {split: tsv(f"sst2/{split}.tsv.xz") for split in ("train", "dev", "test")}
    yield DataSet("SST-2", sst2.pop("train"), sst2, ["sentence"], "label")
    tomatoes = [{**row, "sentence": row["text"]} for row in tsv("rotten-tomatoes/rt.tsv.xz")]
    test = {"SST-2 test": sst2["test"]}
    yield DataSet("Rotten Tomatoes", tomatoes, test, ["sentence"], "label")
    reviews = tsv("imdb-5k/imdb_5k.tsv.xz")
    yield DataSet("IMDB, part", reviews[:4000], {"the rest": reviews[4000:]}, ["text"], "label")
    boolq = {split: jsonl(f"boolq/{split}.jsonl.xz") for split in ("train", "dev")}
    yield DataSet("BoolQ", boolq.pop("train"), boolq, ["question", "passage"], "label")
    rte = {split: tsv(f"rte/{split}.tsv.xz") for split in ("train", "dev")}
    yield DataSet("RTE", rte.pop("train"), rte, ["sentence1", "sentence2"], "label")
    names = ["genre", "file", "year", "id", "score", "sentence1", "sentence2"]
    stsb = {split: tsv(f"stsb/sts-{split}.tsv.xz", *names) for split in ("train", "dev", "test")}
    yield DataSet("STS-B", stsb.pop("train"), stsb, ["sentence1", "sentence2"], "score")
    abstracts = {split: jsonl(f"scitldr/{split}.jsonl.xz") for split in ("train", "dev", "test")}
    yield DataSet("SciTLDR", abstracts.pop("train"), abstracts, ["source"])
    squad, xquad = passages("squad2-dev/dev-v2.0.json.xz"), passages("xquad/xquad.en.json.xz")
    yield DataSet("SQuAD 2.0, part", squad, {"XQuAD": xquad}, ["passage"])
    wiki = [text(f"wikitext2/wiki.{split}.tokens.xz") for split in ("valid", "test")]
    yield DataSet("WikiText-2 valid", wiki[0], {"test": wiki[1]}, ["text"])
    words = [
        text(f"one-billion-words-slice/1b_benchmark.{split}.tokens.xz") for split in ("dev", "test")
    ]
    yield DataSet("One Billion Words dev", words[0], {"test": words[1]}, ["text"])
    for name, (inputs, label) in BUILT_IN.items():
        rows: dict[str, list[Row]] = {"train": [], "dev": [], "test": []}
        for row in read_rows(BUILTIN.get(name)):
            rows[row["split"]].append(row)
        yield DataSet(f"{name} (built in)", rows.pop("train"), rows, inputs, label)


def table(folder: Path) -> Iterator[str]:
    """Markdown, a line at a time."""
    yield "| training rows | held out | exact | near | same label, of these | by chance |"
    yield "|---|---|---|---|---|---|"
    for data in data_sets(folder):
        texts = {
            split: ["\n".join(str(row[column]) for column in data.inputs) for row in rows]
            for split, rows in {"train": data.train, **data.held_out}.items()
        }
        train = texts.pop("train")
        for split, overlaps in find_overlaps(train, texts).items():
            exact = sum(each.kind == "exact" for each in overlaps)
            count = len(texts[split])
            cells = [
                f"{data.name}: {len(train):,}",
                f"{split}: {count:,}",
                f"{exact:,} ({exact / count:.1%})",
                f"{len(overlaps) - exact:,} ({(len(overlaps) - exact) / count:.1%})",
            ]
            if data.label and overlaps:
                labels = [[row[data.label] for row in data.held_out[split]]]
                labels.append([row[data.label] for row in data.train])
                agreement = label_agreement(overlaps, *labels)
                cells += [
                    f"{each / len(overlaps):.0%}" for each in (agreement.same, agreement.expected)
                ]
            else:
                cells += ["", ""]
            yield f"| {' | '.join(cells)} |"
