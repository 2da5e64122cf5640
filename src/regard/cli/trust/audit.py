"""`regard audit`: test whether a model, regard's or any other, leaks masked positions."""

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
    from regard.audits.findings import Leak, UnusedParameter

EXIT_CODES = {"clean": 0, "leak": 1, "batch coupling": 1, "cannot tell": 2}
STYLES = {
    "clean": "bold green",
    "leak": "bold red",
    "batch coupling": "bold red",
    "cannot tell": "bold yellow",
}
MAX_PAIRS_SHOWN = 10
MAX_MAP_LENGTH = 24
SAMPLE_LENGTH = 12
MAX_NAMES_SHOWN = 3


def audit(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="Run folder, or file.py:factory, a function without arguments that returns a "
            "model (executes the file).",
        ),
    ],
    mask: Annotated[
        str | None,
        typer.Option(
            help="Allowed attention: causal, bidirectional, prefix:5, …; default: the model's own "
            "mask, or causal for foreign models."
        ),
    ] = None,
    vocabulary: Annotated[
        int, typer.Option(min=0, help="Vocabulary size, if it cannot be detected.")
    ] = 0,
    length: Annotated[
        int, typer.Option(min=0, help="Audit only this sequence length; 0: several.")
    ] = 0,
    seed: Annotated[int, typer.Option(help="Random seed of the input tokens.")] = 0,
    base: Base = None,
    user_files: UserFiles = None,
    as_json: AsJson = False,
) -> None:
    """Test whether outputs depend on positions the mask forbids.

    Exit code 0: clean, 1: a leak or batch coupling, 2: cannot tell."""
    from regard import api
    from regard.core.json_records import record_table
    from regard.runs.results import AuditRecord

    if _is_factory(target):
        model = _call_factory(target)
    else:
        model = api.load(target, base=base, user_files=user_files or ())
    sample = _sample(model, vocabulary, length) if vocabulary else None
    result = api.audit(model, mask, sample, lengths=[length] if length else None, seed=seed)
    if as_json:
        print_json(record_table(AuditRecord.of_audit(result)))
    else:
        _print(result, target)
    raise typer.Exit(EXIT_CODES[result.verdict])


def _sample(model: Any, vocabulary: int, length: int) -> Any:
    """Random ids for a model whose vocabulary size only the user knows."""
    import torch

    from regard.audits.build_subject import known_vocabulary
    from regard.runs.models.model_subject import auditable

    known = known_vocabulary(auditable(model))
    if vocabulary == 1 or known not in (0, vocabulary):
        what = "nothing can be exchanged" if vocabulary == 1 else f"the model has {known} ids"
        raise UserError(
            f"--vocabulary {vocabulary}: {what}",
            topic="audit",
            hint="Leave --vocabulary out." if known else "Give the number of its token ids.",
        )
    if known:
        return None
    ids = torch.randint(
        vocabulary, (2, length or SAMPLE_LENGTH), generator=torch.Generator().manual_seed(0)
    )
    ids[0, 0] = vocabulary - 1  # the audit derives the vocabulary size from the largest id
    return ids


def _is_factory(target: str) -> bool:
    file, _, name = target.rpartition(":")
    if file.endswith(".py") and name:
        return True
    if target.endswith(".py"):
        raise UserError(
            "a Python file alone is no model",
            topic="audit",
            where=target,
            hint=f"Name the function in it that returns the model: {target}:factory.",
        )
    return False


def _call_factory(target: str) -> Any:
    """The model that `file.py:factory` returns, or is."""
    file, _, name = target.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise UserError(
            "there is no such file",
            topic="audit",
            where=file,
            hint="Give its path relative to the current folder.",
        )
    with _folder_on_path(path):
        module = _import_file(path)
        factory = getattr(module, name, None)
        if not callable(factory):
            known = [key for key, value in vars(module).items() if callable(value)]
            what = f"has no function {name}{did_you_mean(name, known)}"
            raise UserError(what, topic="audit", where=file)
        if not isinstance(factory, type) and hasattr(factory, "named_parameters"):
            return factory  # the model itself
        try:
            model = factory()
        except (Exception, SystemExit) as problem:  # user code may raise anything
            raise UserError(
                f"{name}() raised {_first_line(problem)}",
                topic="audit",
                where=file,
                hint="It must return a model when called without arguments.",
            ) from problem
        if isinstance(model, str | Path):
            what = f"{name}() returned a {type(model).__name__}, not a model"
            hint = "Return a module, or audit a run by its path."
            raise UserError(what, topic="audit", where=file, hint=hint)
        return model


@contextmanager
def _folder_on_path(path: Path) -> Iterator[None]:
    """Let the file import modules of its folder, as when it is run as a script."""
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


def _import_file(path: Path) -> Any:
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    before = sys.modules.get(path.stem)
    sys.modules[path.stem] = module  # dataclasses look up their module while it is executed
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as problem:  # user code may raise anything
        raise UserError(
            f"running it raised {_first_line(problem)}",
            topic="audit",
            where=str(path),
            hint="Fix the file, then audit again.",
        ) from problem
    finally:
        if before is not None:
            sys.modules[path.stem] = before
    return module


def _first_line(problem: BaseException) -> str:
    lines = str(problem).strip().splitlines()
    return f"{type(problem).__name__}: {lines[0]}" if lines else type(problem).__name__


def _print(result: Audit, target: str) -> None:
    from rich.text import Text

    say = console().print
    mask = f"mask {result.mask} ({result.mask_from})"
    say(f"\n  {target} · {mask} · {result.seconds:.1f} s", markup=False, soft_wrap=True)
    sentence = result.sentence().removeprefix(f"{result.verdict}: ")
    verdict = Text(f"  {result.verdict.upper()}  ", STYLES[result.verdict])
    say(verdict + Text(sentence, ""), soft_wrap=True)
    if result.leaks:
        _print_leaks(result.leaks)
    _print_list("other findings", [f"{one.text} (by {one.size:.2g})" for one in result.findings])
    _print_list("unused parameters", _unused_parameter_lines(result.unused_parameters))
    _print_list("not checked", list(result.unchecked))
    say(f"  {len(result.checked)} checks done; --json lists them", style="dim", soft_wrap=True)


def _unused_parameter_lines(unused_parameters: tuple[UnusedParameter, ...]) -> list[str]:
    """One line per parameter; key biases, to which a softmax is invariant, on one line."""
    biases = [one for one in unused_parameters if one.is_by_design]
    lines = [
        f"{one.name} {'×'.join(map(str, one.shape)) or 'one number'}: {one.why}"
        for one in unused_parameters
        if one not in biases
    ]
    if biases:
        names = ", ".join(one.name for one in biases[:MAX_NAMES_SHOWN])
        more = ", …" if len(biases) > MAX_NAMES_SHOWN else ""
        count = f"{len(biases)} key bias{'es' if len(biases) > 1 else ''}"
        reason = "softmax is invariant to a constant added to all scores of a query"
        lines.append(f"{count} ({names}{more}): {reason}")
    return lines


def _print_list(title: str, lines: list[str]) -> None:
    if lines:
        console().print(f"\n  {title}", style="bold")
    for line in lines:
        console().print(f"    {line}", markup=False, soft_wrap=True)


def _print_leaks(leaks: tuple[Leak, ...]) -> None:
    """A map of the first leaking check if it is small, then the largest leaks."""
    from regard.cli.tables import plain_table, print_indented

    first = [leak for leak in leaks if leak.where == leaks[0].where]
    length = 1 + max(max(leak.query, leak.key) for leak in first)
    if length <= MAX_MAP_LENGTH:
        console().print(f"\n  {first[0].where}: ■ row depends on column", style="dim")
        pairs = {(leak.query, leak.key) for leak in first}
        for i in range(length):
            cells = " ".join("■" if (i, j) in pairs else "·" for j in range(length))
            console().print(f"    {cells}", markup=False)
    table = plain_table()
    for heading in ("position", "depends on", "influence", "by", "in"):
        table.add_column(heading, justify="left" if heading in ("by", "in") else "right")
    for leak in sorted(leaks, key=lambda leak: -leak.influence)[:MAX_PAIRS_SHOWN]:
        influence = f"{leak.influence:.2g}"
        table.add_row(str(leak.query), str(leak.key), influence, leak.how, leak.where)
    console().print()
    print_indented(table)
    if len(leaks) > MAX_PAIRS_SHOWN:
        console().print(f"  … {len(leaks):,} leaking pairs in total", markup=False)
