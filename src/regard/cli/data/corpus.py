"""`regard corpus`: look at texts before anything is trained on them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.console import AsJson, console, print_json, progress_bar

if TYPE_CHECKING:
    from regard.data.corpus import Corpus
    from regard.data.corpus_stats import CorpusStatistics, LengthHistogram
    from regard.data.token_cache import TokenCache

app = typer.Typer(
    help="Look at texts: sizes, lengths, unknown words, overlap.", no_args_is_help=True
)

EIGHTHS = " ▏▎▍▌▋▊▉"
BAR = 40


class Unit(StrEnum):
    line = "line"
    paragraph = "paragraph"
    file = "file"


@app.callback()
def family() -> None:
    """Keeps `stats` a word of its own while it is the only verb."""


@app.command()
def stats(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE",
            help="Files, folders, patterns, hub:NAME, or a built-in corpus such as python-docs.",
        ),
    ],
    text: Annotated[str, typer.Option(help="The column or key that holds the text.")] = "text",
    unit: Annotated[Unit, typer.Option(help="What one document is in plain text.")] = Unit.line,
    dev: Annotated[str, typer.Option(help="Dev part: a share, or a path.")] = "0.05",
    test: Annotated[str, typer.Option(help="Test part: a share, or a path.")] = "0.05",
    tokenizer: Annotated[
        str | None, typer.Option(help="tokenizer.json or vocab.txt; words are counted without.")
    ] = None,
    skip_bad_rows: Annotated[
        bool, typer.Option("--skip-bad-rows", help="Drop and count rows that cannot be read.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Documents, tokens, lengths, unknown rate, and how much of dev and test stands in train."""
    from tempfile import TemporaryDirectory

    from regard.core.settings import read_settings
    from regard.data.corpus import Data, open_corpus
    from regard.data.corpus_stats import corpus_statistics

    table = {
        "corpus": sources,
        "text": text,
        "unit": unit.value,
        "dev": _share_or_path(dev),
        "test": _share_or_path(test),
        "skip_bad_rows": skip_bad_rows,
    }
    corpus = open_corpus(read_settings(Data, table, key="data"))
    with progress_bar("reading") as on_progress, TemporaryDirectory() as folder:
        cache = _count(corpus, tokenizer, folder=folder, on_progress=on_progress)
        figures = corpus_statistics(cache, corpus)
    if as_json:
        print_json({**figures.as_dict(), "counted_in": "tokens" if tokenizer else "words"})
    else:
        _show(figures, corpus, counted="tokens" if tokenizer else "words")


def _share_or_path(given: str) -> float | str:
    try:
        return float(given)
    except ValueError:
        return given


def _count(corpus: Corpus, tokenizer: str | None, *, folder: str, on_progress: Any) -> TokenCache:
    """A cache for this look only: a corpus that is merely looked at may lack a dev part."""
    from pathlib import Path

    from regard.data.token_cache import TokenizerLike, build_cache
    from regard.data.tokenizers.tokenizer import Tokenizer
    from regard.data.tokenizers.whitespace import WhitespaceTokenizer

    counter: TokenizerLike = (
        WhitespaceTokenizer() if tokenizer is None else Tokenizer.load(tokenizer)
    )
    target = Path(folder) / "cache"
    return build_cache(corpus, counter, target, required=(), on_progress=on_progress)


def _show(figures: CorpusStatistics, corpus: Corpus, *, counted: str) -> None:
    from rich.markup import escape
    from rich.table import Table

    out = console()
    remarks = [] if counted == "tokens" else ["words, no tokenizer given"]
    name, *rest = [*corpus.describe().split(" · "), *remarks]
    out.print(f"\n  [bold]{escape(name)}[/bold]\n  {escape(' · '.join(rest))}\n", soft_wrap=True)
    table = Table(box=None, padding=(0, 2), show_edge=False)
    table.add_column("")
    for part in figures.splits:
        table.add_column(part, justify="right")
    for label, show in _rows(counted).items():
        table.add_row(label, *(show(part) for part in figures.splits.values()))
    n = figures.overlap["dev"].n
    for label, key in (("documents in train", "documents"), (f"{n}-word runs in train", "ngrams")):
        shares = [
            f"{getattr(figures.overlap[part], key):.2%}"
            if part in figures.overlap and getattr(figures.overlap[part], f"{key}_counted")
            else "–"
            for part in figures.splits
        ]
        table.add_row(label, *shares)
    out.print(table)
    _draw(_all_parts(figures), f"{counted} a document", out)


def _rows(counted: str) -> dict[str, Any]:
    rows: dict[str, Any] = {
        "documents": lambda part: f"{part.documents:,}",
        counted: lambda part: f"{part.tokens:,}",
        "bytes": lambda part: f"{part.bytes:,}",
        f"unique {counted}": lambda part: f"{part.unique_tokens:,}",
    }
    if counted == "tokens":
        rows["unknown"] = lambda part: f"{part.unknown_rate:.2%}"
    return rows | {
        "mean length": lambda part: f"{part.mean_length:,.1f}",
        "median length": lambda part: f"{part.median_length:,.0f}",
        "longest": lambda part: f"{part.max_length:,}",
        "fingerprint": lambda part: part.fingerprint[:8] if part.documents else "–",
    }


def _all_parts(figures: CorpusStatistics) -> LengthHistogram:
    from regard.data.corpus_stats import LengthHistogram

    histograms = [part.histogram for part in figures.splits.values()]
    counts = [sum(bin_) for bin_ in zip(*(h.counts for h in histograms), strict=True)]
    return LengthHistogram(histograms[0].edges, counts)


def _draw(histogram: LengthHistogram, title: str, out: Any) -> None:
    """One bar a bin, from the first to the last that holds anything."""
    filled = [i for i, count in enumerate(histogram.counts) if count]
    if not filled:
        return
    tallest = max(histogram.counts)
    out.print(f"\n  {title}")
    for i in range(filled[0], filled[-1] + 1):
        low, high, count = histogram.edges[i], histogram.edges[i + 1] - 1, histogram.counts[i]
        span = f"{low:,}" if low == high else f"{low:,}–{high:,}"
        out.print(f"  {span:>15}  [cyan]{_bar(count / tallest):<{BAR}}[/cyan]  {count:,}")
    out.print()


def _bar(share: float) -> str:
    """Block characters, to an eighth; what is there at all is seen."""
    eighths = max(round(share * BAR * 8), 1) if share > 0 else 0
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()
