"""Verdicts on tables of items: paired by item and seed, whatever the order and the spelling."""

import math

import numpy as np
import pytest
from scipy.stats import ttest_rel

import regard
from regard import UserError
from regard.evaluation.statistics.holm import holm
from regard.evaluation.statistics.seed_tables import SeedTables, ratio
from regard.evaluation.statistics.significance import method_difference
from regard.studies.judging.score_names import bounds, direction


def scores(*, seed: int, mean: float, n: int = 200) -> np.ndarray:
    """Right or wrong answers whose difficulty is shared by all seeds."""
    difficulty = np.random.default_rng(99).normal(size=n)
    noise = np.random.default_rng(seed).normal(scale=0.6, size=n)
    return (difficulty + noise < mean).astype(float)


def columns(values: np.ndarray, **more: object) -> dict[str, object]:
    return {"id": list(range(len(values))), "correct": values, **more}


WEAK, STRONG = scores(seed=1, mean=0.0), scores(seed=2, mean=0.5)


def test_one_seed_gives_the_paired_t_interval():
    outcome = regard.judge({"weak": WEAK, "strong": STRONG}, metric="accuracy")
    [verdict] = outcome.verdicts
    oracle = ttest_rel(STRONG, WEAK)
    interval = oracle.confidence_interval(0.95)
    assert verdict.value == pytest.approx(STRONG.mean() - WEAK.mean())
    assert (verdict.low, verdict.high) == pytest.approx((interval.low, interval.high))
    assert (verdict.better == "strong") == (oracle.pvalue < 0.05)
    assert verdict.n == 200
    assert verdict.seeds == 1


def test_seeds_and_several_variants_are_judged_as_in_a_study():
    by_name = {
        name: np.stack([scores(seed=10 * number + seed, mean=mean) for seed in range(4)])
        for number, (name, mean) in enumerate({"a": 0.0, "b": 0.05, "c": 0.6}.items())
    }
    outcome = regard.judge(by_name, metric="accuracy")
    tables = {
        name: SeedTables(
            variant=name,
            seeds=(0, 1, 2, 3),
            statistics=np.stack([values, np.ones_like(values)], axis=1),
            splits=("test",) * 4,
        )
        for name, values in by_name.items()
    }
    expected = holm([method_difference(tables[name], tables["a"], ratio) for name in ("b", "c")])
    for verdict, difference in zip(outcome.verdicts, expected, strict=True):
        assert (verdict.value, verdict.low, verdict.high) == pytest.approx(
            (difference.value, difference.low, difference.high)
        )
        assert verdict.per_seed == pytest.approx(difference.per_seed)
    assert [verdict.better for verdict in outcome.verdicts] == ["", "c"]
    assert outcome.seeds == (0, 1, 2, 3)


def test_the_order_of_rows_and_the_spelling_of_ids_change_nothing():
    shuffled = np.random.default_rng(0).permutation(200)
    plain = regard.judge({"weak": columns(WEAK), "strong": columns(STRONG)}, metric="accuracy")
    other = regard.judge(
        {
            "weak": columns(WEAK),
            "strong": {
                "id": [f"{i}" if i % 2 else float(i) for i in shuffled],
                "correct": STRONG[shuffled],
            },
        },
        metric="accuracy",
    )
    assert other.verdicts == plain.verdicts


def test_predictions_and_truths_give_regards_own_metrics():
    truth = np.random.default_rng(3).choice(["yes", "no", "maybe"], size=90)
    noisy = {
        name: np.where(np.random.default_rng(seed).random(90) < right, truth, "no")
        for name, seed, right in (("weak", 1, 0.4), ("strong", 2, 0.9))
    }
    results = {name: {"predicted": one, "label": truth} for name, one in noisy.items()}
    outcome = regard.judge(results, metric="macro_f1")
    from sklearn.metrics import f1_score

    for name, predicted in noisy.items():
        expected = f1_score(truth, predicted, average="macro")
        assert outcome.variant(name).estimates["test.macro_f1"].value == pytest.approx(expected)
    accuracy = regard.judge(results, metric="accuracy")
    assert accuracy.verdicts[0].value == pytest.approx(
        (noisy["strong"] == truth).mean() - (noisy["weak"] == truth).mean()
    )


def test_constant_predictions_are_not_ranked():
    truth = ["yes"] * 62 + ["no"] * 38
    varied = [*truth[:50], *truth[50:][::-1]]
    results = {
        "constant": {"predicted": ["yes"] * 100, "truth": truth},
        "varied": {"predicted": varied, "truth": truth},
        "right": {"predicted": truth, "truth": truth},
    }
    outcome = regard.judge(results, metric="accuracy", reference="varied")
    by_name = {verdict.variant: verdict for verdict in outcome.verdicts}
    assert by_name["right"].better == "right"
    assert by_name["constant"].value is None
    assert len(outcome.collapsed) == 1
    assert "62.0 %" in outcome.collapsed[0]
    assert "COLLAPSED" in outcome._repr_html_()


def test_items_that_stand_in_training_are_left_out():
    overlap = ["exact"] * 30 + ["near"] * 20 + [None] * 150
    results = {
        "a": columns(WEAK, overlap=overlap),
        "b": columns(np.where(np.arange(200) < 50, 1.0, STRONG)),
    }
    outcome = regard.judge(results, metric="accuracy")
    [verdict], [one] = outcome.verdicts, outcome.contamination
    assert verdict.n == 150
    assert verdict.value == pytest.approx(STRONG[50:].mean() - WEAK[50:].mean())
    assert (one.overlap.n, one.overlap.overlapping, one.overlap.exact) == (200, 50, 30)
    assert one.estimates["a"].value == pytest.approx(WEAK.mean())
    results["a"]["overlap"] = np.linspace(0, 1, 200)  # of another tool
    assert regard.judge(results, metric="accuracy").contamination == []
    results["a"]["overlap"] = ["exact"] * 200
    with pytest.raises(UserError, match="all 200 items"):
        regard.judge(results, metric="accuracy")


def test_columns_may_be_called_differently_in_each_file():
    results = {"a": {"id": range(200), "acc": WEAK}, "b": {"id": range(200), "correct": STRONG}}
    outcome = regard.judge(results, metric="accuracy")
    assert outcome.verdicts[0].value == pytest.approx(STRONG.mean() - WEAK.mean())


def test_perplexity_weighs_documents_by_their_tokens():
    tokens = np.arange(5, 45)
    results = {
        name: {"nats": tokens * nats, "tokens": tokens} for name, nats in (("a", 2.0), ("b", 1.5))
    }
    outcome = regard.judge(results, metric="perplexity")
    assert outcome.prefers_less
    assert outcome.variant("b").estimates["test.perplexity"].value == pytest.approx(math.exp(1.5))
    assert outcome.verdicts[0].better == "b"


def test_a_frame_with_a_column_of_variants_is_split():
    frame = {
        "model": ["weak"] * 200 + ["strong"] * 200,
        "id": [*range(200), *range(200)],
        "correct": np.concatenate([WEAK, STRONG]),
    }
    outcome = regard.judge(frame, metric="correct", reference="strong")
    assert [variant.name for variant in outcome.variants] == ["weak", "strong"]
    assert (outcome.verdicts[0].variant, outcome.reference) == ("weak", "strong")


def test_an_arrow_table_is_a_frame():
    import pyarrow as pa

    results = {
        name: pa.table({"id": list(range(200)), "acc": one})
        for name, one in (("a", WEAK), ("b", STRONG))
    }
    assert regard.judge(results, metric="accuracy").verdicts[0].better == "b"


class Missing:
    """As NA of pandas: a comparison with it is neither true nor false."""

    def __eq__(self, other: object) -> "Missing":
        return self

    __ne__ = __eq__
    __hash__ = None

    def __bool__(self) -> bool:
        raise TypeError


@pytest.mark.parametrize("nothing", [None, "", float("nan"), Missing(), np.float64("nan")])
def test_a_missing_score_is_named_by_its_row(nothing):
    values = [*WEAK[:2].tolist(), nothing, *WEAK[3:].tolist()]
    with pytest.raises(UserError, match="b, row 3"):
        regard.judge(
            {"a": columns(WEAK), "b": columns(WEAK) | {"correct": values}}, metric="accuracy"
        )


def test_less_is_better_turns_the_verdict():
    results = {"high": WEAK + 1, "low": WEAK * 0.5}
    assert regard.judge(results, metric="zork", lower_is_better=True).verdicts[0].better == "low"
    assert regard.judge(results, metric="zork", lower_is_better=False).verdicts[0].better == "high"
    with pytest.raises(UserError, match="zork"):
        regard.judge(results, metric="zork")


@pytest.mark.parametrize(
    ("name", "lower"),
    [
        *((name, False) for name in ("exact_match,strict-match", "rougeL", "acc_norm", "f1")),
        *((name, True) for name in ("eval_loss", "WER", "word_perplexity", "is_incorrect")),
    ],
)
def test_the_name_of_a_metric_tells_its_direction(name, lower):
    assert direction(name, None) is lower
    assert direction(name, not lower) is not lower


@pytest.mark.parametrize("name", ["score", "error_accuracy", "value"])
def test_an_ambiguous_name_is_asked_about(name):
    with pytest.raises(UserError, match=name):
        direction(name, None)


def test_bounds_follow_from_the_name():
    assert bounds("acc_norm") == (0.0, 1.0)
    assert bounds("wer") == (0.0, math.inf)
    assert bounds("bleu") == (-math.inf, math.inf)


@pytest.mark.parametrize(
    ("results", "facts"),
    [
        ({"a": columns(WEAK), "b": columns(WEAK[:-1])}, ("b", "199", "200")),
        ({"a": WEAK, "b": WEAK * 3}, ("b, row", "3", "between 0 and 1")),
        ({"a": WEAK, "b": WEAK * np.nan}, ("b, row 1",)),
        ({"a": columns(WEAK), "b": {"id": [1, 1], "correct": [0, 1]}}, ("b, row 2", "item 1")),
        ({"a": WEAK}, ("nothing to compare",)),
        ({"a": WEAK, "b": {"id": [1, 2], "correct": [1]}}, ("b", "id has 2", "correct has 1")),
        ({"a": WEAK, "b": "text"}, ("text",)),
        ({"a": WEAK, "b": None}, ("b", "NoneType")),
        ({"a": WEAK, "b": np.zeros((2, 2, 2))}, ("b", "ndarray")),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(results, facts):
    with pytest.raises(UserError) as raised:
        regard.judge(results, metric="accuracy")
    assert all(fact in str(raised.value) for fact in facts), raised.value
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("spelled", "facts"),
    [
        (lambda answers: answers.astype(bool), ("'True'", "'1'")),
        (lambda answers: [f"{answer}.0" for answer in answers], ("'1.0'", "'1'")),
        (lambda answers: np.where(answers, "yes", "no"), ("'yes'", "'1'")),
    ],
)
def test_predictions_that_are_spelled_otherwise_are_not_all_wrong(spelled, facts):
    truth = np.arange(200) % 2
    right, wrong = truth.copy(), np.where(np.arange(200) < 60, 1 - truth, truth)
    results = {
        "a": {"predicted": wrong, "truth": truth},
        "b": {"predicted": spelled(right), "truth": truth},
    }
    with pytest.raises(UserError, match="b: predicted is") as raised:
        regard.judge(results, metric="accuracy")
    assert all(fact in str(raised.value) for fact in facts), raised.value


def test_other_truths_are_other_items():
    one = columns(WEAK, truth=["x"] * 200)
    other = columns(STRONG, truth=["x"] * 150 + ["y"] * 50)
    with pytest.raises(UserError, match="150"):
        regard.judge({"a": one, "b": other}, metric="accuracy")


def test_seeds_are_paired_and_lone_ones_said():
    def seeded(seeds):
        values = [scores(seed=seed, mean=0.2) for seed in seeds]
        return {
            "id": list(range(200)) * len(seeds),
            "seed": np.repeat(seeds, 200),
            "correct": np.concatenate(values),
        }

    outcome = regard.judge({"a": seeded([1, 2, 3]), "b": seeded([3, 1, 7])}, metric="accuracy")
    assert outcome.verdicts[0].seeds == 2
    assert sum("no partner" in remark for remark in outcome.remarks) == 2
    with pytest.raises(UserError, match="none in common"):
        regard.judge({"a": seeded([1, 2]), "b": seeded([3, 4])}, metric="accuracy")


def test_below_twenty_items_there_is_no_verdict():
    outcome = regard.judge({"a": np.zeros(19), "b": np.ones(19)}, metric="accuracy")
    assert outcome.verdicts[0].better == ""
    outcome = regard.judge({"a": WEAK[:20] * 0, "b": 1 - WEAK[:20] * 0.5}, metric="accuracy")
    assert outcome.verdicts[0].better == "b"


def clustered(groups: int, size: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Scores whose differences are shared by the items of a group."""
    generator = np.random.default_rng(5)
    labels = np.repeat(np.arange(groups), size)
    shared = generator.normal(scale=1.0, size=groups)[labels]
    a = generator.normal(size=groups * size)
    return {"a": a, "b": a + shared + generator.normal(scale=0.2, size=a.size)}, labels


def test_groups_widen_the_interval_as_a_t_test_over_group_means_does():
    by_name, labels = clustered(groups=24, size=10)
    results = {
        name: {"id": list(range(240)), "score": values, "passage": labels, "other": labels % 2}
        for name, values in by_name.items()
    }
    plain = regard.judge(results, metric="score", lower_is_better=False)
    grouped = regard.judge(results, metric="score", lower_is_better=False, group="passage")
    means = [(by_name["b"] - by_name["a"])[labels == group].mean() for group in range(24)]
    oracle = ttest_rel(means, np.zeros(24)).confidence_interval(0.95)
    [verdict] = grouped.verdicts
    assert (verdict.low, verdict.high) == pytest.approx((oracle.low, oracle.high))
    assert (verdict.n, verdict.groups) == (240, 24)
    assert verdict.high - verdict.low > 2 * (plain.verdicts[0].high - plain.verdicts[0].low)
    assert any("--group passage" in remark for remark in plain.remarks)
    assert not any("--group" in remark for remark in grouped.remarks)


def test_groups_that_do_not_matter_are_not_proposed():
    labels = np.repeat(np.arange(20), 10)
    results = {
        name: columns(values, passage=labels) for name, values in (("a", WEAK), ("b", STRONG))
    }
    outcome = regard.judge(results, metric="accuracy")
    assert not any("--group" in remark for remark in outcome.remarks)


def test_below_ten_groups_there_is_no_verdict():
    results = {
        name: columns(values, passage=np.arange(200) % 9)
        for name, values in (("a", WEAK * 0), ("b", STRONG))
    }
    outcome = regard.judge(results, metric="accuracy", group="passage")
    assert outcome.verdicts[0].better == ""


def test_an_item_has_one_group_everywhere():
    one = columns(WEAK, passage=np.arange(200) // 5)
    other = columns(STRONG, passage=np.arange(200) // 4)
    with pytest.raises(UserError, match="passage"):
        regard.judge({"a": one, "b": other}, metric="accuracy", group="passage")


def test_named_seeds_are_paired_by_name():
    """The second of one variant may be the first of the other."""
    base = {name: np.random.default_rng(n).normal(size=60) for n, name in enumerate("pqrs")}

    def seeded(names, added):
        return {
            "id": list(range(60)) * len(names),
            "seed": [name for name in names for _ in range(60)],
            "loss": np.concatenate([base[name] + added for name in names]),
        }

    outcome = regard.judge({"a": seeded("pqr", 0.0), "b": seeded("qrs", 0.1)}, metric="loss")
    assert outcome.verdicts[0].per_seed == pytest.approx([0.1, 0.1])
    assert "seeds p of a have no partner in every other variant" in outcome.remarks
    with pytest.raises(UserError, match="b has seeds r, s, a has p, q: none in common"):
        regard.judge({"a": seeded("pq", 0.0), "b": seeded("rs", 0.1)}, metric="loss")


@pytest.mark.parametrize("metric", ["bleu", "rougeL"])
def test_scores_of_1_and_of_100_are_not_compared(metric):
    of_1 = np.random.default_rng(0).random(50)
    with pytest.raises(UserError, match=r"fraction is at most 0\.997, and of percent up to 98\.7"):
        regard.judge({"fraction": of_1, "percent": 99 * of_1}, metric=metric)
    assert regard.judge({"poor": 20 * of_1, "good": 99 * of_1}, metric=metric).verdicts[0].better
    assert regard.judge({"none": 0 * of_1, "good": 99 * of_1}, metric=metric).verdicts[0].better


def test_scales_of_an_unknown_score_are_doubted():
    of_1 = np.random.default_rng(0).random(50)
    outcome = regard.judge({"a": of_1, "b": 99 * of_1}, metric="reward")
    assert any(remark.endswith("are their scales the same?") for remark in outcome.remarks)


@pytest.mark.parametrize("index", ["", "Unnamed: 0", "__index_level_0__"])
def test_items_are_paired_by_the_index_of_a_data_frame(index):
    loss = np.random.default_rng(0).normal(5, 1, size=40)
    order = np.random.default_rng(1).permutation(40)
    frames = {
        "a": {index: list(range(40)), "loss": loss},
        "b": {index: order, "loss": loss[order] + 0.1},
    }
    outcome = regard.judge(frames, metric="loss")
    assert outcome.verdicts[0].low == pytest.approx(0.1)
    assert "items are paired by the index of their data frames" in outcome.remarks
    frames["b"][index] = [0] * 40
    by_order = regard.judge(frames, metric="loss").remarks
    assert any("items are paired by their order" in remark for remark in by_order)


def test_answers_that_are_wrong_by_case_or_spaces_are_counted():
    truth = ["Yes", "No"] * 20
    answers = ["yes ", "No"] * 10 + truth[:20]
    outcome = regard.judge(
        {
            "a": {"y_true": truth, "y_pred": answers},
            "b": {"y_true": truth, "y_pred": [*truth[:39], "Yes"]},
        },
        metric="accuracy",
    )
    assert [remark for remark in outcome.remarks if "case or spaces" in remark] == [
        "10 answers of a are wrong by case or spaces alone, such as 'yes ' for 'Yes'"
    ]


def test_a_metric_that_is_no_number_is_named():
    table = {"id": [1, 2], "accuracy": ["100%", "0%"]}
    with pytest.raises(UserError, match="accuracy is '100%', not a finite number"):
        regard.judge({"a": table, "b": table})
