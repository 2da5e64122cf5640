"""Instead of trainings: run folders whose losses are drawn, in no time."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
from tests.reports.synthetic_study import CLEAN
from tests.synthetic_run import results_table

from regard.core.json_records import record_table
from regard.studies.engines.local import JobResult

DOCUMENTS = 40


@cache
def results_text():
    table = results_table(model=118.4, kneser_ney=104.1, unigram=412.0)
    return json.dumps(table | {"audit": record_table(CLEAN)})


class DrawnTrainings:
    """An engine that draws losses instead of training, and remembers what it was to train."""

    def __init__(self):
        self.better_by = {}
        "Nats per document by which a variant is better, or a function of the seed."
        self.fails = set()
        "(variant, seed)"
        self.trained = []
        self.remarks = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def start(self, jobs):
        pass

    def efficiency(self):
        return None

    def run_jobs(self, jobs):
        return [self.run(job) for job in jobs]

    def run(self, job):
        if (job.folder / "results.json").exists():
            return JobResult(job)
        self.trained.append((job.variant, job.seed))
        if (job.variant, job.seed) in self.fails:
            return JobResult(job, "out of memory")
        (job.folder / "items").mkdir(parents=True)
        (job.folder / "results.json").write_text(results_text())
        (job.folder / "recipe.toml").write_text("")
        better = self.better_by.get(job.variant, 0.0)
        better = better(job.seed) if callable(better) else better
        nats = np.random.default_rng(9).normal(80, 10, DOCUMENTS)
        noise = np.random.default_rng([job.seed, len(job.variant)]).normal(-better, 0.3)
        for split in ("train", "dev", "test"):
            rows = [
                {"item": n, "nats": value + noise, "tokens": 20, "bytes": 90}
                for n, value in enumerate(nats)
            ]
            (job.folder / "items" / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        return JobResult(job)

    def seeds(self, variant):
        return [seed for name, seed in self.trained if name == variant]
