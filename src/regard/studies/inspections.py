"""Attention maps of every variant on a study's first probe sentences, computed once and stored.

    runs/<study>/inspections/<variant>-probe0.json

Reports draw these files without running a model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.core.files import atomic_folder, read_json, write_json
from regard.core.printable import printable
from regard.runs.inspection.inspect import inspect_model
from regard.runs.inspection.inspection import SCHEMA, Inspection
from regard.runs.models.loaded_model import load_model
from regard.studies.outcome import Outcome, VariantOutcome

FOLDER = "inspections"
MAX_PROBES = 4


@dataclass(frozen=True)
class ProbeInspection:
    """The inspection of a variant's first seed on one probe sentence, or why there is none."""

    variant: str
    text: str
    inspection: Inspection | None
    reason: str = ""


def store_inspections(outcome: Outcome, texts: Sequence[str], *, home: Path) -> None:
    """Inspect every variant's first finished run and store the results in the study's folder."""
    if not texts:
        return
    with atomic_folder(home / FOLDER) as folder:
        for variant in outcome.variants:
            for number, table in enumerate(_inspect(variant, texts[:MAX_PROBES], home=home)):
                write_json(folder / _file_name(variant.name, number), table)


def read_inspections(home: Path, outcome: Outcome) -> list[ProbeInspection]:
    """The stored inspections, probe by probe; control characters in texts are made visible."""
    inspections = []
    for number in range(MAX_PROBES):
        for variant in outcome.variants:
            file = home / FOLDER / _file_name(variant.name, number)
            if not file.is_file():
                continue
            table = printable(read_json(file, schema=SCHEMA))
            reason = table.get("refused", "")
            inspection = None if reason else Inspection.from_dict(table)
            inspections.append(ProbeInspection(variant.name, table["text"], inspection, reason))
    return inspections


def _inspect(
    variant: VariantOutcome, texts: Sequence[str], *, home: Path
) -> Iterator[dict[str, Any]]:
    run = next((run for run in variant.runs if not run.reason), None)
    if run is None:
        return
    for text in texts:
        try:
            yield inspect_model(load_model(home / run.folder), text).as_dict()
        except UserError as problem:  # no attention, no weights, or an unknown kind
            yield {"schema": SCHEMA, "text": text, "refused": str(problem)}


def _file_name(variant: str, number: int) -> str:
    return f"{variant}-probe{number}.json"
