"""The Python API, with the names of the commands, on a tiny run (generated text)."""

import contextlib
import json
import math
import random
from pathlib import Path

import pytest
import tomli_w
import torch
from tests.in_process_trainings import in_process_trainings as in_process_trainings

import regard
from regard import UserError
from regard.attention.masks.mask import causal
from regard.evaluation.formatting import number
from regard.models.inputs import ModelInputs
from regard.runs.observer import Observer
from regard.runs.run import Run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("api")
    generator = random.Random(0)
    words = ["the", "cat", "dog", "sees", "likes", "a", "red", "small", "house"]
    text = "\n".join(
        " ".join(generator.choices(words, k=generator.randint(4, 12))) for _ in range(500)
    )
    (folder / "generated.txt").write_text(text)
    recipe = regard.Recipe.from_table(
        {
            "name": "tiny",
            "data": {"corpus": str(folder / "generated.txt")},
            "tokenizer": {"kind": "word"},
            "model": {"family": "decoder", "layers": 1, "heads": 2, "width": 16, "context": 12},
            "train": {"max_steps": 30, "batch_tokens": 240, "lr": 0.01, "evaluate_every": 10},
        }
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        yield regard.train(recipe, out=folder / "run")


def test_public_functions_stay_callable_after_use(run):
    assert callable(regard.train)
    assert callable(regard.load)
    assert callable(regard.evaluate)


def test_results_hold_the_model_and_its_baselines(run):
    estimates = {(row.split, row.of, row.metric): row for row in run.results().estimates}
    model = estimates["dev", "model", "perplexity"]
    assert model.low <= model.value <= model.high
    assert model.value < 30
    for baseline in ("unigram", "Kneser-Ney 3-gram"):
        assert estimates["dev", baseline, "perplexity"].n == model.n
    assert "split:dev:" in model.signature
    verdicts = {(row.split, row.against) for row in run.results().comparisons}
    assert verdicts == {
        (split, of) for split in ("dev", "test") for of in ("unigram", "Kneser-Ney 3-gram")
    }


def test_loss_is_the_mean_cross_entropy_per_token(run):
    loaded = regard.load(run.folder)
    text = "the cat sees a red house"
    [loss] = loaded.loss([text])
    ids = [loaded.tokenizer.start, *loaded.tokenizer.encode(text), loaded.tokenizer.stop]
    with torch.no_grad():
        logits = loaded.model.logits(ModelInputs(torch.tensor([ids[:-1]])))
    expected = torch.nn.functional.cross_entropy(logits[0], torch.tensor(ids[1:]))
    assert math.isclose(loss, float(expected), rel_tol=1e-5)


def test_generation_is_seeded_and_independent_of_the_batch(run):
    loaded = regard.load(run.folder)
    texts = loaded.generate(["the cat", "a small red dog likes"], seed=3, max_new_tokens=8)
    assert texts == loaded.generate(["the cat", "a small red dog likes"], seed=3, max_new_tokens=8)
    assert loaded.generate(["the cat"], seed=3, max_new_tokens=8) == texts[:1]
    assert loaded.generate(["the cat"], seed=4, max_new_tokens=8) != texts[:1]


def test_evaluate_reproduces_the_results_of_training(run):
    evaluated = regard.evaluate(run.folder)
    assert evaluated.estimates == run.results().estimates
    assert evaluated.weights == run.results().weights


def test_training_is_reproducible_to_the_bit(run, tmp_path):
    second = regard.train(run.recipe(), out=tmp_path / "again")
    assert second.results().weights == run.results().weights
    assert second.results().identity == run.results().identity


def test_attend_and_masks_are_public():
    q = torch.randn(1, 1, 3, 2)
    assert regard.attend(q, q, q, regard.mask.causal()).path == "fused-causal"
    assert regard.mask.causal().draw(3) == causal().draw(3)


def test_files_of_a_run_folder(run):
    names = {path.name for path in run.folder.iterdir()}
    assert names == {
        "recipe.toml",
        "origin.json",
        "events.jsonl",
        "audit.json",
        "items",
        "results.json",
        "samples.txt",
        "checkpoints",
        "final",
        "seal.json",
    }
    events = [json.loads(line) for line in run.events_file.read_text().splitlines()]
    types = {event["event"] for event in events}
    assert {"forecast", "start", "step", "evaluation", "sample", "checkpoint", "finish"} <= types


@pytest.fixture
def study(run, tmp_path):
    """A study of two variants that train for a moment; the second has a wider MLP."""
    (tmp_path / "base.toml").write_text(run.recipe().to_toml())
    table = {
        "base": str(tmp_path / "base.toml"),
        "name": "widths",
        "seeds": [0, 1],
        "variants": {"narrow": {"train.max_steps": 6}, "wide": {"train.max_steps": 7}},
    }
    file = tmp_path / "widths.toml"
    file.write_text(tomli_w.dumps(table))
    with contextlib.chdir(tmp_path):
        yield file


@pytest.mark.usefixtures("in_process_trainings")
def test_compare_returns_verdicts_and_estimates_and_writes_the_report(study):
    jobs = []
    observer = Observer(on_job=lambda state, job, detail: jobs.append((state, job.title)))
    outcome = regard.compare(study, jobs=1, only="narrow", observer=observer)
    assert {title for state, title in jobs if state == "finished"} == {
        "narrow · seed 0",
        "narrow · seed 1",
    }
    assert all("not selected" in line for line in outcome.missing)
    assert outcome.verdicts[0].value is None, "nothing to compare with yet"
    outcome = regard.compare(study, jobs=1)
    assert outcome.missing == []
    [deciding] = [one for one in outcome.verdicts if one.score_key == outcome.decides]
    assert (deciding.variant, deciding.reference, deciding.seeds) == ("wide", "narrow", 2)
    rows = outcome.estimates()
    assert {type(value) for row in rows for value in row.values()} <= {
        *(str, int, float, bool, type(None))
    }
    assert len({tuple(row) for row in rows}) == 1, "every row has the same columns"
    by_key = {(row["of"], row["split"], row["metric"]): row for row in rows}
    wide = by_key["wide", "dev", "perplexity"]
    assert wide["low"] <= wide["value"] <= wide["high"]
    assert wide["seeds"] == 2
    assert by_key["unigram", "dev", "perplexity"]["n"] == wide["n"]
    narrow, wide_row = outcome.table()
    assert (narrow["train.max_steps"], wide_row["train.max_steps"]) == (6, 7)
    assert wide_row["dev.perplexity"] == wide["value"]
    assert wide_row["audit"] == "clean"
    page = outcome.folder / "report.html"
    assert deciding.sentence.split(" by ")[0] in page.read_text()


@pytest.mark.usefixtures("in_process_trainings")
def test_folder_of_a_study_is_read_back_and_reported(study, run):
    outcome = regard.compare(study, jobs=1, seeds=[3])
    folder, page = outcome.folder, outcome.folder / "report.html"
    page.unlink()
    assert regard.compare(folder) == outcome
    assert page.is_file()
    page.unlink()
    assert regard.report(outcome) == page
    assert "<title>widths" in page.read_text()
    with pytest.raises(UserError, match="seeds"):
        regard.compare(folder, seeds=[1])
    elsewhere = folder / "pages" / "run.html"
    assert regard.report(run.folder, out=elsewhere) == elsewhere
    assert "<title>tiny" in elsewhere.read_text()
    assert "regard-cell" in outcome._repr_html_()


def test_validate_counts_what_training_will_cost(run):
    events = []
    checked = regard.validate(run.recipe(), observer=Observer(on_event=events.append))
    trained = run.results()
    assert checked.forecast.steps == trained.cost.steps == 30
    assert checked.forecast.parameters == trained.cost.parameters
    assert sum(one.value for one in checked.parameters) == checked.ledger.of
    assert {name: one.documents for name, one in checked.splits.items()} == {
        name: one.documents for name, one in trained.corpus.splits.items()
    }
    assert checked.vocabulary == trained.tokenizer.size
    assert checked.padding_waste == trained.cost.padding_waste
    assert (checked.advice, checked.trained_first) == ("", "")
    assert checked.ledger.is_projected
    assert list(checked.remarks) == [one.text for one in events if one.event == "remark"]


def test_lesson_runs_with_its_parameters():
    lesson = regard.lesson("average-of-two", beta=10)
    assert lesson.passed
    assert lesson.parameters["beta"] == 10
    assert lesson.info.question in lesson._repr_html_()


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: regard.compare("gone.toml"), "gone.toml"),
        (lambda: regard.compare(".", seeds=[1]), "seeds"),
        (lambda: regard.compare("."), "outcome.json"),
        (lambda: regard.report("gone"), "gone"),
        (lambda: regard.validate("gone.toml"), "gone.toml"),
        (lambda: regard.lesson("average-of-tow"), "average-of-two"),
        (lambda: regard.lesson("average-of-two", betta=1), "beta"),
        (lambda: regard.lesson("average-of-two", beta=1000), "50"),
        (lambda: regard.lesson(5), "name is of type int"),
        (lambda: regard.train(5), "recipe is of type int"),
        (lambda: regard.validate(None), "recipe is of type NoneType"),
        (lambda: regard.report(5), "folder is of type int"),
        (lambda: regard.report("."), "not a run"),
        (lambda: regard.load(None), "folder is of type NoneType"),
        (lambda: regard.compare("gone.toml", seeds=3), "seeds = 3"),
        (lambda: regard.compare("gone.toml", seeds=["a"]), r"seeds = \['a'\]"),
        (lambda: regard.compare("gone.toml", jobs=-1), "jobs = -1"),
        (lambda: regard.compare("gone.toml", user_files="gone.py"), r"gone\.py does not exist"),
        (lambda: regard.train("gone.toml", user_files=Path("gone.py")), r"gone\.py does not exist"),
        (lambda: regard.train("gone.toml", user_files=5), "user_files is of type int"),
        (lambda: regard.predict("run", ""), "rows is ''"),
        (lambda: regard.inspect("run", None), "text is of type NoneType"),
        (lambda: regard.audit(torch.nn.Linear(2, 2), mask=5), "mask is of type int"),
        (lambda: regard.import_model(5, "out"), "source is of type int"),
        (lambda: regard.mask.causal().draw(100_000), "Give 1 to 500"),
    ],
)
def test_wrong_input_is_one_sentence(call, named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=named) as refused:
        call()
    assert "\n" not in str(refused.value)


def test_lone_text_is_refused(run):
    loaded = regard.load(run)
    for function in (loaded.loss, loaded.generate, loaded.encode):
        with pytest.raises(UserError, match="list of texts"):
            function("the cat")


def test_mask_composes_with_masks_only():
    with pytest.raises(TypeError):
        regard.mask.causal() & 5


def test_run_and_model_are_accepted_for_a_folder(run, tmp_path):
    model = regard.load(run)
    assert regard.report(run, out=tmp_path / "page.html").is_file()
    assert regard.ledger(model) == regard.ledger(run)
    assert regard.audit(run).verdict == regard.audit(model).verdict
    with pytest.raises(UserError, match="run is of type LoadedModel"):
        regard.evaluate(model)


@pytest.mark.usefixtures("in_process_trainings")
def test_study_without_a_finished_run_is_an_error_with_a_report(study, monkeypatch):
    def refuse(*_, **__):
        raise UserError("no text")

    monkeypatch.setattr("regard.api.train", refuse)
    message = r"no run of runs.widths is finished: narrow · seed 0: no text.*report\.html"
    with pytest.raises(UserError, match=message):
        regard.compare(study, jobs=1)
    assert Path("runs/widths/report.html").is_file()
    with pytest.raises(UserError, match="is finished"):
        regard.compare("runs/widths")
    assert regard.report("runs/widths").is_file()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: regard.compare("tiny.toml"), "is a recipe, not a study. regard train tiny.toml"),
        (lambda: regard.compare("gone.toml"), "does not exist. Give a study"),
        (lambda: regard.train("gone.toml"), "does not exist. Give a recipe"),
        (lambda: regard.report("gone"), "it does not exist"),
    ],
)
def test_other_file_than_expected_is_named(call, says, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("tiny.toml").write_text(run.recipe().to_toml())
    with pytest.raises(UserError) as refused:
        call()
    assert says in str(refused.value)


def test_notebook_shows_one_sentence_for_what_cannot_be_read(tmp_path):
    gone = Run(tmp_path / "<gone>")
    assert gone._repr_html_().startswith("<p>run: ")
    assert "&lt;gone&gt;" in gone._repr_html_()
    problem = UserError("wrong", topic="run", hint="Do it right.")
    assert problem._render_traceback_() == ["run: wrong. Do it right."]


def test_train_shows_progress_only_where_someone_watches(run, tmp_path, monkeypatch, capsys):
    recipe = run.recipe()
    regard.train(recipe, out=tmp_path / "redirected")
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    regard.evaluate(tmp_path / "redirected", observer=Observer())
    assert capsys.readouterr() == ("", "")
    regard.train(recipe, out=tmp_path / "watched")
    shown = capsys.readouterr()
    assert "dev perplexity" in shown.err
    assert shown.out == ""


def test_results_show_themselves_in_a_notebook(run):
    results = run.results()
    score = number(next(row.value for row in results.estimates if row.split == "dev"))
    for shown in (run._repr_html_(), results._repr_html_()):
        assert score in shown
    ledger = regard.ledger(run.folder)
    assert f"{ledger.total:,}" in ledger._repr_html_()
    audit = regard.audit(run.folder)
    assert audit.sentence().removeprefix("clean: ") in audit._repr_html_()
    window = regard.mask.causal() & regard.mask.sliding_window(4)
    assert window._repr_html_() == window.draw_svg(9)
    packed = regard.mask.same_document(torch.tensor([[0, 0, 1, 1, 1]]))
    assert packed._repr_html_() == packed.draw_svg(5)
    assert regard.mask.same_document(torch.zeros(1, 501, dtype=torch.long))._repr_html_() is None
