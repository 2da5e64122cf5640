"""Visual question answering and masked patches: training, inputs, masks, bad images."""

import json

import numpy as np
import pytest

import regard
from regard.core.errors import UserError
from regard.data.readers.records import Record
from regard.data.statistics import SplitOverlap
from regard.data.tokenizers.word import Word
from regard.models.families.encoder import Encoder
from regard.runs.preparation.overlap import RowItems, find_overlap
from regard.runs.preparation.row_stats import task_statistics
from regard.runs.recipe import Recipe
from regard.tasks import Tools
from regard.tasks.vision.digits import Digits
from regard.tasks.vision.masked_patches import Patches

PATTERNS = {"rows": (1, 1, 0, 0), "columns": (1, 0, 1, 0), "falling": (1, 0, 0, 1)}
SMALL = {"image_side": 4, "patch_side": 2, "max_pixel": 16}


def rows(count, seed):
    """Synthetic 4 × 4 images that repeat a 2 × 2 pattern: its name, or whether it is straight."""
    generator = np.random.default_rng(seed)
    records = []
    for index in range(count):
        name = str(generator.choice(list(PATTERNS)))
        image = 10 * np.tile(np.reshape(PATTERNS[name], (2, 2)), (2, 2))
        image = image + generator.integers(0, 6, size=(4, 4))
        is_boolean = index % 2
        answer = ("no" if name == "falling" else "yes") if is_boolean else name
        question = "is it straight" if is_boolean else "which pattern is it"
        records.append({"image": image.ravel().tolist(), "question": question, "answer": answer})
    return records


def write_jsonl(file, records):
    file.write_text("".join(json.dumps(row) + "\n" for row in records), encoding="utf-8")
    return str(file)


def recipe_table(home, kind, **more):
    return {
        "name": kind,
        "data": {
            "corpus": str(home / "train.jsonl"),
            "dev": str(home / "dev.jsonl"),
            "test": str(home / "test.jsonl"),
        },
        "tokenizer": {"kind": "word"},
        "model": {
            "family": "encoder",
            "layers": 2,
            "heads": 2,
            "width": 32,
            "context": 16,
            "patch_dim": 4,
            "attention": {"kind": "group", "by": "modality", "fusion_every": 2},
        },
        "task": {"kind": kind, **SMALL},
        "train": {
            "epochs": 8,
            "batch_tokens": 200,
            "lr": 4e-3,
            "evaluate_every": 0,
            "threads": 1,
        },
        **more,
    }


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("digits")
    for seed, (split, count) in enumerate((("train", 300), ("dev", 60), ("test", 60))):
        write_jsonl(home / f"{split}.jsonl", rows(count, seed))
    return home


@pytest.fixture(scope="module")
def pretrained(home):
    table = recipe_table(home, "patches")
    table["train"]["epochs"] = 4
    return regard.train(Recipe.from_table(table), out=home / "patches")


@pytest.fixture(scope="module")
def trained(home, pretrained):
    table = recipe_table(home, "digits", init_from=str(pretrained.folder))
    del table["model"], table["tokenizer"]
    return regard.train(Recipe.from_table(table), out=home / "run")


def run_score(run, split, metric, of="model"):
    return next(
        row.value
        for row in run.results().estimates
        if (row.split, row.metric, row.of) == (split, metric, of)
    )


def test_masked_patches_are_predicted_better_than_by_the_mean_image(pretrained):
    error = run_score(pretrained, "test", "mean_squared_error")
    assert error < 0.7 * run_score(pretrained, "test", "mean_squared_error", "mean image")
    verdicts = {(row.split, row.verdict) for row in pretrained.results().comparisons}
    assert verdicts == {("dev", "better than"), ("test", "better than")}


def test_answers_use_the_image(trained):
    assert run_score(trained, "test", "accuracy") > 0.95
    baselines = {row.of for row in trained.results().estimates} - {"model"}
    assert len(baselines) == 2
    for of in baselines:
        assert run_score(trained, "test", "accuracy", of) < 0.7
    assert json.loads((trained.folder / "audit.json").read_text())["verdict"] == "clean"


def test_predict_on_a_file_without_answers(trained, tmp_path):
    records = rows(30, 9)
    unlabelled = [{key: row[key] for key in ("image", "question")} for row in records]
    answers = regard.predict(trained.folder, write_jsonl(tmp_path / "mine.jsonl", unlabelled))
    right = [a["predicted"] == row["answer"] for a, row in zip(answers, records, strict=True)]
    assert sum(right) > 27
    assert "truth" not in answers[0]


def test_evaluate_reproduces_the_results_of_training(trained, pretrained):
    for run in (trained, pretrained):
        assert regard.evaluate(run.folder).estimates == run.results().estimates


def tools(context=16):
    words = ["which pattern is it straight"]
    return Tools(Word(minimum_count=1).train(iter(words)), context, "encoder")


def make_problem(context=16):
    return Digits(**SMALL).restore_problem({"labels": ["no", "yes"]}, tools(context))


def test_patches_follow_the_words():
    record = {"image": list(range(16)), "question": "which pattern", "label": "yes"}
    problem = make_problem()
    [example] = problem.examples(record)
    roles = [problem.tools.tokenizer.require(role) for role in ("cls", "sep", "pad")]
    assert example.inputs[[0, 3, 4]].tolist() == roles
    assert example.modalities.tolist() == [0] * 4 + [1] * 4
    assert (example.patches[1] * 16).tolist() == [2, 3, 6, 7]
    assert example.labels.tolist() == [1]
    long = {**record, "question": "which pattern is it straight"}
    assert make_problem(context=9).truncated_tokens(long) == 2


def test_an_image_may_be_a_list_rows_or_text():
    task = Digits(**SMALL)
    flat = list(range(16))
    forms = (flat, np.reshape(flat, (4, 4)).tolist(), json.dumps(flat), " ".join(map(str, flat)))
    pixels = [task.pixels({"image": form}) for form in forms]
    assert all(np.array_equal(pixels[0], other) for other in pixels[1:])
    assert pixels[0].max() == pytest.approx(15 / 16)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ([0] * 15, "holds 15 numbers where image_side = 4 takes 16"),
        ([0] * 15 + [17], "holds 0 to 17 where pixels go from 0 to max_pixel = 16"),
        ([0] * 15 + [float("nan")], "where pixels go"),
        ("no picture", "holds no numbers"),
        ([[0, 1], [2]], "holds no numbers"),
        ("", "holds no numbers"),
        ({"a": 1}, "holds no numbers"),
    ],
)
def test_malformed_images_are_refused_with_their_line(image, message):
    with pytest.raises(UserError, match=message) as caught:
        Digits(**SMALL).check(Record({"image": image}, at="mine.jsonl, line 3"))
    assert "mine.jsonl, line 3" in str(caught.value)


def test_a_malformed_image_in_test_is_refused_before_training(home, tmp_path):
    bad = write_jsonl(tmp_path / "test.jsonl", [*rows(3, 0), {**rows(1, 0)[0], "image": [1, 2]}])
    table = recipe_table(home, "digits")
    table["data"] = {**table["data"], "test": bad}
    with pytest.raises(UserError, match="line 4"):
        regard.train(Recipe.from_table(table), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_mismatched_sizes_are_refused():
    with pytest.raises(UserError, match=r"patch_side = 3 .* image_side = 4"):
        Recipe.from_table(
            {
                "name": "x",
                "data": {"corpus": "digits"},
                "model": {"family": "encoder"},
                "task": {"kind": "digits", "image_side": 4, "patch_side": 3},
            }
        )
    with pytest.raises(UserError, match="too short for words beside 4 patches"):
        make_problem(context=6).examples({"image": [0] * 16, "question": "which"})
    text_only = Encoder(layers=1, heads=1, width=8, context=16)
    larger = text_only.model_copy(update={"patch_dim": 9})
    for family, takes in ((text_only, "only words"), (larger, 9)):
        model = family.build(vocabulary=20, seed=0)
        with pytest.raises(UserError, match=f"hold 4 values, and the model takes {takes}"):
            make_problem().attach_head(model, seed=0)


def test_evaluation_masks_are_fixed_and_training_masks_are_redrawn():
    problem = Patches(**SMALL, masking_rate=0.5).build_problem([], tools())
    record = {"image": list(range(16)), "question": "which pattern"}
    [first], [again] = problem.examples(record), problem.examples(record)
    assert np.array_equal(first.patches, again.patches)
    redrawn = [problem.randomise(first, np.random.default_rng(seed)) for seed in range(8)]
    assert len({example.patches.tobytes() for example in redrawn}) > 2
    for example in redrawn:
        is_masked = (example.patches < 0).all(axis=1)
        assert is_masked.sum() == example.weights.sum() == 2
        assert np.flatnonzero(example.weights).tolist() == (4 + np.flatnonzero(is_masked)).tolist()
        patches = Digits(**SMALL).extract_patches(record)
        assert np.array_equal(example.labels, patches[is_masked].ravel())


def test_equal_questions_about_different_images_do_not_overlap():
    class Corpus:
        name, generated = "mine", False

        class dropped:  # noqa: N801
            @staticmethod
            def as_dict():
                return {}

    every = [{**row, "label": row["answer"]} for row in rows(40, 0)]
    records = {"train": every[:20], "dev": every[20:30], "test": every[18:20] + every[30:38]}
    task = Digits(**SMALL)
    overlap = find_overlap(RowItems(task, records))
    statistics = task_statistics(Corpus(), records, task, tools().tokenizer, overlap)
    assert statistics.overlap["dev"].overlapping == 0
    assert statistics.overlap["test"] == SplitOverlap(items=10, exact=2, agree=2, flipped=0)
