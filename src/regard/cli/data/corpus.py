"""`regard corpus`: statistics of a corpus before training on it, and its rows as one table."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.console import AsJson, console, print_json, progress_bar, side_console

if TYPE_CHECKING:
    from regard.data.corpus import Corpus
    from regard.data.statistics import CorpusStatistics, LengthHistogram
    from regard.data.token_cache.cache import TokenCache

app = typer.Typer(
    help="Inspect a corpus (sizes, lengths, overlap of splits), or write it as a table.",
    no_args_is_help=True,
)

EIGHTHS = " ▏▎▍▌▋▊▉"
BAR_WIDTH = 40


class Unit(StrEnum):
    line = "line"
    paragraph = "paragraph"
    file = "file"


@app.command()
def stats(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE",
            help="Files, folders, glob patterns, hub:NAME, or a built-in corpus (python-docs, …).",
        ),
    ],
    text: Annotated[str, typer.Option(help="Column or key of the text.")] = "text",
    unit: Annotated[Unit, typer.Option(help="Document unit in plain text.")] = Unit.line,
    dev: Annotated[str, typer.Option(help="Dev split: a fraction, or a path.")] = "0.05",
    test: Annotated[str, typer.Option(help="Test split: a fraction, or a path.")] = "0.05",
    tokenizer: Annotated[
        str | None, typer.Option(help="tokenizer.json or vocab.txt; without one, counts words.")
    ] = None,
    skip_bad_rows: Annotated[
        bool, typer.Option("--skip-bad-rows", help="Drop and count unreadable rows.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Report sizes, lengths, unknown rate and overlap of splits."""
    from tempfile import TemporaryDirectory

    from regard.core.settings import read_settings
    from regard.data.corpus import Data, open_corpus
    from regard.data.corpus_stats import corpus_statistics
    from regard.data.splits import SPLITS
    from regard.runs.preparation.data_flaws import text_flaws
    from regard.runs.preparation.data_remarks import data_remarks
    from regard.runs.preparation.overlap import SplitItems, count_overlap, find_overlap

    table = {
        "corpus": sources,
        "text": text,
        "unit": unit.value,
        "dev": _fraction_or_path(dev),
        "test": _fraction_or_path(test),
        "skip_bad_rows": skip_bad_rows,
    }
    corpus = open_corpus(read_settings(Data, table, key="data"))
    with TemporaryDirectory() as folder:
        with progress_bar("reading") as on_progress:
            cache = _count(corpus, tokenizer, folder=folder, on_progress=on_progress)
        with progress_bar("searching overlap") as on_progress:
            items = SplitItems(corpus.texts)
            overlap = find_overlap(items, on_progress=on_progress)
        flaws = text_flaws(corpus)
        texts = {split: cache.split(split).texts for split in SPLITS}
        statistics = corpus_statistics(cache, count_overlap(overlap, items, texts))
    unit_counted = "tokens" if tokenizer else "words"
    if as_json:
        print_json({**statistics.as_dict(), "counted_in": unit_counted})
    else:
        _print_statistics(statistics, corpus, counted=unit_counted)
        for remark in data_remarks(statistics, flaws):
            side_console().print(f"  {remark}", markup=False, soft_wrap=True)


@app.command()
def write(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A built-in corpus, or files of your own.")
    ],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Table: .csv, .tsv or .jsonl.")],
) -> None:
    """Write the rows of a corpus as one table, in UTF-8, with every column.

    Splits and groups that the corpus defines are columns too."""
    from regard.cli.row_files import check_format, write_rows
    from regard.core.errors import UserError
    from regard.data.readers.records import DropCounts, ReadOptions
    from regard.data.sources import find_source
    from regard.evaluation.formatting import quantity

    check_format(file, topic="corpus")
    if file.exists():
        raise UserError(f"{file} exists already", topic="corpus", hint="Give another name.")
    found = find_source(source, ReadOptions(columns=None))
    rows = []
    for record in found.records(DropCounts()):
        own = {"split": record.split, "group": record.group}
        rows.append(record | {name: value for name, value in own.items() if value is not None})
    write_rows(file, rows)
    generated = "; the texts are generated" if found.generated else ""
    console().print(f"  {file}: {quantity(len(rows), 'rows')}{generated}", markup=False)


def _fraction_or_path(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _count(corpus: Corpus, tokenizer: str | None, *, folder: str, on_progress: Any) -> TokenCache:
    """A temporary cache; unlike for training, the dev split may be empty."""
    from regard.data.token_cache.building import build_cache
    from regard.data.tokenizers.tokenizer import Tokenizer
    from regard.data.tokenizers.whitespace import WhitespaceTokenizer

    counter = WhitespaceTokenizer() if tokenizer is None else Tokenizer.load(tokenizer)
    target = Path(folder) / "cache"
    return build_cache(corpus, counter, target, required=(), on_progress=on_progress)


def _print_statistics(statistics: CorpusStatistics, corpus: Corpus, *, counted: str) -> None:
    from rich.markup import escape

    from regard.cli.tables import PlainTable

    out = console()
    remarks = [] if counted == "tokens" else ["words, no tokenizer given"]
    name, *rest = [*corpus.describe().split(" · "), *remarks]
    out.print(f"\n  [bold]{escape(name)}[/bold]\n  {escape(' · '.join(rest))}\n", soft_wrap=True)
    table = PlainTable(box=None, padding=(0, 2), show_edge=False)
    table.add_column("")
    for split in statistics.splits:
        table.add_column(split, justify="right")
    for label, cell in _rows(counted).items():
        table.add_row(label, *(cell(split) for split in statistics.splits.values()))
    for label, key in (("in train word for word", "exact"), ("in train nearly so", "near")):
        counts = [
            f"{getattr(overlap, key):,}" if overlap and overlap.items else "–"
            for overlap in map(statistics.overlap.get, statistics.splits)
        ]
        table.add_row(label, *counts)
    out.print(table)
    _draw(_all_splits(statistics), f"{counted} per document", out)


def _rows(counted: str) -> dict[str, Any]:
    rows: dict[str, Any] = {
        "documents": lambda split: f"{split.documents:,}",
        counted: lambda split: f"{split.tokens:,}",
        "bytes": lambda split: f"{split.bytes:,}",
        f"unique {counted}": lambda split: f"{split.unique_tokens:,}",
    }
    if counted == "tokens":
        rows["unknown rate"] = lambda split: f"{split.unknown_rate:.2%}"
    return rows | {
        "mean length": lambda split: f"{split.mean_length:,.1f}",
        "median length": lambda split: f"{split.median_length:,.0f}",
        "max length": lambda split: f"{split.max_length:,}",
        "fingerprint": lambda split: split.fingerprint[:8] if split.documents else "–",
    }


def _all_splits(statistics: CorpusStatistics) -> LengthHistogram:
    from regard.data.statistics import LengthHistogram

    histograms = [split.histogram for split in statistics.splits.values()]
    counts = [sum(bin_) for bin_ in zip(*(h.counts for h in histograms), strict=True)]
    return LengthHistogram(histograms[0].edges, counts)


def _draw(histogram: LengthHistogram, title: str, out: Any) -> None:
    """One bar per bin, from the first to the last non-empty bin."""
    filled = [i for i, count in enumerate(histogram.counts) if count]
    if not filled:
        return
    tallest = max(histogram.counts)
    out.print(f"\n  {title}")
    for i in range(filled[0], filled[-1] + 1):
        low, high, count = histogram.edges[i], histogram.edges[i + 1] - 1, histogram.counts[i]
        span = f"{low:,}" if low == high else f"{low:,}–{high:,}"
        out.print(f"  {span:>15}  [cyan]{_bar(count / tallest):<{BAR_WIDTH}}[/cyan]  {count:,}")
    out.print()


def _bar(fraction: float) -> str:
    """Block characters with a resolution of an eighth; visible whenever fraction > 0."""
    eighths = max(round(fraction * BAR_WIDTH * 8), 1) if fraction > 0 else 0
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()
