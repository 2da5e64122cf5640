"""`regard generate`: let a trained model write."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.console import AsJson, Base, OwnFiles, console, print_json, side_console
from regard.core.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regard.generation.generate import Strategy
    from regard.runs.models.loaded_model import LoadedModel


def generate(
    run: Annotated[Path, typer.Argument(help="A run folder, a checkpoint or a final folder.")],
    prompts: Annotated[
        list[str] | None, typer.Argument(help="Texts to go on from; none begins a document.")
    ] = None,
    prompt_file: Annotated[
        Path | None, typer.Option(help="A file with one prompt a line, besides those given.")
    ] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Tokens written at most.")] = 60,
    temperature: Annotated[
        float, typer.Option(min=0.0, help="0 takes the likeliest token each time.")
    ] = 0.8,
    top_k: Annotated[int, typer.Option(min=0, help="Draw from this many; 0 from all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Draw from the likeliest with this mass.")] = 0.95,
    beam: Annotated[int, typer.Option(min=0, help="Beam search of this width; 0 samples.")] = 0,
    seed: Annotated[int, typer.Option(help="The same seed writes the same text.")] = 0,
    tokenizer: Annotated[
        Path | None, typer.Option(help="Check the model against this tokenizer.")
    ] = None,
    base: Base = None,
    own_files: OwnFiles = None,
    as_json: AsJson = False,
) -> None:
    """Write on from prompts, many at once; seeded, cached, stopping where the model does."""
    from regard import api

    texts = [*(prompts or []), *_prompts_in(prompt_file)] or [""]
    strategy = _strategy(beam=beam, temperature=temperature, top_k=top_k, top_p=top_p)
    for number, text in enumerate(texts, 1):
        if not text.isascii() and text != text.encode(errors="replace").decode():
            raise UserError(
                f"prompt {number} is not valid UTF-8", topic="generate", hint="Type it anew."
            )
    loaded = api.load(run, tokenizer=tokenizer, base=base, own_files=own_files or ())
    _tell_cut(texts, loaded)
    written = loaded.generate(texts, strategy=strategy, max_new_tokens=max_new_tokens, seed=seed)
    if as_json:
        print_json([{"prompt": p, "text": t} for p, t in zip(texts, written, strict=True)])
        return
    from rich.text import Text

    for number, (prompt, text) in enumerate(zip(texts, written, strict=True)):
        if number:
            console().print("─" * 24, style="dim")
        console().print(Text(prompt, style="bold") + Text(text))


def _tell_cut(texts: Sequence[str], loaded: LoadedModel) -> None:
    """On standard error: what does not fit into the model's places is not read."""
    places = loaded.saved.family.context
    for number, ids in enumerate(loaded.tokenizer.encode_many(list(texts)), 1):
        if len(ids) >= places:  # with <start> it is one more
            words = f"prompt {number} has {len(ids):,} tokens, the model {places:,} places"
            side_console().print(f"  {words}: not all of it is read", style="yellow")


def _strategy(*, beam: int, temperature: float, top_k: int, top_p: float) -> Strategy:
    from regard.core.settings import read_settings
    from regard.generation.generate import BeamSearch, Greedy, Sampling

    if beam:
        return BeamSearch(width=beam)
    if temperature == 0:
        return Greedy()
    asked = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    try:
        return read_settings(Sampling, asked)
    except UserError as problem:
        raise UserError(problem.what, topic="generate") from None


def _prompts_in(file: Path | None) -> list[str]:
    if file is None:
        return []
    from regard.data.readers.formats import DropCounts, ReadOptions, read_texts

    return list(read_texts(file, ReadOptions(), DropCounts()))
