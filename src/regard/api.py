"""The public verbs in Python; the commands say the same words and do no more.

run = regard.train("recipes/mini-gpt.toml")
model = regard.load(run.folder)
model.generate(["The list"])        model.loss(["One sentence."])
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.adapters import ADAPTERS
from regard.adapters.ledger import Ledger
from regard.adapters.ledger import ledger as count_trained
from regard.attention.kinds import ATTENTION
from regard.attention.masks.expression import parse_mask
from regard.attention.masks.mask import MASKS, Mask
from regard.attention.positions import POSITIONS
from regard.audits import audit as trust_audit
from regard.audits.audit import Audit
from regard.audits.leaks.permission import Permission, build_permission
from regard.core.catalog import Catalog
from regard.core.errors import UserError
from regard.core.user_files import UserFile, load_user_files
from regard.data.builtin import BUILTIN
from regard.data.corpus import Data
from regard.data.readers.formats import read_records
from regard.data.readers.records import DropCounts, ReadOptions, Record
from regard.data.record_corpus import open_records
from regard.data.tokenizers import TOKENIZERS
from regard.interop.export_model import ExportReport
from regard.interop.import_model import ImportReport
from regard.interop.import_model import import_model as exchange_import
from regard.models.families import FAMILIES
from regard.objectives import OBJECTIVES
from regard.runs.inspection.inspect import inspect_model
from regard.runs.inspection.inspection import Inspection
from regard.runs.models.base_model import weights_fingerprint
from regard.runs.models.export import export_saved
from regard.runs.models.loaded_model import LoadedModel, load_model
from regard.runs.observer import SILENT, Observer
from regard.runs.preparation.prepare import prepare
from regard.runs.preparation.prepared import PreparedData
from regard.runs.preparation.task import PreparedTask
from regard.runs.recipe import Recipe
from regard.runs.run import Run
from regard.runs.train import run_experiment
from regard.tasks import TASKS, OnProgress, ignore_progress


def train(
    recipe: Recipe | str | Path,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    own_files: Sequence[str | Path] = (),
    watch: Observer = SILENT,
) -> Run:
    """Train a recipe, measure the result, and give its run folder (`runs/<name>` or `out`).

    `own_files` are Python files with parts that the recipe names; the run keeps a copy of them.
    """
    load_parts(own_files)
    if not isinstance(recipe, Recipe):
        recipe = Recipe.load(recipe)
    folder = Path(out) if out is not None else Path("runs") / recipe.name
    return run_experiment(recipe, folder, resume=resume, watch=watch)


def load(
    folder: str | Path,
    *,
    tokenizer: str | Path | None = None,
    base: str | Path | None = None,
    own_files: Sequence[str | Path] = (),
) -> LoadedModel:
    """A model with its tokenizer, from a run folder, a checkpoint, a `final` or imported folder.

    `tokenizer` names another file to use; it has to be the one the model was trained with. `base`
    is where the base of an adapter lies now, if it was moved.
    """
    load_parts(own_files)
    return load_model(Path(folder), tokenizer=tokenizer, base=None if base is None else Path(base))


def evaluate(
    run: str | Path,
    *,
    base: str | Path | None = None,
    own_files: Sequence[str | Path] = (),
    watch: Observer = SILENT,
) -> dict[str, Any]:
    """Measure a finished run again, from its own recipe: figures with baselines, and remarks."""
    home = Run(Path(run))
    loaded = load(run, base=base, own_files=own_files)
    if not home.recipe_file.is_file():
        raise UserError(
            f"{run} is a model without its recipe, so its corpus is not known",
            topic="run",
            hint="Give the run folder it belongs to, such as runs/mini-gpt.",
        )
    recipe = home.recipe()
    prepared = prepare(
        recipe,
        tokenizer=loaded.tokenizer,
        learnt=loaded.problem.state() if loaded.problem else None,
        watch=watch,
    )
    _refuse_other_text(home, prepared)
    if isinstance(prepared, PreparedTask) and loaded.problem is not None:
        prepared.problem = loaded.problem  # with what was chosen on dev, which stays as it was
    measured = prepared.measure(loaded.model, device="cpu", watch=watch)
    return {
        "run": str(run),
        "figures": measured.figures,
        "comparisons": measured.comparisons,
        "audit": home.figures().get("audit"),
        "remarks": home.figures()["remarks"],
        "weights": weights_fingerprint(loaded.folder),
    }


def predict(
    run: str | Path | LoadedModel,
    file: str | Path,
    *,
    header: bool = True,
    own_files: Sequence[str | Path] = (),
    on_progress: OnProgress = ignore_progress,
) -> list[dict[str, Any]]:
    """What a task's model answers to every row of a file, with how sure it is.

    `at` says where in the file a row stands, `record` is the row with all its columns. A row whose
    text is empty has None as `predicted`.
    """
    loaded = run if isinstance(run, LoadedModel) else load(run, own_files=own_files)
    if loaded.task is None or loaded.problem is None:
        raise UserError(
            f"{loaded.folder} was trained on texts and has no task, so it answers nothing",
            topic="predict",
            hint="Let it write with `regard generate`, or train a recipe with a [task].",
        )
    task = loaded.task
    columns = task.columns()
    asked = task.input_columns()
    rows = open_records(
        Data(corpus=str(file), header=header),
        columns,
        types=task.column_types(),
        optional=[role for role in columns if role not in asked],
        settings=task.column_settings(),
    ).all_records()
    answers = loaded.problem.answer(loaded.model, rows, on_progress=on_progress)
    answered = {row.at: answer for row, answer in zip(rows, answers, strict=True)}
    return [
        {**answered.get(row.at, {"predicted": None}), "item": number, "at": row.at, "record": row}
        for number, row in enumerate(_with_all_columns(Path(file), rows, header=header))
    ]


def _with_all_columns(file: Path, rows: list[Record], *, header: bool) -> Iterable[Record]:
    """Every row of the file as it stands there; a built-in set has no columns but what is read."""
    if not file.is_file():
        return rows
    return read_records(file, ReadOptions(columns=None, header=header), DropCounts())


def ledger(
    run: str | Path, *, base: str | Path | None = None, own_files: Sequence[str | Path] = ()
) -> Ledger:
    """Every tensor that a run trained, and the closed formula that says how many numbers it is.

    Of an imported model it is what a training of all of it would train."""
    saved = load(run, base=base, own_files=own_files).saved
    counted = count_trained(saved.model, saved.adapter, saved.family, vocabulary=saved.vocabulary)
    return replace(counted, is_projected="imported" in saved.config)


def import_model(source: str | Path, out: str | Path) -> ImportReport:
    """A model folder from a Hugging Face folder, a GGUF file or `pip:NAME`, to start from."""
    return exchange_import(str(source), Path(out))


def export_model(
    run: str | Path,
    out: str | Path,
    *,
    merge: bool = False,
    base: str | Path | None = None,
    own_files: Sequence[str | Path] = (),
) -> ExportReport:
    """A folder that transformers loads, from a run or a model folder.

    An adapter lies in `out/adapter`, as peft reads it; with `merge` it is one with its base.
    """
    place = None if base is None else Path(base)
    saved = load(run, base=place, own_files=own_files).saved
    return export_saved(saved, Path(out), place=Path(run), merge=merge, base=place)


def inspect(
    run: str | Path | LoadedModel,
    text: str,
    *,
    target: str | None = None,
    own_files: Sequence[str | Path] = (),
) -> Inspection:
    """What a model attends to in a text, in every layer and head, and the loss of each token.

    A model with a source reads the text as its source, and tells `target` or what it would write.
    """
    loaded = run if isinstance(run, LoadedModel) else load(run, own_files=own_files)
    return inspect_model(loaded, text, target=target)


def audit(
    model: Any,
    mask: str | Tensor | Mask | None = None,
    sample: Tensor | None = None,
    *,
    lengths: Sequence[int] | None = None,
    seed: int = 0,
    own_files: Sequence[str | Path] = (),
) -> Audit:
    """Whether a model sees what `mask` forbids, what else changes its outputs, what cannot learn.

    `model` is a run folder, a model of regard's, any module or Hugging Face model, or a callable
    from token ids (b,t) or vectors (b,t,w) to outputs (b,t,…); it is left as it was. `mask` is a
    name ("causal", "bidirectional", "prefix:3", …), a (t,t) table or a Mask, True = may attend;
    without one it is what the model says it `sees`, else causal. A `sample` of inputs is needed
    where the vocabulary cannot be found. Of a callable that hides its module only the outputs can
    be compared: not its training mode, cache, padding or parameters.
    """
    if isinstance(model, str | Path):
        model = load(model, own_files=own_files)
    if isinstance(model, LoadedModel):
        model = model.model
    permission = None if mask is None else _permission(mask)
    return trust_audit.audit(model, mask=permission, sample=sample, seed=seed, lengths=lengths)


def _permission(mask: str | Tensor | Mask) -> Permission:
    """What a mask lets through, at every length it can be written out for."""
    if isinstance(mask, Tensor):
        return build_permission(mask)
    if isinstance(mask, Mask):
        # What one row or one head may see counts as allowed: the audit asks what no path may.
        return Permission(mask.name, lambda t: mask.dense(t, t).flatten(0, 1).any(dim=0))
    return Permission(mask, lambda t: parse_mask(mask, t).dense(t, t)[0, 0])


def _refuse_other_text(run: Run, prepared: PreparedData) -> None:
    then = run.figures()["corpus"]["splits"]
    for name, part in prepared.statistics["splits"].items():
        before, now = then[name]["fingerprint"], part["fingerprint"]
        if before != now:
            raise UserError(
                f"the text of {run.folder} has changed: its {name} part was {before[:8]}… and "
                f"is {now[:8]}… now, so figures would speak of other documents",
                topic="run",
                hint="Put the old text back, or train on the new.",
            )


def load_parts(own_files: Iterable[str | Path]) -> list[UserFile]:
    """Run Python files of one's own, whose parts recipes can then name."""
    return load_user_files(own_files, catalogs())


def catalogs() -> list[Catalog]:
    """Every catalogue of named parts."""
    return [ADAPTERS, ATTENTION, MASKS, POSITIONS, FAMILIES, OBJECTIVES, TASKS, TOKENIZERS, BUILTIN]
