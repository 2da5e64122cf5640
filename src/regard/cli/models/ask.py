"""`regard ask`: answer a question with a recall model, with its confidence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.completion import complete_run
from regard.cli.console import AsJson, Base, UserFiles, console, print_json, side_console
from regard.core.errors import UserError

if TYPE_CHECKING:
    from regard.runs.ask import Answer
    from regard.tasks.qa.answer_file import PairFile
    from regard.tasks.qa.lookup_table import LookupTable


def ask(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", autocompletion=complete_run, help="Run folder of a recall task."
        ),
    ],
    question: Annotated[
        str, typer.Argument(metavar="QUESTION", help='The question: "Where was … born?"')
    ],
    table: Annotated[
        Path | None,
        typer.Option(
            help="Look up uncertain answers here: CSV, TSV, JSON lines, Parquet or SQLite."
        ),
    ] = None,
    key: Annotated[str | None, typer.Option(help="Column of names in --table.")] = None,
    value: Annotated[str | None, typer.Option(help="Column of answers in --table.")] = None,
    subject: Annotated[
        str | None, typer.Option(help="Subject, if the task's pattern does not match.")
    ] = None,
    learn: Annotated[
        Path | None,
        typer.Option(help="Prompt you for unknown answers and append them to this TSV or CSV."),
    ] = None,
    base: Base = None,
    user_files: UserFiles = None,
    as_json: AsJson = False,
) -> None:
    """Ask a recall model a question.

    It answers from memory, from a table, or with "I don't know"."""
    from regard import api
    from regard.runs.ask import ask as ask_model
    from regard.tasks.qa.recall import RecallProblem

    _check_question(question)
    lookup_table = _open_table(table, key=key, value=value)
    loaded = api.load(run, base=base, user_files=user_files or ())
    problem = loaded.problem
    if not isinstance(problem, RecallProblem):
        raise UserError(
            f"{run} was not trained to answer from memory",
            topic="ask",
            hint='Give a run whose recipe has [task] kind = "recall".',
        )
    pairs = _open_pairs(learn, question=problem.task.question, answer=problem.task.answer)
    answer = ask_model(problem, loaded.model, question, subject=subject, table=lookup_table)
    if as_json:
        taught = {} if pairs is None else {"taught": _prompt_for_answer(pairs, answer)}
        print_json(answer.as_dict() | taught)
        return
    _print(answer)
    if pairs is not None:
        _prompt_for_answer(pairs, answer)


def _check_question(question: str) -> None:
    if question != question.encode(errors="replace").decode():
        raise UserError("the question is not valid UTF-8", topic="ask", hint="Type it again.")
    if not question.strip():
        raise UserError("the question is empty", topic="ask", hint="Ask something.")


def _open_table(file: Path | None, *, key: str | None, value: str | None) -> LookupTable | None:
    from regard.tasks.qa.lookup_table import LookupTable

    if file is None:
        if key is not None or value is not None:
            raise UserError("--key and --value name columns of --table, which is not given")
        return None
    table = LookupTable(file, key, value)
    table.check()
    return table


def _open_pairs(file: Path | None, *, question: str, answer: str) -> PairFile | None:
    """Check the file before the user types an answer."""
    from regard.tasks.qa.answer_file import PairFile

    if file is None:
        return None
    pairs = PairFile(file, question, answer)
    pairs.check()
    return pairs


def _prompt_for_answer(pairs: PairFile, answer: Answer) -> str | None:
    """Prompt for the answer to an unanswered or guessed question, and store it."""
    if answer.answer is not None and not answer.guess:
        return None
    try:
        # On standard error: a pipe gets only the model's answer. An empty line skips.
        text = typer.prompt(
            f"  What is the answer to “{answer.question}”? (Enter to skip)",
            default="",
            show_default=False,
            err=True,
        )
    except typer.Abort:  # no terminal
        text = ""
    if not text.strip():
        side_console().print("  nothing was stored")
        return None
    pairs.append(answer.question, text)
    side_console().print(f"  stored in {pairs.file} for the next fine-tuning", markup=False)
    return str(text).strip()


def _print(answer: Answer) -> None:
    from rich.text import Text

    text = answer.answer if answer.answer is not None else "I don't know."
    lines = [Text(f"  {text}", style="bold"), Text(f"  {answer.reason}")]
    lines += [Text(f"  {line}", style="dim") for line in _confidence_lines(answer)]
    for line in lines:
        console().print(line, soft_wrap=True)


def _confidence_lines(answer: Answer) -> list[str]:
    """The model's confidence, and the accuracy on dev at that confidence."""
    agreement = (
        "" if answer.agreement is None else f", {100 * answer.agreement:.0f} % of samples agree"
    )
    prediction = f"the model says {answer.predicted!r}: probability {answer.probability:.3g}"
    lines = [prediction + agreement]
    if answer.threshold is None:
        lines.append("no threshold was chosen yet, so it always answers")
    else:
        how = "at least" if answer.confidence >= answer.threshold else "below"
        lines.append(
            f"{answer.confidence_kind} {answer.confidence:.3g} is {how} the threshold "
            f"{answer.threshold:.3g}, which was chosen on dev"
        )
    reliability = answer.reliability
    if reliability is not None:
        lines.append(
            f"on dev {100 * reliability.accuracy:.0f} % [{100 * reliability.accuracy_low:.0f}, "
            f"{100 * reliability.accuracy_high:.0f}] of the {reliability.n:,} answers with "
            f"confidence {reliability.low:.1f} to {reliability.high:.1f} were right"
        )
    elif answer.guess:
        lines.append("the accuracy on dev says nothing about a guess")
    elif answer.threshold is not None:
        lines.append("no answer on dev had this confidence, so its accuracy is unknown")
    if answer.seen is None:
        lines.append("whether its pretraining text names the subject is unknown")
    return lines
