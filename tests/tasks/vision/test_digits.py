"""A question about a picture is answered from both, and hidden patches from the rest."""

import json

import numpy as np
import pytest

import regard
from regard.core.errors import UserError
from regard.data.readers.records import Record
from regard.data.tokenizers.word import Word
from regard.models.families.encoder import Encoder
from regard.runs.preparation.row_stats import task_statistics
from regard.runs.recipe import Recipe
from regard.tasks import Tools
from regard.tasks.vision.digits import Digits
from regard.tasks.vision.masked_patches import Patches

PATTERNS = {"rows": (1, 1, 0, 0), "columns": (1, 0, 1, 0), "falling": (1, 0, 0, 1)}
SMALL = {"image_side": 4, "patch_side": 2, "full_ink": 16}


def rows(count, seed):
    """4 × 4 images of one pattern, four times (generated): its name, or whether it is straight."""
    generator = np.random.default_rng(seed)
    made = []
    for number in range(count):
        name = str(generator.choice(list(PATTERNS)))
        image = 10 * np.tile(np.reshape(PATTERNS[name], (2, 2)), (2, 2))
        image = image + generator.integers(0, 6, size=(4, 4))
        asked = number % 2
        answer = ("no" if name == "falling" else "yes") if asked else name
        question = "is it straight" if asked else "which pattern is it"
        made.append({"image": image.ravel().tolist(), "question": question, "answer": answer})
    return made


def write(place, made):
    place.write_text("".join(json.dumps(row) + "\n" for row in made), encoding="utf-8")
    return str(place)


def table(home, kind, **more):
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
        write(home / f"{split}.jsonl", rows(count, seed))
    return home


@pytest.fixture(scope="module")
def pretrained(home):
    short = table(home, "patches")
    short["train"]["epochs"] = 4
    recipe = Recipe.from_table(short)
    return regard.train(recipe, out=home / "patches")


@pytest.fixture(scope="module")
def trained(home, pretrained):
    started = table(home, "digits", start=str(pretrained.folder))
    del started["model"], started["tokenizer"]
    return regard.train(Recipe.from_table(started), out=home / "run")


def figure(run, split, metric, of="model"):
    return next(
        row["value"]
        for row in run.figures()["figures"]
        if (row["part"], row["metric"], row["of"]) == (split, metric, of)
    )


def test_hidden_patches_are_told_better_than_by_the_mean_image(pretrained):
    error = figure(pretrained, "test", "mean_squared_error")
    assert error < 0.7 * figure(pretrained, "test", "mean_squared_error", "mean image")
    verdicts = {(row["part"], row["verdict"]) for row in pretrained.figures()["comparisons"]}
    assert verdicts == {("dev", "better than"), ("test", "better than")}


def test_answers_need_the_picture_and_are_found(trained):
    assert figure(trained, "test", "accuracy") > 0.95
    baselines = {row["of"] for row in trained.figures()["figures"]} - {"model"}
    assert len(baselines) == 2
    for of in baselines:
        assert figure(trained, "test", "accuracy", of) < 0.7
    assert json.loads((trained.folder / "audit.json").read_text())["verdict"] == "clean"


def test_a_file_without_answers_is_answered(trained, tmp_path):
    made = rows(30, 9)
    bare = [{key: row[key] for key in ("image", "question")} for row in made]
    answers = regard.predict(trained.folder, write(tmp_path / "mine.jsonl", bare))
    right = [a["predicted"] == row["answer"] for a, row in zip(answers, made, strict=True)]
    assert sum(right) > 27
    assert "truth" not in answers[0]


def test_measuring_again_gives_the_same(trained, pretrained):
    for run in (trained, pretrained):
        assert regard.evaluate(run.folder)["figures"] == run.figures()["figures"]


def tools(context=16):
    words = ["which pattern is it straight"]
    return Tools(Word(minimum_count=1).train(iter(words)), context, "encoder")


def opened(context=16):
    return Digits(**SMALL).restore_problem({"labels": ["no", "yes"]}, tools(context))


def test_patches_stand_behind_the_words():
    record = {"image": list(range(16)), "question": "which pattern", "label": "yes"}
    problem = opened()
    [example] = problem.examples(record)
    roles = [problem.tools.tokenizer.require(role) for role in ("cls", "sep", "pad")]
    assert example.inputs[[0, 3, 4]].tolist() == roles
    assert example.modalities.tolist() == [0] * 4 + [1] * 4
    assert (example.patches[1] * 16).tolist() == [2, 3, 6, 7]
    assert example.labels.tolist() == [1]
    long = {**record, "question": "which pattern is it straight"}
    assert opened(context=9).lost(long) == 2


def test_a_picture_may_be_rows_or_text():
    task = Digits(**SMALL)
    flat = list(range(16))
    forms = (flat, np.reshape(flat, (4, 4)).tolist(), json.dumps(flat), " ".join(map(str, flat)))
    pixels = [task.pixels({"image": form}) for form in forms]
    assert all(np.array_equal(pixels[0], other) for other in pixels[1:])
    assert pixels[0].max() == pytest.approx(15 / 16)


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ([0] * 15, "holds 15 numbers where image_side = 4 takes 16"),
        ([0] * 15 + [17], "holds 0 to 17 where ink goes from 0 to full_ink = 16"),
        ([0] * 15 + [float("nan")], "where ink goes"),
        ("no picture", "holds no numbers"),
        ([[0, 1], [2]], "holds no numbers"),
        ("", "holds no numbers"),
        ({"a": 1}, "holds no numbers"),
    ],
)
def test_a_picture_that_cannot_be_read_is_named(image, words):
    with pytest.raises(UserError, match=words) as problem:
        Digits(**SMALL).check(Record({"image": image}, at="mine.jsonl, line 3"))
    assert "mine.jsonl, line 3" in str(problem.value)


def test_a_bad_picture_in_test_stops_before_the_training(home, tmp_path):
    bad = write(tmp_path / "test.jsonl", [*rows(3, 0), {**rows(1, 0)[0], "image": [1, 2]}])
    changed = table(home, "digits")
    changed["data"] = {**changed["data"], "test": bad}
    with pytest.raises(UserError, match="line 4"):
        regard.train(Recipe.from_table(changed), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(UserError, match="patch_side = 3 does not divide image_side = 4"):
        Recipe.from_table(
            {
                "name": "x",
                "data": {"corpus": "digits"},
                "model": {"family": "encoder"},
                "task": {"kind": "digits", "image_side": 4, "patch_side": 3},
            }
        )
    with pytest.raises(UserError, match="no room for words beside 4 patches"):
        opened(context=6).examples({"image": [0] * 16, "question": "which"})
    plain = Encoder(layers=1, heads=1, width=8, context=16)
    for model, reads in ((plain, "words alone"), (plain.model_copy(update={"patch_dim": 9}), 9)):
        built = model.build(vocabulary=20, seed=0)
        with pytest.raises(UserError, match=f"hold 4 numbers, and the model reads {reads}"):
            opened().attach_head(built, seed=0)


def test_judged_rows_always_hide_the_same_and_trained_ones_do_not():
    problem = Patches(**SMALL, share=0.5).build_problem([], tools())
    record = {"image": list(range(16)), "question": "which pattern"}
    [first], [again] = problem.examples(record), problem.examples(record)
    assert np.array_equal(first.patches, again.patches)
    drawn = [problem.drawn(first, np.random.default_rng(seed)) for seed in range(8)]
    assert len({example.patches.tobytes() for example in drawn}) > 2
    for example in drawn:
        hidden = (example.patches < 0).all(axis=1)
        assert hidden.sum() == example.weights.sum() == 2
        assert np.flatnonzero(example.weights).tolist() == (4 + np.flatnonzero(hidden)).tolist()
        whole = Digits(**SMALL).cut(record)
        assert np.array_equal(example.labels, whole[hidden].ravel())


def test_the_same_question_about_another_picture_is_another_row():
    class Corpus:
        name, generated = "mine", False
        fingerprints = dict.fromkeys(("train", "dev", "test"), "0" * 16)

        class dropped:  # noqa: N801
            @staticmethod
            def as_dict():
                return {}

    made = [{**row, "label": row["answer"]} for row in rows(40, 0)]
    records = {"train": made[:20], "dev": made[20:30], "test": made[18:20] + made[30:38]}
    found = task_statistics(Corpus(), records, Digits(**SMALL), tools().tokenizer)
    assert found["overlap"]["dev"]["documents"] == 0
    assert found["overlap"]["test"]["documents"] == pytest.approx(0.2)
