"""Studies that plan their looks: when they stop, what they say, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tomli_w
from tests.studies.drawn_trainings import DrawnTrainings
from tests.wording import says

from regard.core.errors import UserError
from regard.studies import compare as compare_module
from regard.studies.compare import compare
from regard.studies.engines import choice
from regard.studies.engines.local import JobResult
from regard.studies.outcome import read_outcome
from regard.studies.plan import PlannedVariant
from regard.studies.study import LoadedStudy

RECIPE = {
    "name": "base",
    "data": {"corpus": "python-docs"},
    "model": {"layers": 1, "heads": 2, "width": 8},
    "train": {"max_steps": 2},
}


@pytest.fixture
def trainings(monkeypatch, tmp_path):
    """Trainings, and nothing else of a study that takes time."""
    fake = DrawnTrainings()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(choice, "LocalEngine", lambda **_: fake)
    monkeypatch.setattr(compare_module, "plan", planned_without_budgets)
    return fake


def planned_without_budgets(home, loaded, initial_models, *, looks=None, observer=None):
    return [PlannedVariant(one.name, one.recipe, 1.0, {}) for one in loaded.variants]


@pytest.fixture
def write(tmp_path):
    (tmp_path / "base.toml").write_text(tomli_w.dumps(RECIPE))

    def write(seeds, *names, **table):
        variants = {name: {} for name in ("dot", *(names or ("better",)))}
        study = {"base": "base.toml", "seeds": seeds, "variants": variants, **table}
        file = tmp_path / "study.toml"
        file.write_text(tomli_w.dumps(study))
        return file

    return write


PLAN = {"plan": [3, 5, 8]}


def deciding(outcome, variant="better"):
    [found] = [
        one
        for one in outcome.verdicts
        if (one.score_key, one.variant) == (outcome.decides, variant)
    ]
    return found


def remark(outcome):
    [found] = [one for one in outcome.remarks if "looks were planned" in one]
    return found


def taken(outcome):
    return [len(look.verdicts[0].seeds) for look in outcome.looks]


class TestStopping:
    def test_stops_at_the_first_look_that_decides(self, trainings, write):
        trainings.better_by["better"] = 30.0
        outcome = compare(write(PLAN))
        assert sorted(trainings.trained) == [
            (variant, seed) for variant in ("better", "dot") for seed in range(3)
        ]
        verdict = deciding(outcome)
        assert (verdict.better, verdict.look, verdict.seeds) == ("better", 1, 3)
        assert verdict.level == pytest.approx(1 - outcome.plan.alphas[0])
        assert (outcome.plan.taken, outcome.seeds) == (1, (0, 1, 2))
        assert says(outcome.plan.stopped, "every comparison is decided")
        assert says(remark(outcome), "3, 5 and 8 seeds", "stopped at look 1")
        assert "--seeds" not in outcome.command
        assert read_outcome(outcome.folder) == outcome

    def test_equal_variants_go_on_to_the_last_look(self, trainings, write):
        outcome = compare(write(PLAN))
        assert trainings.seeds("better") == list(range(8))
        assert deciding(outcome).sentence == "not distinguishable at this size"
        assert (outcome.plan.taken, outcome.plan.stopped) == (3, "it was the last")
        assert taken(outcome) == [3, 5, 8]
        assert not any("judged before" in note for note in deciding(outcome).notes)

    def test_a_decided_study_is_read_again_and_trains_nothing(self, trainings, write):
        trainings.better_by["better"] = 30.0
        first = compare(write(PLAN))
        trainings.trained.clear()
        again = compare(write(PLAN))
        assert trainings.trained == []
        assert again == first

    def test_a_decided_comparison_keeps_its_look_while_another_goes_on(self, trainings, write):
        trainings.better_by["better"] = 30.0
        outcome = compare(write(PLAN, "better", "equal"))
        assert outcome.plan.comparisons == 2
        decided, other = deciding(outcome), deciding(outcome, "equal")
        assert (decided.look, decided.seeds, decided.better) == (1, 3, "better")
        assert (other.look, other.seeds, other.better) == (3, 8, "")
        assert outcome.shared_seeds(decided) == (0, 1, 2)
        assert outcome.shared_seeds(other) == tuple(range(8))
        # It left its share of the 5 % to the other.
        assert 1 - other.level == pytest.approx(outcome.plan.alphas[2])

    @pytest.mark.parametrize(("futility", "looks"), [(None, 3), (0.9, 1)])
    def test_futility_stops_only_where_it_is_asked_for(self, trainings, write, futility, looks):
        plan = PLAN if futility is None else {**PLAN, "futility": futility}
        outcome = compare(write(plan))
        assert outcome.plan.taken == looks
        assert ("chance" in outcome.plan.stopped) == (looks == 1)
        assert deciding(outcome).better == ""

    def test_a_variant_that_diverges_holds_nothing_up(self, trainings, write, monkeypatch):
        run = trainings.run

        def diverging(job):
            result = run(job)
            if (job.variant, job.seed) == ("wild", 1):
                event = {"event": "divergence", "step": 12, "text": "the loss is not finite"}
                (job.folder / "events.jsonl").write_text(json.dumps(event) + "\n")
                (job.folder / "results.json").unlink()
                return JobResult(job, "the loss is not finite")
            return result

        trainings.run = diverging
        outcome = compare(write(PLAN, "wild"))
        assert (outcome.plan.taken, outcome.plan.stopped) == (1, "nothing can be compared")
        assert deciding(outcome, "wild").sentence == "not compared"
        assert outcome.diverged

    def test_tuned_values_are_chosen_once_with_the_first_seed(self, trainings, write):
        trainings.better_by["better"] = 30.0
        outcome = compare(write(PLAN, tune={"train.lr": [0.001, 0.002]}))
        assert (deciding(outcome).better, outcome.plan.taken) == ("better", 1)
        assert trainings.seeds("better") == [0, 0, 1, 2]
        assert len(outcome.variant("better").trials) == 2
        assert any("with seed 0" in one for one in outcome.remarks)

    def test_too_few_items_stop_at_once(self, trainings, write, monkeypatch):
        monkeypatch.setattr("tests.studies.drawn_trainings.DOCUMENTS", 12)
        trainings.better_by["better"] = 30.0
        outcome = compare(write(PLAN))
        assert outcome.plan.taken == 1
        assert says(outcome.plan.stopped, "on so few items")
        assert deciding(outcome).sentence == "not distinguishable at this size"


class TestMissingRuns:
    def test_a_missing_run_gives_a_preview_and_no_verdict(self, trainings, write):
        trainings.better_by["better"] = 30.0
        trainings.fails.add(("better", 1))
        outcome = compare(write(PLAN))
        verdict = deciding(outcome)
        assert (verdict.is_preview, verdict.better, verdict.low) == (True, "", None)
        assert verdict.value < 0
        assert says(outcome.plan.stopped, "runs are missing")
        assert outcome.lacks_runs()
        assert outcome.looks == []
        trainings.fails.clear()
        trainings.trained.clear()
        complete = compare(write(PLAN))
        assert trainings.trained == [("better", 1)]
        assert (deciding(complete).better, complete.plan.taken) == ("better", 1)

    def test_a_variant_that_always_fails_does_not_stop_the_others(self, trainings, write):
        trainings.fails |= {("broken", seed) for seed in range(8)}
        outcome = compare(write(PLAN, "broken", "equal"))
        assert deciding(outcome, "broken").sentence == "not compared"
        assert deciding(outcome, "equal").look == 3

    def test_only_a_part_of_the_variants_takes_no_look(self, trainings, write):
        outcome = compare(write(PLAN), only=["dot"])
        assert trainings.trained == [("dot", seed) for seed in range(3)]
        assert deciding(outcome).sentence == "not compared"
        assert outcome.lacks_runs()


class TestOutsideThePlan:
    def test_more_seeds_without_the_plan_are_said_with_what_the_verdict_is_worth(
        self, trainings, write
    ):
        compare(write(PLAN))
        outcome = compare(write(list(range(10))))
        assert outcome.plan is None
        note = deciding(outcome).notes[-1]
        assert says(note, "judged before at 3, 5 and 8 seeds", "outside its plan", "not in 5 %")
        assert taken(outcome) == [3, 5, 8, 10]

    def test_a_plan_made_after_a_look_is_no_plan_of_5_percent(self, trainings, write):
        compare(write([0, 1, 2]))
        outcome = compare(write(PLAN))
        assert outcome.plan.taken == 3
        assert says(deciding(outcome).notes[-1], "judged before at 3", "outside its plan")

    def test_another_plan_is_refused_once_runs_exist(self, trainings, write):
        compare(write(PLAN))
        for other in ({"plan": [3, 5, 9]}, {**PLAN, "boundary": "obrien-fleming"}):
            with pytest.raises(UserError, match="were planned as") as refused:
                compare(write(other))
            assert "\n" not in refused.value.what
        compare(write({**PLAN, "futility": 0.01}))

    def test_seeds_beside_a_plan_are_refused(self, trainings, write):
        with pytest.raises(UserError, match="plans its looks"):
            compare(write(PLAN), seeds=(0, 1))
        assert trainings.trained == []


def test_an_interrupted_study_goes_on_at_its_look(trainings, write):
    run = trainings.run

    def interrupted(job):
        if job.seed == 4:
            raise KeyboardInterrupt
        return run(job)

    trainings.run = interrupted
    with pytest.raises(KeyboardInterrupt):
        compare(write(PLAN))
    between = read_outcome(Path("runs/study"))
    assert (between.plan.taken, between.plan.stopped) == (1, "")
    assert says(remark(between), "look 1", "goes on")
    assert says(deciding(between).sentence, "yet")
    trainings.run = run
    trainings.trained.clear()
    outcome = compare(write(PLAN))
    assert min(seed for _, seed in trainings.trained) == 4
    assert (outcome.plan.taken, taken(outcome)) == (3, [3, 5, 8])


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        ({"plan": [5, 3]}, "each look needs more seeds"),
        ({"plan": [3, 3]}, "each look needs more seeds"),
        ({"plan": [3]}, "one look is no plan"),
        ({"plan": []}, "one look is no plan"),
        ({"plan": [2, 5]}, "needs 3 seeds or more"),
        ({"plan": [-3, 5]}, "needs 3 seeds or more"),
        ({"plan": "3, 5"}, "seeds.plan = '3, 5' is not allowed"),
        ({"plan": [3, 5.5]}, "seeds.plan.1 = 5.5 is not allowed"),
        ({"plan": [3, 5], "futility": "yes"}, "seeds.futility = 'yes' is not allowed"),
        ({"plan": [3, 5], "futility": 1.5}, "seeds.futility = 1.5 is not allowed"),
        ({"plan": [3, 5], "futile": 0.1}, "unknown setting seeds.futile"),
        ({"plan": [3, 5], "boundary": "peto"}, "seeds.boundary = 'peto' is not allowed"),
        ({"futility": 0.1}, "seeds.plan is missing"),
        ("0-4", "seeds = '0-4' is not allowed"),
        ([0, "one"], "seeds.1 = 'one' is not allowed"),
        (3, "seeds = 3 is not allowed"),
    ],
)
def test_bad_plans_are_one_sentence(write, seeds, message):
    with pytest.raises(UserError) as refused:
        LoadedStudy.load(write(seeds))
    assert message in refused.value.what
    assert "\n" not in refused.value.what
    assert refused.value.where
