"""The outcome of a study from its run folders: who is compared, who is not, and why."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tests.reports.synthetic_study import CLEAN, LEAK
from tests.synthetic_run import results_table
from tests.wording import says

from regard.core.json_records import record_table
from regard.core.seal import SEAL
from regard.core.untrusted import read_limited
from regard.evaluation.statistics.divergence import DivergenceCount
from regard.studies.collect import collect_outcome
from regard.studies.engines.job import Job, JobResult
from regard.studies.outcome import VariantOutcome

SEEDS = (0, 1, 2)
DOCUMENTS = 60
ONE_CLASS = "all 200 rows are answered '1', the majority class (62.2 %)"
COLLAPSED = {"predictions": {"collapsed": ONE_CLASS, "n": 200}}
HEALTHY = {"predictions": {"n": 200}}


class StudyFolder:
    """A folder of runs, and the outcome collected from it."""

    def __init__(self, home):
        self.home = home
        self.results = []

    def add(self, variant, *, better_by=0.0, by_seed=lambda seed: {}, seeds=SEEDS):
        """Runs of a variant whose losses are lower by `better_by` nats per document."""
        for seed in seeds:
            folder = self.home / variant / f"seed-{seed}"
            (folder / "items").mkdir(parents=True)
            table = results_table(model=118.4, kneser_ney=104.1, unigram=412.0)
            table |= {"audit": record_table(CLEAN), **by_seed(seed)}
            (folder / "results.json").write_text(json.dumps(table))
            (folder / "recipe.toml").write_text(f"[train]\nseed = {seed}\n")
            noise = np.random.default_rng(seed)
            # The same documents are hard for every variant: what is paired is their difference.
            nats = np.random.default_rng(9).normal(80, 10, DOCUMENTS) - better_by
            for split in ("train", "dev", "test"):
                rows = [
                    {"item": n, "nats": value + noise.normal(0, 0.2), "tokens": 20, "bytes": 90}
                    for n, value in enumerate(nats)
                ]
                text = "\n".join(json.dumps(row) for row in rows)
                (folder / "items" / f"{split}.jsonl").write_text(text)
            table = {"train": {"seed": seed}, "model": {"width": 8}, "name": variant}
            recipe = SimpleNamespace(init_from=None, to_table=lambda table=table: table)
            self.results.append(JobResult(Job(variant, seed, recipe, folder)))

    def collect(self):
        names = list(dict.fromkeys(result.job.variant for result in self.results))
        study = SimpleNamespace(
            name="study",
            question="",
            decides="dev.perplexity",
            all_seeds=SEEDS,
            budget="steps",
            tune={},
            tolerance=0.05,
        )
        loaded = SimpleNamespace(
            study=study,
            reference=SimpleNamespace(name=names[0]),
            variants=[SimpleNamespace(name=name, against=names[0]) for name in names],
        )
        variants = [VariantOutcome(name, {}) for name in names]
        return collect_outcome(loaded, self.results, variants, home=self.home, command="")


@pytest.fixture
def folder(tmp_path):
    return StudyFolder(tmp_path)


def deciding(outcome, variant):
    [found] = [
        one
        for one in outcome.verdicts
        if (one.score_key, one.variant) == (outcome.decides, variant)
    ]
    return found


def test_a_better_variant_is_called_better_and_a_copy_is_not(folder):
    folder.add("dot")
    folder.add("copy")
    folder.add("lower-loss", better_by=4.0)
    outcome = folder.collect()
    assert deciding(outcome, "lower-loss").better == "lower-loss"
    assert deciding(outcome, "lower-loss").high < 0
    copy = deciding(outcome, "copy")
    assert (copy.better, copy.value, copy.seeds, copy.n) == ("", 0.0, 3, DOCUMENTS)
    assert (outcome.missing, outcome.invalid, outcome.unequal) == ([], [], [])


def test_each_file_of_a_run_is_read_once(folder, monkeypatch):
    folder.add("dot")
    folder.add("copy")
    opened = []
    read_text, read_bytes = Path.read_text, Path.read_bytes
    monkeypatch.setattr(
        Path, "read_text", lambda file, **kwargs: opened.append(file) or read_text(file, **kwargs)
    )
    monkeypatch.setattr(Path, "read_bytes", lambda file: opened.append(file) or read_bytes(file))
    monkeypatch.setattr(
        "regard.core.files.read_limited", lambda file: opened.append(file) or read_limited(file)
    )
    assert folder.collect().missing == []
    opened = [file for file in opened if file.name != SEAL]  # beside each
    assert {file.name for file in opened} == {
        *("recipe.toml", "results.json", "train.jsonl", "dev.jsonl", "test.jsonl")
    }
    assert len(opened) == len(set(opened)) == 2 * len(SEEDS) * 5


def test_one_leaking_seed_makes_the_variant_invalid_and_uncompared(folder):
    folder.add("dot")
    leaks = {"audit": record_table(LEAK)}
    folder.add("leaky", better_by=40.0, by_seed=lambda seed: leaks if seed == 1 else {})
    outcome = folder.collect()
    leaky = outcome.variant("leaky")
    assert not leaky.is_valid
    assert leaky.audit.sentence == LEAK.sentence
    [sentence] = outcome.invalid
    assert sentence.startswith("leaky sees the future")
    verdict = deciding(outcome, "leaky")
    assert (verdict.better, verdict.value) == ("", None)
    assert "leaky" in verdict.notes[0]


@pytest.mark.parametrize("collapsed", [(1,), SEEDS])
def test_a_variant_that_predicts_one_class_is_not_ranked(folder, collapsed):
    folder.add("dot", by_seed=lambda seed: {"health": HEALTHY})
    folder.add(
        "constant",
        better_by=4.0,
        by_seed=lambda seed: {"health": COLLAPSED if seed in collapsed else HEALTHY},
    )
    outcome = folder.collect()
    constant = outcome.variant("constant")
    assert constant.is_valid
    assert not constant.is_ranked
    assert f"{len(collapsed)} of 3 seeds" in constant.collapsed
    assert ONE_CLASS in constant.collapsed
    assert len(outcome.collapsed) == 1
    verdict = deciding(outcome, "constant")
    assert (verdict.better, verdict.value) == ("", None)
    assert outcome.variant("dot").is_ranked


NOT_FINITE = {"event": "divergence", "step": 12, "text": "the loss is not finite at step 12"}
RISE = [{"event": "step", "step": n + 1, "loss": 9.0 if n < 3 else 4.0} for n in range(40)] + [
    {"event": "step", "step": n + 1, "loss": 8.5} for n in range(40, 80)
]


def diverge(folder, variant, seed, *, finished):
    """Make a run one that stopped at a loss that is not finite, or one whose loss rose."""
    run = folder.home / variant / f"seed-{seed}"
    events = RISE if finished else [NOT_FINITE]
    (run / "events.jsonl").write_text("\n".join(map(json.dumps, events)) + "\n")
    if not finished:
        (run / "results.json").unlink()
        index = next(n for n, one in enumerate(folder.results) if one.job.folder == run)
        folder.results[index] = JobResult(folder.results[index].job, "train: the loss …")


@pytest.mark.parametrize("finished", [False, True])
def test_diverged_runs_are_counted_and_no_mean_is_judged_over_the_others(folder, finished):
    folder.add("dot")
    folder.add("wild", better_by=4.0)
    folder.add("lower-loss", better_by=4.0)
    diverge(folder, "wild", 1, finished=finished)
    outcome = folder.collect()
    wild = outcome.variant("wild")
    assert wild.is_valid
    assert not wild.is_ranked
    assert [bool(run.diverged) for run in wild.runs] == [False, True, False]
    [sentence] = outcome.diverged
    assert says(sentence, "wild diverged in 1 of 3 seeds", "seed 1: ")
    assert outcome.missing == []
    verdict = deciding(outcome, "wild")
    assert (verdict.better, verdict.value) == ("", None)
    [counted] = outcome.divergences
    assert (counted.variant, counted.reference, counted.better) == ("wild", "dot", "")
    assert (counted.diverged, counted.reference_diverged) == (
        DivergenceCount(1, 3),
        DivergenceCount(0, 3),
    )
    assert counted.p == 1
    assert verdict.notes[-1] == counted.sentence
    assert len(wild.estimates["dev.perplexity"].per_seed) == 2
    assert deciding(outcome, "lower-loss").better == "lower-loss"


def test_a_variant_that_always_diverges_differs_from_one_that_never_does(folder):
    seeds = range(5)
    folder.add("dot", seeds=seeds)
    for name in ("wild", "mild"):
        folder.add(name, seeds=seeds)
    for seed in seeds:
        diverge(folder, "wild", seed, finished=False)
    diverge(folder, "mild", 0, finished=True)
    outcome = folder.collect()
    wild, mild = outcome.divergences
    assert wild.better == "dot"
    # Holm: twice the smaller p, 2 / 252.
    assert wild.p == pytest.approx(4 / 252)
    assert says(wild.sentence, "wild diverges more often than dot", "5 of 5", "0 of 5")
    assert mild.better == ""
    assert outcome.variant("wild").estimates == {}


def test_where_the_reference_diverged_nothing_is_compared_with_it(folder):
    folder.add("dot")
    folder.add("lower-loss", better_by=4.0)
    diverge(folder, "dot", 2, finished=True)
    outcome = folder.collect()
    verdict = deciding(outcome, "lower-loss")
    assert (verdict.better, verdict.value) == ("", None)
    assert "dot diverged in 1 of 3" in verdict.notes[0]


def test_a_damaged_run_is_named_and_the_rest_is_compared(folder):
    folder.add("dot")
    folder.add("additive")
    (folder.home / "additive" / "seed-2" / "results.json").write_text("{")
    outcome = folder.collect()
    [missing] = outcome.missing
    assert missing.startswith("additive · seed 2:")
    assert deciding(outcome, "additive").seeds == 2


def test_variants_without_a_common_seed_are_not_compared(folder):
    folder.add("dot", seeds=(0, 1))
    folder.add("additive", seeds=(2,))
    verdict = deciding(folder.collect(), "additive")
    assert verdict.value is None
    assert "seed" in verdict.notes[0]


def test_a_run_in_the_folder_of_another_is_left_out(folder):
    """Copied, or swapped: a seed would count twice, or a variant be judged by the other's runs."""
    folder.add("dot")
    folder.add("additive")
    for seed in (1, 2):
        shutil.rmtree(folder.home / f"additive/seed-{seed}")
        shutil.copytree(folder.home / "additive/seed-0", folder.home / f"additive/seed-{seed}")
    outcome = folder.collect()
    assert [one.partition(" holds ")[2] for one in outcome.missing] == [
        f"another run: train.seed is 0 there, and {seed} in the study" for seed in (1, 2)
    ]


@pytest.mark.parametrize("init_from", [None, "first.toml"])
def test_a_run_of_another_model_is_left_out_unless_it_is_inherited(folder, init_from):
    folder.add("dot")
    for result in folder.results:
        result.job.recipe.init_from = init_from
        with (result.job.folder / "recipe.toml").open("a") as recipe:
            recipe.write('name = "elsewhere"\n[model]\nwidth = 16\n')
    assert len(folder.collect().missing) == (3 if init_from is None else 0)
