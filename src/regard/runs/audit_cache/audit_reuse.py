"""Audits before training, each made once for the same architecture and kept.

    <cache>/audits/<key>.json     only audits that called a model clean

A study trains each variant with many seeds: its first run is audited, the others reuse that and
look at the gradients of their own weights. What the key covers is argued in `audit_key.py`.
"""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from regard.audits.leaks.these_weights import why_not_clean
from regard.core.errors import UserError
from regard.core.json_records import JsonRecord, read_record, write_record
from regard.data.token_cache.cache import cache_home
from regard.runs.audit_cache.audit_key import audit_key
from regard.runs.experiment import Experiment
from regard.runs.results import AuditRecord
from regard.runs.training_audit import audit_before_training, subjects_as_trained

CACHED_AUDIT_SCHEMA = 1


class CachedAudit(JsonRecord):
    """An audit with its key and a checksum over both."""

    key: str
    audited: str
    "When."
    audit: AuditRecord
    sha256: str = ""

    def checksum(self) -> str:
        table: dict[str, Any] = self.model_dump(mode="json", exclude={"sha256"})
        return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()


def audit_or_reuse(experiment: Experiment, *, again: bool = False) -> AuditRecord:
    """The audit as it is saved with the run; an error if training must not start. `again`: also
    where an audit of the same architecture is kept."""
    key = audit_key(experiment)
    if key is not None and not again and (kept := _read(key)) is not None:
        began = time.perf_counter()
        subjects = subjects_as_trained(experiment.model, experiment.loader)
        rows = [(subject, mask, subject.text) for subject, mask in subjects]
        if not any(
            text is None or why_not_clean(subject, text, mask=mask) for subject, mask, text in rows
        ):
            return kept.audit.reused(audited=kept.audited, seconds=time.perf_counter() - began)
    audit = audit_before_training(experiment.model, experiment.recipe.model, experiment.loader)
    if key is not None and audit.verdict == "clean" and audit.is_valid:
        _write(key, audit)
    return audit


def _read(key: str) -> CachedAudit | None:
    """The kept audit; None where there is none, it is damaged, or another key's."""
    with suppress(UserError, OSError):
        kept = read_record(
            _file(key), CachedAudit, schema=CACHED_AUDIT_SCHEMA, topic="audit", hint="Delete it."
        )
        is_intact = kept.key == key and kept.sha256 == kept.checksum()
        return kept if is_intact and kept.audit.verdict == "clean" else None
    return None


def _write(key: str, audit: AuditRecord) -> None:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    kept = CachedAudit(key=key, audited=now, audit=audit)
    file = _file(key)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_record(
        file, kept.model_copy(update={"sha256": kept.checksum()}), schema=CACHED_AUDIT_SCHEMA
    )


def _file(key: str) -> Path:
    return cache_home() / "audits" / f"{key[:32]}.json"
