"""Commands that cannot be parsed, as one sentence: what was meant, if another name says it.

Settings of a recipe are no options: `--epochs 3` is answered with `--set train.epochs=…`.
"""

from __future__ import annotations

import sys
from typing import Any

from regard.core.errors import closest

MEANT_COMMANDS = {
    name: command
    for command, names in {
        "train": "fit finetune fine-tune run start pretrain resume",
        "evaluate": "eval test score",
        "new": "init create setup recipe",
        "ls": "list show models",
        "predict": "infer inference classify",
        "generate": "sample complete chat",
        "import": "download convert load",
        "export": "save upload push",
        "runs": "history experiments status",
        "--version": "version",
        "--help": "help man",
    }.items()
    for name in names.split()
}


def usage_error(problem: BaseException) -> str | None:
    """A command that cannot be parsed, as one sentence; None for other errors."""
    if not hasattr(problem, "format_message"):  # Typer's, whose class has no public name
        return None
    if type(problem).__name__ == "NoArgsIsHelpError":
        return str(problem.format_message())
    context = getattr(problem, "ctx", None)
    command = context.command_path if context is not None else "regard"
    what = " ".join(problem.format_message().split()).partition(", unable to parse")[0]
    what = what.partition(" (Possible options")[0].partition(" Did you mean")[0].rstrip(".?")
    what = what.replace("Input should be a valid", "give an" if "integer" in what else "give a")
    hint = _hint(problem, context, what)
    sentence = f"{command}: {what[:1].lower()}{what[1:]}"
    if hint.startswith(" — "):
        return f"{sentence}{hint} `{command} --help` says what it takes."
    return f"{sentence}. {hint or f'`{command} --help` says what it takes.'}"


def _hint(problem: BaseException, context: Any, what: str) -> str:
    if context is None:
        return ""
    options = [one for parameter in context.command.params for one in parameter.opts]
    if isinstance(option := getattr(problem, "option_name", None), str) and what.startswith("No"):
        return _meant_option(option, options)
    if what.startswith("No such command"):
        return _meant_command(what.split("'")[1], context)
    if what.startswith("Got unexpected extra") and "--set" in sys.argv:
        return "Write a setting as one word, without spaces: --set train.lr=1e-3."
    return ""


def _meant_command(given: str, context: Any) -> str:
    commands = [name for name, one in context.command.commands.items() if not one.hidden]
    meant = MEANT_COMMANDS.get(given.lower())
    if context.parent is None and meant is not None:
        return f" — did you mean regard {meant}?"
    return closest(given, commands)


def _meant_option(given: str, options: list[str]) -> str:
    name = given.lstrip("-").replace("-", "_").lower()
    if len(name) == 1:
        same = [one for one in options if one.lstrip("-").startswith(name)]
        return f" — did you mean {same[0]}?" if len(same) == 1 else ""
    return (_meant_setting(name) if "--set" in options else "") or closest(given, options)


def _meant_setting(name: str) -> str:
    from regard.core.synonyms import INSTEAD, SETTING_TABLES, SYNONYMS, VALUE_HINTS

    for setting in (name, *SYNONYMS.get(name, ())):
        if table := SETTING_TABLES.get(setting):
            value = f" {VALUE_HINTS[name]}" if name in VALUE_HINTS else ""
            return f"A setting is given by --set {table}.{setting}=VALUE, or in the recipe.{value}"
    return f"{INSTEAD[name][:1].upper()}{INSTEAD[name][1:]}." if name in INSTEAD else ""
