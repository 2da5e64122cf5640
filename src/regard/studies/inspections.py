"""Attention maps of every variant on a study's first probe sentences, computed once and stored.

    runs/<study>/inspections/<variant>-probe0.json

Reports draw these files without running a model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.core.errors import UserError
from regard.core.files import atomic_folder
from regard.core.json_records import JsonRecord, read_record, write_record
from regard.core.seal import check_sealed
from regard.runs.inspection.inspect import inspect_model
from regard.runs.inspection.inspection import Inspection
from regard.runs.models.loaded_model import load_model
from regard.studies.outcome import Outcome, VariantOutcome

FOLDER = "inspections"
MAX_PROBES = 4
SCHEMA = 2


class ProbeInspection(JsonRecord):
    """The inspection of a variant's first seed on one probe sentence, or why there is none."""

    variant: str
    text: str
    inspection: Inspection | None = None
    reason: str = ""


def store_inspections(outcome: Outcome, texts: Sequence[str], *, home: Path) -> None:
    """Inspect every variant's first finished run and store the results in the study's folder."""
    if not texts:
        return
    with atomic_folder(home / FOLDER) as folder:
        for variant in outcome.variants:
            for number, probe in enumerate(_inspect(variant, texts[:MAX_PROBES], home=home)):
                write_record(folder / _file_name(variant.name, number), probe, schema=SCHEMA)


def read_inspections(home: Path, outcome: Outcome) -> list[ProbeInspection]:
    """The stored inspections, probe by probe; control characters in texts are made visible."""
    return [
        _read(file, variant, number)
        for number in range(MAX_PROBES)
        for variant in outcome.variants
        if (file := home / FOLDER / _file_name(variant.name, number)).is_file()
    ]


def _read(file: Path, variant: VariantOutcome, number: int) -> ProbeInspection:
    """The inspection in a file, or why it cannot be read: the rest of the report does without."""
    hint = "Run the study again: finished runs are kept, and the file is rewritten."
    try:
        check_sealed(file.parents[1], f"{FOLDER}/{file.name}", topic="study", hint=hint)
        return read_record(file, ProbeInspection, schema=SCHEMA, topic="study", hint=hint)
    except UserError as problem:
        text = variant.probes[number].text if number < len(variant.probes) else ""
        return ProbeInspection(variant=variant.name, text=text, reason=str(problem))


def _inspect(
    variant: VariantOutcome, texts: Sequence[str], *, home: Path
) -> Iterator[ProbeInspection]:
    run = next((run for run in variant.runs if not run.reason), None)
    if run is None:
        return
    loaded = None
    for text in texts:
        try:
            loaded = loaded or load_model(home / run.folder)
            inspection = inspect_model(loaded, text)
            yield ProbeInspection(variant=variant.name, text=text, inspection=inspection)
        except UserError as problem:  # no attention, no weights, or an unknown kind
            yield ProbeInspection(variant=variant.name, text=text, reason=str(problem))


def _file_name(variant: str, number: int) -> str:
    return f"{variant}-probe{number}.json"
