"""`regard tokenizer`: train, show, or advise whether to train one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.completion import complete_tokenizer_kind
from regard.cli.console import AsJson, console, print_json, progress_bar
from regard.core.errors import UserError
from regard.core.printable import escape_unprintable

if TYPE_CHECKING:
    from regard.data.corpus import Corpus
    from regard.data.tokenizers.tokenizer import Tokenizer

app = typer.Typer(
    help="Train or show a tokenizer, or advise whether to train one.", no_args_is_help=True
)

Sources = Annotated[
    list[str],
    typer.Argument(metavar="SOURCE", help="Files, folders, glob patterns, or a built-in corpus."),
]
Column = Annotated[str, typer.Option("--text", metavar="COLUMN", help="Column of the text.")]


@app.command()
def train(
    source: Sources,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FOLDER", help="Output folder."),
    ],
    kind: Annotated[
        str,
        typer.Option(
            "--kind",
            autocompletion=complete_tokenizer_kind,
            help="bpe, wordpiece, unigram, word or character.",
        ),
    ] = "bpe",
    vocabulary: Annotated[
        int | None, typer.Option("--vocabulary", help="Vocabulary size, special tokens included.")
    ] = None,
    text: Column = "text",
) -> None:
    """Train a tokenizer on the training split of your text.

    The dev and test splits are held out, for `advise` and later runs.
    """
    from regard.core.settings import read_settings
    from regard.data.tokenizers import TOKENIZERS, TokenizerKind

    if out.exists():
        raise UserError(
            "exists already",
            topic="tokenizer",
            where=str(out),
            hint="Choose another --out, or delete it.",
        )
    if kind == "file":
        raise UserError(
            "kind 'file' is loaded, not trained",
            topic="tokenizer",
            hint='Name it in a recipe: tokenizer = { kind = "file", path = … }.',
        )
    part = TOKENIZERS.get(kind).part
    assert isinstance(part, type)
    assert issubclass(part, TokenizerKind)
    table = {} if vocabulary is None else {"vocabulary": vocabulary}
    settings = read_settings(part, table, key="tokenizer")
    corpus = _open_corpus(source, text)
    with progress_bar("reading") as on_progress:
        tokenizer = settings.train(corpus.texts("train"), on_progress=on_progress)
    tokenizer.save(out)
    console().print(
        f"{tokenizer.name}, {tokenizer.size:,} tokens, "
        f"fingerprint {tokenizer.short_fingerprint}, in {out}",
        soft_wrap=True,
        markup=False,
    )


@app.command()
def show(
    tokenizer: Annotated[
        str,
        typer.Argument(metavar="TOKENIZER", help="tokenizer.json, vocab.txt, or their folder."),
    ],
    text: Annotated[str | None, typer.Option("--text", help="A text to tokenize.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show a tokenizer: kind, size, special tokens, fingerprint."""
    from regard.data.tokenizers.tokenizer import SPECIAL_SPELLINGS, Tokenizer

    loaded = Tokenizer.load(tokenizer)
    facts: dict[str, Any] = {
        "name": loaded.name,
        "kind": loaded.to_dict()["model"]["type"],
        "size": loaded.size,
        "fingerprint": loaded.fingerprint,
        "specials": {
            role: None if token is None else {"id": token, "piece": loaded.tokens([token])[0]}
            for role in SPECIAL_SPELLINGS
            for token in [getattr(loaded, role)]
        },
        "pieces": _example_tokens(loaded),
    }
    if text is not None:
        ids = loaded.encode(text)
        facts["encoding"] = {
            "tokens": loaded.tokens(ids),
            "ids": ids,
            "unknown": ids.count(loaded.unk) if loaded.unk is not None else 0,
            "decoded": loaded.decode(ids),
        }
    if as_json:
        print_json(facts)
    else:
        _print_facts(facts)


@app.command()
def advise(
    source: Sources,
    tokenizer: Annotated[
        str,
        typer.Option("--tokenizer", metavar="FILE", help="Existing tokenizer: file or folder."),
    ],
    text: Column = "text",
    as_json: AsJson = False,
) -> None:
    """Advise whether to keep a tokenizer or train a new one.

    Both are measured on held-out documents."""
    from regard.data.tokenizers.advice import advise as advise_on
    from regard.data.tokenizers.tokenizer import Tokenizer

    existing = Tokenizer.load(tokenizer)
    corpus = _open_corpus(source, text)
    with progress_bar("training a tokenizer") as on_progress:
        advice = advise_on(
            existing,
            train_texts=corpus.texts("train"),
            held_out=corpus.texts("dev"),
            on_progress=on_progress,
        )
    if as_json:
        print_json(advice.as_dict())
        return
    from regard.cli.tables import PlainTable

    table = PlainTable(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for column in ("tokenizer", "vocabulary", "tokens per word", "unknown rate"):
        table.add_column(column, justify="left" if column == "tokenizer" else "right")
    for label, fit in (("yours: ", advice.existing), ("new: ", advice.fresh)):
        table.add_row(
            label + fit.name, f"{fit.size:,}", f"{fit.fertility:.2f}", f"{fit.unknown_rate:.2%}"
        )
    console().print(table)
    console().print(f"\n{advice.sentence}", markup=False)


def _open_corpus(sources: list[str], column: str) -> Corpus:
    from regard.core.settings import read_settings
    from regard.data.corpus import Data, open_corpus

    return open_corpus(read_settings(Data, {"corpus": sources, "text": column}, key="data"))


def _example_tokens(tokenizer: Tokenizer, count: int = 16) -> list[str]:
    """Tokens at even distances in the vocabulary."""
    return tokenizer.tokens(range(0, tokenizer.size, max(tokenizer.size // count, 1)))[:count]


def _print_facts(facts: dict[str, Any]) -> None:
    lines = [
        ("name", facts["name"]),
        ("kind", facts["kind"]),
        ("vocabulary", f"{facts['size']:,}"),
        ("fingerprint", facts["fingerprint"]),
        ("special", ", ".join(_special(*item) for item in facts["specials"].items())),
        ("examples", _visible(facts["pieces"])),
    ]
    if encoding := facts.get("encoding"):
        lines += [
            ("tokens", _visible(encoding["tokens"])),
            ("ids", " ".join(str(i) for i in encoding["ids"])),
            ("decoded", encoding["decoded"]),
            ("counts", f"{len(encoding['ids'])} tokens, {encoding['unknown']} unknown"),
        ]
    for label, value in lines:
        console().print(f"  {label:<12} {value}", markup=False, soft_wrap=True)


def _special(role: str, token: dict[str, Any] | None) -> str:
    return f"{role} {token['piece']} = {token['id']}" if token else f"{role} none"


def _visible(tokens: list[str]) -> str:
    """Tokens between bars; non-printable and control characters are escaped."""
    return " | ".join(map(escape_unprintable, tokens))
