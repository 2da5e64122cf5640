"""`regard generate`: generate text with a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.completion import complete_run
from regard.cli.console import AsJson, Base, UserFiles, console, print_json, side_console
from regard.core.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regard.runs.models.loaded_model import LoadedModel


def generate(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            autocompletion=complete_run,
            help="Run folder, checkpoint or model folder.",
        ),
    ],
    prompts: Annotated[
        list[str] | None,
        typer.Argument(metavar="PROMPT", help="Prompts; default: an empty one."),
    ] = None,
    prompt_file: Annotated[
        Path | None, typer.Option(help="File with further prompts, one per line.")
    ] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Maximum new tokens.")] = 60,
    temperature: Annotated[
        float, typer.Option(min=0.0, help="Sampling temperature; 0: greedy decoding.")
    ] = 0.8,
    top_k: Annotated[int, typer.Option(min=0, help="Sample from the k most likely; 0: all.")] = 0,
    top_p: Annotated[
        float, typer.Option(help="Nucleus sampling: cumulative probability kept.")
    ] = 0.95,
    beam: Annotated[int, typer.Option(min=0, help="Beam width; 0: sampling.")] = 0,
    seed: Annotated[int, typer.Option(help="Random seed of sampling.")] = 0,
    tokenizer: Annotated[
        Path | None, typer.Option(help="Fail unless the model was trained with this tokenizer.")
    ] = None,
    base: Base = None,
    user_files: UserFiles = None,
    as_json: AsJson = False,
) -> None:
    """Generate text from prompts."""
    from regard import api
    from regard.runs.samples import choose_strategy

    texts = [*(prompts or []), *_prompts_in(prompt_file)] or [""]
    strategy = choose_strategy(beam=beam, temperature=temperature, top_k=top_k, top_p=top_p)
    for number, text in enumerate(texts, 1):
        if not text.isascii() and text != text.encode(errors="replace").decode():
            raise UserError(
                f"prompt {number} is not valid UTF-8", topic="generate", hint="Type it again."
            )
    loaded = api.load(run, tokenizer=tokenizer, base=base, user_files=user_files or ())
    _warn_truncated(texts, loaded)
    generated = loaded.generate(texts, strategy=strategy, max_new_tokens=max_new_tokens, seed=seed)
    if as_json:
        print_json([{"prompt": p, "text": t} for p, t in zip(texts, generated, strict=True)])
        return
    from rich.text import Text

    for number, (prompt, text) in enumerate(zip(texts, generated, strict=True)):
        if number:
            console().print("─" * 24, style="dim")
        console().print(Text(prompt, style="bold") + Text(text))


def _warn_truncated(texts: Sequence[str], loaded: LoadedModel) -> None:
    """On standard error: prompts longer than the context are truncated."""
    context = loaded.saved.family.context
    for number, ids in enumerate(loaded.tokenizer.encode_many(list(texts)), 1):
        if len(ids) >= context:  # the start token comes on top
            sizes = f"prompt {number} has {len(ids):,} tokens, the model's context is {context:,}"
            side_console().print(f"  {sizes}: it is truncated", style="yellow")


def _prompts_in(file: Path | None) -> list[str]:
    if file is None:
        return []
    from regard.data.readers.formats import DropCounts, ReadOptions, read_texts

    return list(read_texts(file, ReadOptions(), DropCounts()))
