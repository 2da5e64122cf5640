"""`regard ask`: a question to a model that recalls, with an answer that says how sure it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.console import AsJson, Base, OwnFiles, console, print_json, side_console
from regard.core.errors import UserError

if TYPE_CHECKING:
    from regard.runs.ask import Answer
    from regard.tasks.qa.answer_file import PairFile
    from regard.tasks.qa.lookup_table import LookupTable


def ask(
    run: Annotated[Path, typer.Argument(help="A run folder of a recall task.")],
    question: Annotated[str, typer.Argument(help='The question: "Where was … born?"')],
    table: Annotated[
        Path | None,
        typer.Option(
            help="A CSV, TSV, JSON lines, Parquet or SQLite file for what it is unsure of."
        ),
    ] = None,
    key: Annotated[str | None, typer.Option(help="The table's column of names.")] = None,
    value: Annotated[str | None, typer.Option(help="The table's column of answers.")] = None,
    subject: Annotated[
        str | None, typer.Option(help="Whom it is about, where the task's pattern does not tell.")
    ] = None,
    learn: Annotated[
        Path | None,
        typer.Option(
            help="Ask you for what it does not know, and keep the pair in this TSV or CSV."
        ),
    ] = None,
    base: Base = None,
    own_files: OwnFiles = None,
    as_json: AsJson = False,
) -> None:
    """Answer a question from memory, look it up, or say "I don't know"; and say which."""
    from regard import api
    from regard.runs.ask import ask as ask_model
    from regard.tasks.qa.recall import RecallProblem

    _check_words(question)
    looked_up = _table(table, key=key, value=value)
    loaded = api.load(run, base=base, own_files=own_files or ())
    problem = loaded.problem
    if not isinstance(problem, RecallProblem):
        raise UserError(
            f"{run} was not trained to answer from memory",
            topic="ask",
            hint='Give a run whose recipe has [task] kind = "recall".',
        )
    kept = _pairs(learn, question=problem.task.question, answer=problem.task.answer)
    answer = ask_model(problem, loaded.model, question, subject=subject, table=looked_up)
    if as_json:
        taught = {} if kept is None else {"taught": _taught(kept, answer)}
        print_json(answer.as_dict() | taught)
        return
    _print(answer)
    if kept is not None:
        _taught(kept, answer)


def _check_words(question: str) -> None:
    if question != question.encode(errors="replace").decode():
        raise UserError("the question is not valid UTF-8", topic="ask", hint="Type it anew.")
    if not question.strip():
        raise UserError("the question is empty", topic="ask", hint="Ask something.")


def _table(file: Path | None, *, key: str | None, value: str | None) -> LookupTable | None:
    from regard.tasks.qa.lookup_table import LookupTable

    if file is None:
        if key is not None or value is not None:
            raise UserError("--key and --value name columns of --table, which is not given")
        return None
    table = LookupTable(file, key, value)
    table.check()
    return table


def _pairs(file: Path | None, *, question: str, answer: str) -> PairFile | None:
    """Checked before anything is asked, so that nothing is typed in vain."""
    from regard.tasks.qa.answer_file import PairFile

    if file is None:
        return None
    pairs = PairFile(file, question, answer)
    pairs.check()
    return pairs


def _taught(pairs: PairFile, answer: Answer) -> str | None:
    """What the person says to a question that stayed open or was guessed, once it is kept."""
    if answer.answer is not None and not answer.guess:
        return None
    try:
        # On standard error, so that a pipe gets the answer alone; an empty line skips.
        told = typer.prompt(
            f"  What is the answer to “{answer.question}”? (Enter to skip)",
            default="",
            show_default=False,
            err=True,
        )
    except typer.Abort:  # nobody is there to answer
        told = ""
    if not told.strip():
        side_console().print("  nothing was kept")
        return None
    pairs.keep(answer.question, told)
    side_console().print(f"  kept in {pairs.file} for the next fine-tuning", markup=False)
    return str(told).strip()


def _print(answer: Answer) -> None:
    from rich.text import Text

    said = answer.answer if answer.answer is not None else "I don't know."
    lines = [Text(f"  {said}", style="bold"), Text(f"  {answer.reason}")]
    lines += [Text(f"  {line}", style="dim") for line in _sureness(answer)]
    for line in lines:
        console().print(line, soft_wrap=True)


def _sureness(answer: Answer) -> list[str]:
    """How sure the model is, and what that was worth on dev."""
    drawn = "" if answer.agreement is None else f", {100 * answer.agreement:.0f} % of draws agree"
    lines = [f"the model says {answer.best!r}: probability {answer.probability:.3g}{drawn}"]
    if answer.threshold is None:
        lines.append("no threshold was chosen yet, so it answers always")
    else:
        how = "at least" if answer.confidence >= answer.threshold else "below"
        lines.append(
            f"{answer.measured_by} {answer.confidence:.3g} is {how} the threshold "
            f"{answer.threshold:.3g}, which was chosen on dev"
        )
    sure = answer.as_sure
    if sure is not None:
        lines.append(
            f"on dev {100 * sure.accuracy:.0f} % [{100 * sure.accuracy_low:.0f}, "
            f"{100 * sure.accuracy_high:.0f}] of the {sure.n:,} answers as sure "
            f"({sure.low:.1f} to {sure.high:.1f}) were right"
        )
    elif answer.guess:
        lines.append("how often such answers are right on dev says nothing of a guess")
    elif answer.threshold is not None:
        lines.append("no answer on dev was as sure, so nothing tells how often such are right")
    if answer.seen is None:
        lines.append("whether its pretraining text names the subject is not known")
    return lines
