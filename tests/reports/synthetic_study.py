"""A synthetic study: an outcome and its run folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from tests.synthetic_run import HOSTILE, all_estimates, event_lines, results_table

from regard.audits.findings import Leak
from regard.core.json_records import record_table, write_record
from regard.reports.evidence import Evidence, read_evidence
from regard.runs.inspection.inspection import AttentionMap, Inspection
from regard.runs.inspection.inspection import TokenRow as TokenRow
from regard.runs.results import AuditRecord, SampleRecord, ScoreRecord, write_audit
from regard.studies.inspections import ProbeInspection
from regard.studies.outcome import (
    Outcome,
    ProbeOutcome,
    RunOutcome,
    VariantOutcome,
    VerdictOutcome,
    read_outcome,
    write_outcome,
)
from regard.studies.seed_spread import SeedSpread

CLEAN = AuditRecord(verdict="clean", sentence="clean: nothing seen")
LEAK = AuditRecord(
    verdict="leak",
    sentence="sees the future: position 7 reacts to tokens 8, 9, 11 (largest influence 0.31)",
    broken=("zero-masked: the mask comes after the softmax",),
)
PERPLEXITIES = {"dot": 118.4, "additive": 116.5, "zero-masked": 61.0}


def recipe_of(name: str, kind: str, lr: float) -> str:
    return (
        f'name = "{name}"\n[model]\nwidth = 48\nattention = {{ kind = "{kind}" }}\n'
        f"[train]\nlr = {lr}\nseed = 0\n"
    )


def spread(value: float, seeds: int) -> SeedSpread:
    per_seed = tuple(value + 0.4 * (seed - (seeds - 1) / 2) for seed in range(seeds))
    low, high = (value - 4.5, value + 4.8) if seeds > 1 else (None, None)
    return SeedSpread(value, low, high, per_seed, 2104, "documents")


def variant_of(name: str, *, seeds: int, lr: float = 5e-4) -> VariantOutcome:
    perplexity, kind = PERPLEXITIES[name], name
    return VariantOutcome(
        name,
        {} if name == "dot" else {"model.attention.kind": kind},
        runs=[RunOutcome(seed, f"{name}/seed-{seed}") for seed in range(seeds)],
        parameters=1_130_000,
        steps=1200,
        tokens=412_318,
        operations=3.2e9,
        seconds=41.2,
        tokens_per_second=9950.0,
        peak_memory_bytes=612_000_000,
        final_loss=4.71,
        estimates={
            "train.perplexity": spread(perplexity * 0.93, seeds),
            "dev.perplexity": spread(perplexity, seeds),
            "test.perplexity": spread(perplexity * 1.02, seeds),
        },
        audit=LEAK if name == "zero-masked" else CLEAN,
        samples=[
            SampleRecord(prompt="The return value", text=f"of {name} is a string."),
            SampleRecord(prompt=HOSTILE, text=HOSTILE),
        ],
        probes=[ProbeOutcome(HOSTILE, loss=4.5, perplexity=90.0, per_seed=(4.4, 4.6))],
        recipe=recipe_of(name, kind, lr),
    )


def judged(score_key: str, **changes: Any) -> VerdictOutcome:
    fields = {
        "sentence": "not distinguishable at this size",
        "notes": ("additive − dot: −1.9 [−6.0, +2.2], n = 2,104, seeds = 5",),
        "better": "",
        "value": -1.9,
        "low": -6.0,
        "high": 2.2,
        "per_seed": (-1.0, -3.0, 0.5, -4.0, -2.0),
        "n": 2104,
        "seeds": 5,
        "scope": "the methods",
    }
    return VerdictOutcome(score_key, "additive", "dot", **(fields | changes))


def outcome_with(*names: str, seeds: int = 5, **changes: Any) -> Outcome:
    variants = [variant_of(name, seeds=seeds) for name in names]
    baselines = [
        ScoreRecord.model_validate(row)
        for row in all_estimates(100.0, kneser_ney=104.1, unigram=412.0)
        if row["of"] != "model" and row["split"] != "train"
    ]
    verdicts = []
    for score_key in ("dev.perplexity", "test.perplexity"):
        if "additive" in names:
            verdicts.append(judged(score_key))
        if "zero-masked" in names:
            why = ("zero-masked could see what it had to predict",)
            verdicts.append(
                VerdictOutcome(score_key, "zero-masked", "dot", "not compared", why, "")
            )
    fields: dict[str, Any] = {
        "name": "dot-vs-additive",
        "question": f"Does additive attention predict better? {HOSTILE}",
        "decides": "dev.perplexity",
        "reference": "dot",
        "seeds": tuple(range(seeds)),
        "budget": "steps",
        "tuned": (),
        "variants": variants,
        "verdicts": verdicts,
        "baselines": baselines,
        "unequal": [],
        "invalid": [
            f"{one.name} {one.audit.sentence}; its perplexity 61 means nothing"
            for one in variants
            if not one.is_valid
        ],
        "missing": [],
        "remarks": [],
        "command": "regard compare recipes/dot-vs-additive.toml --seeds 0,1,2,3,4",
    }
    return Outcome(**(fields | changes))


def write_runs(home: Path, outcome: Outcome, **changes: Any) -> None:
    """Write the run folders of an outcome, and the study's own files."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "study.toml").write_text('base = "mini-gpt.toml"\n')
    for variant in outcome.variants:
        for run in variant.runs:
            folder = home / run.folder
            folder.mkdir(parents=True)
            baselines = {"kneser_ney": 104.1, "unigram": 412.0}
            model = PERPLEXITIES[variant.name] + 0.4 * run.seed
            audit = record_table(variant.audit)
            table = results_table(model=model, **baselines) | {"audit": audit} | changes
            (folder / "results.json").write_text(json.dumps(table))
            (folder / "events.jsonl").write_text("\n".join(event_lines(200)) + "\n")
            (folder / "recipe.toml").write_text(variant.recipe)
            if not variant.is_valid:
                leaks = tuple(
                    Leak(query=7, key=key, influence=0.31 / key, how="gradient", where="length 12")
                    for key in (8, 9, 11)
                )
                write_audit(folder / "audit.json", LEAK.model_copy(update={"leaks": leaks}))
    write_inspections(home, outcome)
    write_outcome(home, outcome)  # last: it seals them


def write_inspections(home: Path, outcome: Outcome) -> None:
    """For the first probe: attention of the reference, and a refusal for the other variants."""
    row = TokenRow((1, 2), ("a", HOSTILE))
    weights = np.array([[[1.0, 0.0], [0.3, 0.7]]])
    attention = AttentionMap(name="block.0.attention", queries="row", keys="row", weights=weights)
    inspection = Inspection(text="a b", row=row, source=None, losses=(), attention=(attention,))
    (home / "inspections").mkdir(exist_ok=True)
    for variant in outcome.variants:
        if variant.name == outcome.reference:
            found = ProbeInspection(variant=variant.name, text="a b", inspection=inspection)
        else:
            reason = f"{variant.name} has no weights"
            found = ProbeInspection(variant=variant.name, text="a b", reason=reason)
        file = home / "inspections" / f"{variant.name}-probe0.json"
        write_record(file, found, schema=2)


def evidence_of(home: Path, outcome: Outcome, **changes: Any) -> Evidence:
    write_runs(home, outcome, **changes)
    return read_evidence(home, read_outcome(home))
