"""Translation and summarisation: inputs, loss, decoding, baselines, and a whole training."""

import json
import math
import re
from itertools import product
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard.batch import collate
from regard.core.errors import UserError
from regard.data.record_corpus import Record
from regard.data.tokenizers.word import Word
from regard.evaluation.metrics.bleu_and_rouge import sentence_rows
from regard.evaluation.metrics.scoring import score
from regard.generation.generate import BeamSearch, Greedy
from regard.models.families.decoder import Decoder
from regard.models.families.encoder import Encoder
from regard.models.families.encoder_decoder import EncoderDecoder
from regard.models.families.recurrent import Recurrent
from regard.models.inputs import ModelInputs
from regard.models.model import token_losses
from regard.runs.recipe import Recipe, build_tools
from regard.tasks import mean_loss
from regard.tasks.text_generation.summarisation import Summarisation
from regard.tasks.text_generation.text_to_text import POSITIONS_PER_TOKEN
from regard.tasks.text_generation.translation import Translation

NUMBERS = {
    "one": "un",
    "two": "deux",
    "three": "trois",
    "four": "quatre",
    "five": "cinq",
    "six": "six",
}
SMALL = {"layers": 1, "heads": 2, "width": 16}
MODELS = {
    "encoder-decoder": EncoderDecoder(**SMALL, context=12),
    "recurrent": Recurrent(width=16, context=12),
    "decoder": Decoder(**SMALL, context=24),
}


def translation_record(source: str) -> Record:
    return Record({"source": source, "target": " ".join(NUMBERS[word] for word in source.split())})


@pytest.fixture(scope="module")
def tokenizer():
    return Word(minimum_count=1).train(iter([*NUMBERS, *NUMBERS.values()]))


def make_problem(tokenizer, family, task=None):
    task = task or Translation(max_new_tokens=8)
    return task.build_problem([], build_tools(task, family, tokenizer))


def tokens(tokenizer, ids):
    return " ".join(tokenizer.tokens(ids))


@pytest.mark.parametrize("family", ["encoder-decoder", "recurrent"])
def test_encoder_decoder_examples_have_source_and_target(tokenizer, family):
    problem = make_problem(tokenizer, MODELS[family])
    [example] = problem.examples(translation_record("one two three"))
    assert tokens(tokenizer, example.source) == "<start> one two three"
    assert tokens(tokenizer, example.inputs) == "<start> un deux trois"
    assert tokens(tokenizer, example.targets) == "un deux trois <stop>"
    assert example.weights.tolist() == [1, 1, 1, 1]


def test_decoder_examples_are_one_row_with_loss_on_the_target_only(tokenizer):
    [example] = make_problem(tokenizer, MODELS["decoder"]).examples(translation_record("one two"))
    assert example.source is None
    assert tokens(tokenizer, example.inputs) == "<start> one two [SEP] un deux"
    scored = example.targets[example.weights > 0]
    assert tokens(tokenizer, scored) == "un deux <stop>"
    assert len(example.targets) == len(example.inputs)


@settings(max_examples=40, deadline=None)
@given(
    family=st.sampled_from(sorted(MODELS)),
    context=st.integers(6, 14),
    lengths=st.tuples(st.integers(1, 20), st.integers(1, 20)),
)
def test_examples_fit_the_context_and_truncated_tokens_are_counted(
    tokenizer, family, context, lengths
):
    model_settings = MODELS[family].model_copy(update={"context": context})
    problem = make_problem(tokenizer, model_settings)
    record = Record({"source": "one " * lengths[0], "target": "deux " * lengths[1]})
    [example] = problem.examples(record)
    assert len(example.inputs) <= context
    assert example.source is None or len(example.source) <= context
    ids = [*example.inputs, *(example.source if example.source is not None else [])]
    kept = sum(token >= 7 for token in ids)  # special tokens have the first seven ids
    assert kept + problem.truncated_tokens(record) == sum(lengths)
    # A truncated target has no loss on <stop>.
    is_complete = sum(example.inputs == tokenizer.encode("deux")[0]) == lengths[1]
    assert bool(example.weights[-1]) == is_complete
    # Prompt and generated tokens fit the context, so that the source is never cut off.
    prompt = len(problem.source_ids(record)) if family == "decoder" else 1
    assert prompt + problem.max_new_tokens - 1 <= context


def test_every_reference_is_a_training_example(tokenizer):
    record = Record({"source": "one", "target": ["un", "deux", " "]})
    examples = make_problem(tokenizer, MODELS["recurrent"]).examples(record)
    assert [tokens(tokenizer, each.inputs) for each in examples] == ["<start> un", "<start> deux"]


def test_label_smoothing_changes_the_training_loss_only(tokenizer):
    task = Translation(max_new_tokens=8, smoothing=0.2)
    for family in MODELS.values():
        problem = make_problem(tokenizer, family, task)
        model = family.build(vocabulary=tokenizer.size, seed=0)
        examples = problem.examples(translation_record("one two three"))
        batch = collate(examples, pad_id=0, rows=[0])
        loss = (token_losses(model, batch) * batch.weights).sum().item()
        assert model.eval()(batch)["token"].sum.item() == pytest.approx(loss, rel=1e-6)
        assert model.train()(batch)["token"].sum.item() != pytest.approx(loss, rel=1e-6)


def reference_greedy(model, problem, tokenizer, record, max_new_tokens):
    """Greedy decoding by full forward passes without a cache: ids, log-probability, steps."""
    start, stop = tokenizer.start, tokenizer.stop
    suppressed = [tokenizer.pad, start, tokenizer.cls, tokenizer.sep, tokenizer.mask]
    source = torch.tensor([problem.source_ids(record)])
    generated: list[int] = []
    total = 0.0
    for _ in range(max_new_tokens):
        if problem.is_single_row:
            logits = model.logits(
                ModelInputs(torch.cat((source, torch.tensor([generated]).long()), dim=1))
            )
        else:
            ids, valid = torch.tensor([[start, *generated]]), torch.ones_like(source).bool()
            logits = model.logits(ModelInputs(ids, source=source, source_valid=valid))
        last = logits[0, -1].double()
        last[suppressed] = -math.inf
        logprob, token = last.log_softmax(dim=0).max(dim=0)
        total += float(logprob)
        if int(token) == stop:
            return generated, total, len(generated) + 1
        generated.append(int(token))
    return generated, total, len(generated)


@pytest.mark.parametrize("family", sorted(MODELS))
def test_batched_answers_equal_decoding_each_row_alone(tokenizer, family):
    problem = make_problem(tokenizer, MODELS[family], Translation(max_new_tokens=5, beams=1))
    model = MODELS[family].build(vocabulary=tokenizer.size, seed=3).eval()
    with torch.no_grad():  # larger weights, so that answers differ and some of them stop
        for parameter in model.parameters():
            parameter.mul_(8.0)
    sources = ["two", "one two three four five", "six five", "three three three"]
    records = [translation_record(source) for source in sources]
    answers = problem.answer(model, records)
    assert [row["item"] for row in answers] == [0, 1, 2, 3]
    for row, record in zip(answers, records, strict=True):
        with torch.inference_mode():
            ids, logprob, steps = reference_greedy(model, problem, tokenizer, record, 5)
            loss = mean_loss(model, problem.examples(record), pad=0, device="cpu")
        assert row["predicted"] == tokenizer.decode(ids)
        assert row["confidence"] == pytest.approx(math.exp(logprob / steps), rel=1e-4)
        assert row["stopped"] == (steps > len(ids))
        assert row["truths"] == [record["target"]]
        assert row["loss"] == pytest.approx(loss, rel=1e-5)
        assert row["source_words"] == len(record["source"].split())


def test_rows_without_a_reference_are_answered(tokenizer):
    problem = make_problem(tokenizer, MODELS["recurrent"])
    model = MODELS["recurrent"].build(vocabulary=tokenizer.size, seed=0).eval()
    [row] = problem.answer(model, [Record({"source": "one two"})])
    assert "truths" not in row
    assert "loss" not in row
    assert 0 < row["confidence"] <= 1
    assert all("did not end" in sentence for sentence in problem.warnings([row]))


def test_one_beam_is_greedy_and_several_are_beam_search(tokenizer):
    assert isinstance(
        make_problem(tokenizer, MODELS["decoder"], Translation(beams=1))._strategy, Greedy
    )
    strategy = make_problem(tokenizer, MODELS["decoder"], Translation(length_penalty=1.0))._strategy
    assert strategy == BeamSearch(width=4, length_penalty=1.0)


def test_generation_is_batched_and_answers_keep_the_order_of_rows(tokenizer, monkeypatch):
    monkeypatch.setattr(
        "regard.tasks.text_generation.text_to_text.MAX_CACHED_POSITIONS", 12 * 2 * 3
    )
    problem = make_problem(tokenizer, MODELS["recurrent"], Translation(beams=2, max_new_tokens=4))
    model = MODELS["recurrent"].build(vocabulary=tokenizer.size, seed=1).eval()
    records = [translation_record(" ".join(["one", "two", "six"][: 1 + n % 3])) for n in range(8)]
    progress = []
    answers = problem.answer(model, records, on_progress=lambda done, total: progress.append(done))
    assert progress == [3, 6, 8]
    assert [row["item"] for row in answers] == list(range(8))
    assert [row["truths"][0] for row in answers] == [record["target"] for record in records]


def test_a_context_too_short_for_a_source_is_refused(tokenizer):
    with pytest.raises(UserError, match=r"model\.context = 4 .* source"):
        make_problem(tokenizer, Decoder(**SMALL, context=4), Translation(max_new_tokens=9))


def test_an_encoder_is_refused(tokenizer):
    problem = make_problem(tokenizer, MODELS["recurrent"])
    model = Encoder(**SMALL).build(vocabulary=tokenizer.size, seed=0)
    with pytest.raises(UserError, match="cannot be put on a EncoderModel"):
        problem.attach_head(model, seed=0)


def test_baseline_of_translation_copies_the_source(tokenizer):
    problem = make_problem(tokenizer, MODELS["recurrent"])
    records = [translation_record("one two"), Record({"source": "six", "target": ["six", "seis"]})]
    [(label, rows)] = problem.baselines([], {"dev": records})
    assert label == "copy the source"
    assert rows["dev"][0] == {"item": 0, "predicted": "one two", "truths": ["un deux"]}
    assert rows["dev"][1]["truths"] == ["six", "seis"]


def test_baseline_of_summarisation_is_the_lead_sentence(tokenizer):
    task = Summarisation()
    problem = make_problem(tokenizer, MODELS["recurrent"], task)
    records = [
        Record({"document": "Dr. One came. Two left.", "summary": "One came."}),
        Record({"document": ["First.", "Second."], "summary": ["A.", "B."]}),
    ]
    assert task.texts(records[1]) == ["First. Second.", "A.", "B."]
    assert task.input_texts(records[1]) == ["First. Second."]
    [(label, rows)] = problem.baselines([], {"test": records})
    assert label == "lead sentence"
    assert [row["predicted"] for row in rows["test"]] == ["Dr. One came.", "First."]
    assert problem.metric.score_names == ("rouge1", "rouge2", "rougeL")


def test_rouge_takes_the_best_of_several_references(tokenizer):
    problem = make_problem(tokenizer, MODELS["decoder"], Summarisation(max_new_tokens=6, beams=2))
    model = MODELS["decoder"].build(vocabulary=tokenizer.size, seed=2).eval()
    records = [
        Record({"document": ["one two", "three"], "summary": ["deux", "un"]}),
        Record({"document": "four five", "summary": "cinq"}),
    ]
    answers = problem.answer(model, records)
    assert [row["truths"] for row in answers] == [["deux", "un"], ["cinq"]]
    rows = [row | {"predicted": text} for row, text in zip(answers, ["un", "six"], strict=True)]
    rouge = {estimate.name: estimate.value for estimate in score(problem.metric, rows, split="dev")}
    assert rouge["rouge1"] == pytest.approx(0.5)


def test_positions_to_answer_count_every_beam(tokenizer):
    record = translation_record("one two three")
    costs = [
        make_problem(tokenizer, MODELS["recurrent"], Translation(beams=beams)).positions_to_answer(
            record
        )
        for beams in (1, 4)
    ]
    # Three more beams generate four tokens each, <stop> included.
    assert costs[1] - costs[0] == POSITIONS_PER_TOKEN * 3 * 4


def test_unequal_numbers_of_answers_and_references_are_refused():
    with pytest.raises(UserError, match="2 hypotheses came with 1 references"):
        sentence_rows(["a", "b"], [["a"]])


def result_rows(answers, **fields):
    return [
        {"item": n, "predicted": text, "truths": [f"reference {n}"], "stopped": True, **fields}
        for n, text in enumerate(answers)
    ]


def test_warnings_report_repeated_unfinished_and_empty_answers(tokenizer):
    problem = make_problem(tokenizer, MODELS["recurrent"])
    healthy = result_rows([f"answer {n}" for n in range(12)])
    assert problem.warnings(healthy) == ()
    [repeated] = problem.warnings(result_rows(["a man ."] * 9))
    assert re.match(r"'a man \.' .* 9 of 9", repeated)
    unfinished = problem.warnings(result_rows(["x", "y"], stopped=False))[0]
    assert re.fullmatch("2 of 2 answers .* 8 tokens", unfinished)
    empty = result_rows([""] * 30)
    assert any("30 of 30 samples are empty" in sentence for sentence in problem.warnings(empty))


def test_scores_by_source_length(tokenizer):
    problem = make_problem(tokenizer, MODELS["recurrent"], Translation(length_edges=(5, 10)))
    short = result_rows(["the cat sat on a mat"] * 4, source_words=4)
    long = result_rows(["no"] * 3, source_words=30)
    rows = [row | {"item": n} for n, row in enumerate(short + long)]
    rows = [row | {"truths": ["the cat sat on a mat"]} for row in rows]
    table = problem.tables(rows, split="dev")["by source length"]
    bleu = [row for row in table if row["metric"] == "bleu"]
    assert [(row["words"], row["n"]) for row in bleu] == [("below 5", 4), ("10 and more", 3)]
    assert bleu[0]["value"] == pytest.approx(100)
    assert bleu[1]["value"] < 1
    assert bleu[0]["low"] is not None
    assert json.loads(json.dumps(table)) == table


def test_length_edges_must_increase():
    with pytest.raises(UserError, match=r"task\.length_edges"):
        Recipe.from_table(
            {
                "name": "a",
                "data": {"corpus": "phrases"},
                "model": {"family": "recurrent"},
                "task": {"kind": "translation", "length_edges": [9, 9]},
            }
        )


def number_records(n, seed):
    random = Random(seed)
    sources = [" ".join(words) for k in (4, 5) for words in product(NUMBERS, repeat=k)]
    return [translation_record(source) for source in random.sample(sources, n)]


def write_parallel(folder, split, records):
    for side, role in (("en", "source"), ("fr", "target")):
        lines = "".join(record[role] + "\n" for record in records)
        (folder / f"{split}.{side}").write_text(lines, encoding="utf-8")


def test_training_learns_to_translate_and_reports_its_scores(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    records = number_records(360, seed=1)
    for split, rows in (
        ("train", records[:300]),
        ("dev", records[300:330]),
        ("test", records[330:]),
    ):
        write_parallel(tmp_path, split, rows)
    recipe = Recipe.from_table(
        {
            "name": "numbers",
            "data": {"corpus": "train.{en,fr}", "dev": "dev.{en,fr}", "test": "test.{en,fr}"},
            "tokenizer": {"kind": "word"},
            "model": {"family": "recurrent", "attention": "dot", "width": 64, "context": 8},
            "task": {
                "kind": "translation",
                "source": "en",
                "target": "fr",
                "beams": 2,
                "smoothing": 0.1,
                "length_edges": [5],
            },
            "train": {
                "max_steps": 120,
                "batch_tokens": 400,
                "lr": 5e-3,
                "evaluate_every": 50,
                "threads": 1,
            },
            "evaluate": {"documents": 30},
        }
    )
    run = regard.train(recipe, out=tmp_path / "run")
    results = run.results()
    scores = {
        (row.split, row.of, row.metric): row.value
        for row in results.estimates
        if row.split != "train"
    }
    assert scores["test", "model", "chrf"] > 80
    assert scores["test", "copy the source", "chrf"] < 50
    [comparison] = [row for row in results.comparisons if row.split == "test"]
    assert comparison.verdict == "better than"
    assert {row["words"] for row in results.tables["by source length"]} == {
        "below 5",
        "5 and more",
    }
    loaded = regard.load(run.folder)
    answers = loaded.problem.answer(loaded.model, records[330:])
    items = [json.loads(line) for line in (run.folder / "items/test.jsonl").open()]
    assert [row["predicted"] for row in answers] == [row["predicted"] for row in items]


def test_parallel_files_of_unequal_length_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    write_parallel(tmp_path, "train", number_records(40, seed=2))
    (tmp_path / "train.fr").write_text("un\n" * 39)
    recipe = Recipe.from_table(
        {
            "name": "numbers",
            "data": {"corpus": "train.{en,fr}"},
            "model": {"family": "recurrent"},
            "task": {"kind": "translation", "source": "en", "target": "fr"},
        }
    )
    with pytest.raises(UserError, match=r"train\.en has 40, train\.fr has 39"):
        regard.train(recipe, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
