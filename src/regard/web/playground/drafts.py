"""Drafts: the text of a prompt and a chain of branches.

    go on from the prompt; cut before a position, put another token there, go on again; …

Each draft of a chain is kept, so that one more branch costs one continuation.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from regard.core.errors import UserError
from regard.data.record_corpus import Record
from regard.generation.generate import Strategy
from regard.models.blocks.head_ablation import Head
from regard.runs.inspection.continuation import DecodedRow, continue_row, prompt_row
from regard.runs.models.loaded_model import LoadedModel
from regard.tasks.text_generation.text_to_text import TextToTextProblem
from regard.web.playground.models import Key

MAX_ROW = 2048
"Tokens of a text with all its branches."
MAX_DRAFTS = 256

Origin = Literal["prompt", "chosen", "written"]
Branch = tuple[int, int]
"A position, counted without the start token, and the token that is put there."


class Draft(NamedTuple):
    """A row, whether the model ended it, and where each token but the first comes from."""

    row: DecodedRow
    stopped: bool
    origins: tuple[Origin, ...]


class Writing(NamedTuple):
    """What decides a text besides the model."""

    prompt: str
    strategy: Strategy
    max_new_tokens: int
    seed: int


class Drafts:
    """Those made last, by everything that decides them."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Any, ...], Draft] = OrderedDict()

    def write(
        self,
        loaded: LoadedModel,
        writing: Writing,
        branches: Sequence[Branch],
        *,
        key: Key,
        off: Sequence[Head],
    ) -> Draft:
        """The text of a whole chain; `off` are the heads that the caller has switched off."""
        draft = _first(loaded, writing.prompt)
        for number in range(len(branches) + 1):
            if number:
                draft = _branch(draft, branches[number - 1], loaded)
            if not draft.stopped:
                name = (key, writing, tuple(off), tuple(branches[:number]))
                if name not in self._kept:
                    self._kept[name] = _go_on(draft, loaded, writing)
                self._kept.move_to_end(name)
                draft = self._kept[name]
        while len(self._kept) > MAX_DRAFTS:
            self._kept.popitem(last=False)
        return draft


def _first(loaded: LoadedModel, prompt: str) -> Draft:
    """The row that a prompt begins; a task's model is given its source as in the training."""
    row = prompt_row(loaded.model, loaded.tokenizer, prompt)
    if isinstance(problem := loaded.problem, TextToTextProblem):
        [role] = problem.task.input_columns()
        ids = tuple(problem.source_ids(Record({role: prompt})))
        row = row._replace(source=ids) if row.source else DecodedRow(ids, len(ids))
    return Draft(row, False, _origins("prompt", len(row.ids) - 1))


def _go_on(before: Draft, loaded: LoadedModel, writing: Writing) -> Draft:
    row = before.row
    if len(row.ids) + writing.max_new_tokens > MAX_ROW:
        raise UserError(
            f"the text would be longer than {MAX_ROW:,} tokens",
            topic="playground",
            hint="Begin again with a shorter prompt.",
        )
    generated = continue_row(
        loaded.model,
        loaded.tokenizer,
        row,
        strategy=writing.strategy,
        max_new_tokens=writing.max_new_tokens,
        seed=writing.seed,
    )
    ids = (*row.ids, *generated.ids)
    origins = (*before.origins, *_origins("written", len(generated.ids)))
    return Draft(row._replace(ids=ids), generated.stopped, origins)


def _branch(draft: Draft, branch: Branch, loaded: LoadedModel) -> Draft:
    position, token = branch
    if position >= len(draft.row.ids) or token >= loaded.model.body.vocabulary:
        raise UserError(
            f"there is no token {token} to put at position {position}", topic="playground"
        )
    before, origins = draft.row.ids[: 1 + position], draft.origins[:position]
    if token == loaded.tokenizer.require("stop"):
        row = draft.row._replace(ids=before, given=min(draft.row.given, len(before)))
        return Draft(row, True, origins)
    ids = (*before, token)
    row = draft.row._replace(ids=ids, given=len(ids))
    return Draft(row, False, (*origins, "chosen"))


def _origins(origin: Origin, count: int) -> tuple[Origin, ...]:
    return (origin,) * count
