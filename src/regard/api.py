"""The public functions, named as the commands: these parse arguments, call them, and print.

run = regard.train("recipes/mini-gpt.toml")             regard.report(run.folder)
model = regard.load(run.folder)
model.generate(["The list"])                            model.loss(["One sentence."])
outcome = regard.compare("recipes/masking.toml")        outcome.verdicts, outcome.estimates()

A notebook shows runs, studies, evaluations, audits, ledgers, lessons and masks as their pages do.
Progress is shown in a notebook or a terminal unless an `observer` is given; `SILENT` shows none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from regard.adapters import ADAPTERS
from regard.adapters.ledger import ledger as build_ledger
from regard.attention.kinds import ATTENTION
from regard.attention.masks.expression import parse_mask
from regard.attention.masks.mask import MASKS, Mask
from regard.attention.positions import POSITIONS
from regard.audits.audit import Audit
from regard.audits.audit import audit as audit_model
from regard.audits.leaks.permission import Permission, build_permission
from regard.core.catalog import Catalog
from regard.core.errors import UserError
from regard.core.html_display import HtmlDisplay
from regard.core.ledger import Ledger
from regard.core.progress import OnProgress, no_progress
from regard.core.user_files import UserFile, load_user_files
from regard.data.builtin import BUILTIN
from regard.data.corpus import Data, open_corpus
from regard.data.readers.formats import read_records
from regard.data.readers.records import DropCounts, ReadOptions, Record
from regard.data.tokenizers import TOKENIZERS
from regard.evaluation.metrics.metric import METRICS
from regard.interop.export_model import ExportReport
from regard.interop.import_model import ImportReport
from regard.interop.import_model import import_model as import_checkpoint
from regard.models.families import FAMILIES
from regard.objectives import OBJECTIVES
from regard.runs.inspection.inspect import inspect_model
from regard.runs.inspection.inspection import Inspection
from regard.runs.models.base_model import weights_fingerprint
from regard.runs.models.export import export_saved_model
from regard.runs.models.loaded_model import LoadedModel, load_model
from regard.runs.models.model_subject import auditable
from regard.runs.observer import Observer
from regard.runs.preparation.prepare import prepare
from regard.runs.preparation.prepared import PreparedData
from regard.runs.preparation.task import PreparedTask
from regard.runs.recipe import Recipe
from regard.runs.results import EvaluationRecord, ResultsRecord
from regard.runs.run import Run
from regard.runs.train import run_experiment
from regard.runs.validate import Validation, validate_recipe
from regard.tasks import TASKS
from regard.training.interrupt import signals_as_interrupt

if TYPE_CHECKING:
    from rich.console import Console

    from regard.lessons import LessonRun
    from regard.studies.outcome import Outcome


def train(
    recipe: Recipe | str | PathLike[str],
    *,
    out: str | PathLike[str] | None = None,
    resume: bool = False,
    user_files: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    observer: Observer | None = None,
) -> Run:
    """Train a recipe, evaluate the model, and return the run (`runs/<name>` or `out`).

    `user_files` are Python files with parts that the recipe names; the run keeps a copy of them.
    """
    load_parts(user_files)
    if not isinstance(recipe, Recipe):
        recipe = Recipe.load(_path(recipe, "recipe"))
    folder = Path("runs") / recipe.name if out is None else _path(out, "out")
    with _observed_training(observer) as on_training:
        return run_experiment(recipe, folder, resume=resume, observer=on_training)


def validate(
    recipe: Recipe | str | PathLike[str],
    *,
    user_files: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    observer: Observer | None = None,
) -> Validation:
    """Check a recipe and predict its parameters, steps, time and memory, without training.

    Tokenizes the text (cached for training) and times a few updates of a throw-away model.
    """
    load_parts(user_files)
    if not isinstance(recipe, Recipe):
        recipe = Recipe.load(_path(recipe, "recipe"))
    with _observed_training(observer) as on_training:
        return validate_recipe(recipe, runs=Path("runs"), observer=on_training)


def compare(
    study: str | PathLike[str],
    *,
    out: str | PathLike[str] | None = None,
    seeds: Sequence[int] = (),
    jobs: int = 0,
    only: str | Sequence[str] = (),
    user_files: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    observer: Observer | None = None,
) -> Outcome:
    """Train a study's variants with every seed, compare them, and write the report.

    Finished runs are kept: calling it again resumes an interrupted study. `jobs` trainings run in
    parallel, 0: one per CPU core; `seeds` override the study's; of variants that are not in `only`
    no run is trained. The folder of a finished study is read back instead. A study of which no run
    is finished is an error, after its report is written.
    """
    from regard.reports.study_report import write_comparison_report
    from regard.studies.compare import compare as run_study
    from regard.studies.outcome import read_outcome

    study = _path(study, "study")
    out = None if out is None else _path(out, "out")
    only = [only] if isinstance(only, str) else only
    if not isinstance(jobs, int) or jobs < 0:
        raise UserError(f"jobs = {jobs!r}: give how many run in parallel, 0: one per CPU core")
    if not isinstance(seeds, Collection) or not all(isinstance(seed, int) for seed in seeds):
        raise UserError(f"seeds = {seeds!r}: give a list of integers")
    files = _files(user_files)
    load_parts(files)
    if study.is_dir():
        if out is not None or seeds or only:
            raise UserError(
                "is the folder of a study, which is only read: it takes no out, seeds or only",
                topic="study",
                where=str(study),
                hint="Give the study file (TOML) to train.",
            )
        outcome = read_outcome(study)
    else:
        with signals_as_interrupt(), _observed_study(observer) as on_study:
            outcome = run_study(
                study,
                out=out,
                seeds=seeds,
                jobs=jobs,
                only=only,
                user_files=files,
                observer=on_study,
            )
    write_comparison_report(outcome.folder, outcome)
    outcome.check_some_run_is_finished()
    return outcome


def report(
    folder: str | PathLike[str],
    *,
    out: str | PathLike[str] | None = None,
    user_files: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
) -> Path:
    """Write the HTML report of a run or a study to `out`, by default `folder`/report.html.

    Without `out`, a study also gets its tables (Markdown, LaTeX) and charts (SVG, PNG).
    """
    from regard.reports.run_report import write_report
    from regard.reports.study_report import write_comparison_report
    from regard.studies.outcome import read_outcome

    home, page = _path(folder, "folder"), None if out is None else _path(out, "out")
    load_parts(user_files)
    if (home / "study.toml").is_file():
        return write_comparison_report(home, read_outcome(home), out=page)
    return write_report(home, out=page)


def load(
    folder: str | PathLike[str],
    *,
    tokenizer: str | PathLike[str] | None = None,
    base: str | PathLike[str] | None = None,
    user_files: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
) -> LoadedModel:
    """Load a model with its tokenizer from a run folder, a checkpoint, or a model folder.

    `tokenizer` is another path of the tokenizer it was trained with; `base` is the new path of an
    adapter's base model, if it was moved.
    """
    load_parts(user_files)
    return load_model(
        _path(folder, "folder"),
        tokenizer=None if tokenizer is None else _path(tokenizer, "tokenizer"),
        base=None if base is None else _path(base, "base"),
    )


def evaluate(
    run: str | PathLike[str],
    *,
    base: str | PathLike[str] | None = None,
    user_files: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    observer: Observer | None = None,
) -> EvaluationRecord:
    """Evaluate a finished run again, from its recipe: estimates, baselines and remarks."""
    run_folder = Run(_path(run, "run"))
    loaded = load(run, base=base, user_files=user_files)
    if not run_folder.recipe_file.is_file():
        raise UserError(
            f"{run_folder.folder} is a model without its recipe, so its corpus is unknown",
            topic="run",
            hint="Give the run folder it belongs to, such as runs/mini-gpt.",
        )
    with _observed_training(observer) as on_evaluation:
        prepared = prepare(
            run_folder.recipe(),
            tokenizer=loaded.tokenizer,
            task_state=loaded.problem.state() if loaded.problem else None,
            observer=on_evaluation,
        )
        results = run_folder.results()
        _check_same_text(run_folder, results, prepared)
        if isinstance(prepared, PreparedTask) and loaded.problem is not None:
            prepared.problem = loaded.problem  # keeps the thresholds chosen on dev
        evaluated = prepared.evaluate(loaded.model, device="cpu", observer=on_evaluation)
    return EvaluationRecord(
        run=str(run_folder.folder),
        weights=weights_fingerprint(loaded.folder),
        estimates=evaluated.estimates,
        comparisons=evaluated.comparisons,
        audit=results.audit,
        health=results.health,
        remarks=results.remarks,
    )


def predict(
    run: str | PathLike[str] | LoadedModel,
    file: str | PathLike[str],
    *,
    header: bool = True,
    user_files: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    on_progress: OnProgress = no_progress,
) -> list[dict[str, Any]]:
    """Predictions of a task's model for every row of a file, with confidences.

    `at` is the row's location in the file, `record` the row with all its columns. `predicted` is
    None for a row without text.
    """
    path = _path(file, "file")
    loaded = run if isinstance(run, LoadedModel) else load(run, user_files=user_files)
    if loaded.task is None or loaded.problem is None:
        raise UserError(
            f"{loaded.folder} was trained on texts and has no task, so it predicts nothing",
            topic="predict",
            hint="Generate text with `regard generate`, or train a recipe with a [task].",
        )
    task = loaded.task
    columns = task.columns()
    inputs = task.input_columns()
    rows = open_corpus(
        Data(corpus=str(file), header=header),
        columns,
        types=task.column_types(),
        optional=[role for role in columns if role not in inputs],
        settings=task.column_settings(),
    ).all_records()
    answers = loaded.problem.answer(loaded.model, rows, on_progress=on_progress)
    by_location = {row.at: answer for row, answer in zip(rows, answers, strict=True)}
    return [
        {
            **by_location.get(row.at, {"predicted": None}),
            "item": number,
            "at": row.at,
            "record": row,
        }
        for number, row in enumerate(_with_all_columns(path, rows, header=header))
    ]


def _with_all_columns(file: Path, rows: list[Record], *, header: bool) -> Iterable[Record]:
    """The rows of the file with all columns; a built-in corpus has no others."""
    if not file.is_file():
        return rows
    return read_records(file, ReadOptions(columns=None, header=header), DropCounts())


def ledger(
    run: str | PathLike[str] | LoadedModel,
    *,
    base: str | PathLike[str] | None = None,
    user_files: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
) -> Ledger:
    """Every trained tensor of a run, and the closed formula of the parameter count.

    For an imported model: what full fine-tuning would train."""
    loaded = run if isinstance(run, LoadedModel) else load(run, base=base, user_files=user_files)
    saved = loaded.saved
    built = build_ledger(saved.model, saved.adapter, saved.family, vocabulary=saved.vocabulary)
    return replace(built, is_projected="imported" in saved.config)


def import_model(source: str | PathLike[str], out: str | PathLike[str]) -> ImportReport:
    """Import a Hugging Face folder, a GGUF file or `pip:NAME` as a model folder to start from."""
    named = source if isinstance(source, str) else str(_path(source, "source"))
    return import_checkpoint(named, _path(out, "out"))


def export_model(
    run: str | PathLike[str],
    out: str | PathLike[str],
    *,
    merge: bool = False,
    base: str | PathLike[str] | None = None,
    user_files: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
) -> ExportReport:
    """Export a run or a model folder as a folder that transformers loads.

    An adapter is written to `out/adapter` in peft's format; with `merge` it is merged instead.
    """
    path, target = _path(run, "run"), _path(out, "out")
    base_path = None if base is None else _path(base, "base")
    saved = load(path, base=base_path, user_files=user_files).saved
    return export_saved_model(saved, target, path=path, merge=merge, base=base_path)


def inspect(
    run: str | PathLike[str] | LoadedModel,
    text: str,
    *,
    target: str | None = None,
    user_files: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
) -> Inspection:
    """Attention weights of every layer and head on a text, and the loss of each token.

    A seq2seq model takes the text as its source and predicts `target`, or its own generation.
    """
    _check_text(text, "text")
    loaded = run if isinstance(run, LoadedModel) else load(run, user_files=user_files)
    return inspect_model(loaded, text, target=target)


def audit(
    model: Any,
    mask: str | Tensor | Mask | None = None,
    sample: Tensor | None = None,
    *,
    lengths: Sequence[int] | None = None,
    seed: int = 0,
    user_files: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
) -> Audit:
    """Whether a model sees what `mask` forbids, what else changes its outputs, unused parameters.

    `model` is a run folder, a model of regard's, any module or Hugging Face model, or a callable
    from token ids (b,t) or embeddings (b,t,w) to outputs (b,t,…); it is not changed. `mask` is a
    name ("causal", "bidirectional", "prefix:3", …), a (t,t) table or a Mask, True = may attend;
    without one it is the model's `visibility`, else causal. A `sample` of inputs is needed if
    the vocabulary cannot be found. For a callable that hides its module only outputs are compared:
    not its training mode, cache, padding or parameters.
    """
    if isinstance(model, str | PathLike):
        model = load(model, user_files=user_files)
    if isinstance(model, LoadedModel):
        model = model.model
    permission = None if mask is None else _permission(mask)
    model = auditable(model)
    return audit_model(model, mask=permission, sample=sample, seed=seed, lengths=lengths)


def lesson(name: str, /, **parameters: Any) -> LessonRun:
    """Run a lesson: a claim about Transformers, checked by computing it.

    `parameters` are those that the lesson declares, such as `seed`; defaults for the rest.
    """
    from regard.lessons import run_lesson

    _check_text(name, "name")
    return run_lesson(name, **parameters)


def _permission(mask: str | Tensor | Mask) -> Permission:
    """What a mask allows, as a function of the length."""
    if isinstance(mask, Tensor):
        return build_permission(mask)
    if isinstance(mask, Mask):
        # Allowed for one row or head counts as allowed: the audit looks for what none may see.
        return Permission(mask.name, lambda t: mask.dense(t, t).flatten(0, 1).any(dim=0))
    _check_text(mask, "mask")
    return Permission(mask, lambda t: parse_mask(mask, t).dense(t, t)[0, 0])


def _path(value: object, what: str) -> Path:
    """The path that an argument is, a `Run` or an `Outcome` included."""
    if isinstance(value, str | PathLike) and str(value):
        return Path(value)
    given = repr(value) if isinstance(value, str) else f"of type {type(value).__name__}"
    raise UserError(f"{what} is {given}: give a path")


def _check_text(value: object, what: str) -> None:
    if not isinstance(value, str):
        raise UserError(f"{what} is of type {type(value).__name__}: give a text")


def _check_same_text(run: Run, results: ResultsRecord, prepared: PreparedData) -> None:
    splits = results.corpus.splits if results.corpus else {}
    for name, split in prepared.statistics.splits.items():
        before, now = splits[name].fingerprint, split.fingerprint
        if before != now:
            raise UserError(
                f"the text of {run.folder} has changed: its {name} split was {before[:8]}… and "
                f"is {now[:8]}… now, so scores would be of other documents",
                topic="run",
                hint="Put the old text back, or train on the new.",
            )


def load_parts(user_files: str | PathLike[str] | Iterable[str | PathLike[str]]) -> list[UserFile]:
    """Run the user's Python files, so that recipes can name their parts."""
    return load_user_files(_files(user_files), catalogs())


def _files(user_files: str | PathLike[str] | Iterable[str | PathLike[str]]) -> list[Path]:
    """The paths; a lone one is a list of one."""
    if isinstance(user_files, str) or not isinstance(user_files, Iterable):
        user_files = [user_files]
    return [_path(file, "user_files") for file in user_files]


def catalogs() -> list[Catalog]:
    """Every catalogue of named parts."""
    return [
        *(ADAPTERS, ATTENTION, MASKS, POSITIONS, FAMILIES, OBJECTIVES, TASKS, METRICS),
        *(TOKENIZERS, BUILTIN),
    ]


Display = Callable[["Console | None"], AbstractContextManager[Observer]]


def _observed_training(observer: Observer | None) -> AbstractContextManager[Observer]:
    from regard.progress.training_display import training_display

    return _observed(observer, training_display)


def _observed_study(observer: Observer | None) -> AbstractContextManager[Observer]:
    from regard.progress.study_display import study_display

    return _observed(observer, study_display)


@contextmanager
def _observed(observer: Observer | None, display: Display) -> Iterator[Observer]:
    """The given observer, or one that shows progress where someone watches."""
    from regard.progress.bars import default_console

    if observer is not None:
        yield observer
        return
    with display(default_console()) as shown:
        yield shown


def _render_html(result: HtmlDisplay) -> str:
    from regard.reports.fragments import to_html

    return to_html(result)


HtmlDisplay.render_html = _render_html
