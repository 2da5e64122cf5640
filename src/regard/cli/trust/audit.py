"""`regard audit`: does a model see what it may not, regard's own or anybody's."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.console import AsJson, Base, UserFiles, console, print_json
from regard.core.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from regard.audits.audit import Audit
    from regard.audits.leaks.causality import Leak
    from regard.audits.unused_parameters import UnusedParameter

EXIT_CODES = {"clean": 0, "leak": 1, "cannot tell": 2}
STYLES = {"clean": "bold green", "leak": "bold red", "cannot tell": "bold yellow"}
PAIRS_SHOWN = 10
LARGEST_PICTURE = 24
SAMPLE_PLACES = 12
NAMES_TOLD = 3
KEY_BIASES = ("key.bias", "keys.bias", "k_proj.bias", "k.bias")


def audit(
    target: Annotated[
        str,
        typer.Argument(
            help="A run folder, or file.py:factory, a function without arguments that gives a "
            "model (the file is run)."
        ),
    ],
    mask: Annotated[
        str | None,
        typer.Option(
            help="What may be seen: causal, bidirectional, prefix:5, …; without it what a model "
            "of regard's is built to see, causal for others."
        ),
    ] = None,
    vocabulary: Annotated[
        int, typer.Option(min=0, help="Number of token ids, where it cannot be found.")
    ] = 0,
    length: Annotated[int, typer.Option(min=0, help="Try rows of this length only.")] = 0,
    seed: Annotated[int, typer.Option(help="Other random tokens.")] = 0,
    base: Base = None,
    user_files: UserFiles = None,
    as_json: AsJson = False,
) -> None:
    """Look for influence that a mask forbids. Exit code 0: clean, 1: a leak, 2: cannot tell."""
    from regard import api

    if _names_a_function(target):
        model = _made_by(target)
    else:
        model = api.load(target, base=base, user_files=user_files or ()).model
    sample = _sample(model, vocabulary, length) if vocabulary else None
    seen = api.audit(model, mask, sample, lengths=[length] if length else None, seed=seed)
    if as_json:
        print_json(seen.as_dict())
    else:
        _print(seen, target)
    raise typer.Exit(EXIT_CODES[seen.verdict])


def _sample(model: Any, vocabulary: int, length: int) -> Any:
    """Random ids for a model whose vocabulary only the person knows."""
    import torch

    from regard.audits.build_subject import known_vocabulary

    known = known_vocabulary(model)
    if vocabulary == 1 or known not in (0, vocabulary):
        what = "nothing can be exchanged" if vocabulary == 1 else f"the model has {known} ids"
        raise UserError(
            f"--vocabulary {vocabulary}: {what}",
            topic="audit",
            hint="Leave --vocabulary out." if known else "Give the number of its token ids.",
        )
    if known:
        return None
    drawn = torch.randint(
        vocabulary, (2, length or SAMPLE_PLACES), generator=torch.Generator().manual_seed(0)
    )
    drawn[0, 0] = vocabulary - 1  # the largest id tells how many there are
    return drawn


def _names_a_function(target: str) -> bool:
    file, _, name = target.rpartition(":")
    if file.endswith(".py") and name:
        return True
    if target.endswith(".py"):
        raise UserError(
            "a Python file alone is no model",
            topic="audit",
            where=target,
            hint=f"Name the function in it that gives the model: {target}:factory.",
        )
    return False


def _made_by(target: str) -> Any:
    """The model that `file.py:factory` gives."""
    file, _, name = target.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise UserError(
            "there is no such file", topic="audit", where=file, hint="Give its path from here."
        )
    with _beside(path):
        module = _imported(path)
        factory = getattr(module, name, None)
        if not callable(factory):
            known = [key for key, value in vars(module).items() if callable(value)]
            what = f"has no function {name}{did_you_mean(name, known)}"
            raise UserError(what, topic="audit", where=file)
        try:
            return factory()
        except (Exception, SystemExit) as problem:  # the person's own code may raise anything
            raise UserError(
                f"{name}() raised {_told(problem)}",
                topic="audit",
                where=file,
                hint="It has to give a model when it is called without arguments.",
            ) from problem


@contextmanager
def _beside(path: Path) -> Iterator[None]:
    """Let the file import its neighbours, as it can when it is run itself."""
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


def _imported(path: Path) -> Any:
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    before = sys.modules.get(path.stem)
    sys.modules[path.stem] = module  # dataclasses look their module up while it is being run
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as problem:  # the person's own code may raise anything
        raise UserError(
            f"running it raised {_told(problem)}",
            topic="audit",
            where=str(path),
            hint="Mend the file, then audit again.",
        ) from problem
    finally:
        if before is not None:
            sys.modules[path.stem] = before
    return module


def _told(problem: BaseException) -> str:
    lines = str(problem).strip().splitlines()
    return f"{type(problem).__name__}: {lines[0]}" if lines else type(problem).__name__


def _print(seen: Audit, target: str) -> None:
    from rich.text import Text

    say = console().print
    mask = f"mask {seen.mask} ({seen.mask_from})"
    say(f"\n  {target} · {mask} · {seen.seconds:.1f} s", markup=False, soft_wrap=True)
    sentence = seen.sentence().removeprefix(f"{seen.verdict}: ")
    verdict = Text(f"  {seen.verdict.upper()}  ", STYLES[seen.verdict])
    say(verdict + Text(sentence, ""), soft_wrap=True)
    if seen.leaks:
        _print_leaks(seen.leaks)
    _print_list("found besides", [f"{one.text} (by {one.size:.2g})" for one in seen.findings])
    _print_list("cannot learn", _unused_parameter_lines(seen.unused_parameters))
    _print_list("not checked", list(seen.unchecked))
    say(f"  {len(seen.checked)} checks done; --json lists them", style="dim", soft_wrap=True)


def _unused_parameter_lines(unused_parameters: tuple[UnusedParameter, ...]) -> list[str]:
    """One line a parameter; the biases of keys, which every softmax ignores, in one together."""
    biases = [
        one for one in unused_parameters if one.name.endswith(KEY_BIASES) and "noise" in one.why
    ]
    lines = [
        f"{one.name} {'×'.join(map(str, one.shape)) or 'one number'}: {one.why}"
        for one in unused_parameters
        if one not in biases
    ]
    if biases:
        names = ", ".join(one.name for one in biases[:NAMES_TOLD])
        more = ", …" if len(biases) > NAMES_TOLD else ""
        count = f"{len(biases)} key bias{'es' if len(biases) > 1 else ''}"
        why = "a softmax does not see what moves all scores of a query alike"
        lines.append(f"{count} ({names}{more}): {why}")
    return lines


def _print_list(title: str, lines: list[str]) -> None:
    if lines:
        console().print(f"\n  {title}", style="bold")
    for line in lines:
        console().print(f"    {line}", markup=False, soft_wrap=True)


def _print_leaks(leaks: tuple[Leak, ...]) -> None:
    """A picture where it is small, then the largest pairs."""
    from rich.padding import Padding
    from rich.table import Table

    first = [leak for leak in leaks if leak.where == leaks[0].where]
    size = 1 + max(max(leak.query, leak.key) for leak in first)
    if size <= LARGEST_PICTURE:
        console().print(f"\n  {first[0].where}: ■ row reacts to column", style="dim")
        pairs = {(leak.query, leak.key) for leak in first}
        for i in range(size):
            cells = " ".join("■" if (i, j) in pairs else "·" for j in range(size))
            console().print(f"    {cells}", markup=False)
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("position", "reacts to token", "influence", "by", "in"):
        table.add_column(heading, justify="left" if heading in ("by", "in") else "right")
    for leak in sorted(leaks, key=lambda leak: -leak.influence)[:PAIRS_SHOWN]:
        size_told = f"{leak.influence:.2g}"
        table.add_row(str(leak.query), str(leak.key), size_told, leak.how, leak.where)
    console().print()
    console().print(Padding(table, (0, 0, 0, 2)))
    if len(leaks) > PAIRS_SHOWN:
        console().print(f"  … {len(leaks):,} leaking pairs in all", markup=False)
