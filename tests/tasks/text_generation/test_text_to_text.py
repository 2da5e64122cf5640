"""Translation and summarisation: packing, loss, answers, baselines, and a model that learns."""

import json
import math
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
from regard.evaluation.metrics.metric import score
from regard.generation.generate import BeamSearch, Greedy
from regard.models.families.decoder import Decoder
from regard.models.families.encoder import Encoder
from regard.models.families.encoder_decoder import EncoderDecoder
from regard.models.families.recurrent import Recurrent
from regard.runs.recipe import Recipe, tools_of
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
WIDE = {"layers": 1, "heads": 2, "width": 16}
MODELS = {
    "encoder-decoder": EncoderDecoder(**WIDE, context=12),
    "recurrent": Recurrent(width=16, context=12),
    "decoder": Decoder(**WIDE, context=24),
}


def translated(source: str) -> Record:
    return Record({"source": source, "target": " ".join(NUMBERS[word] for word in source.split())})


@pytest.fixture(scope="module")
def tokenizer():
    return Word(minimum_count=1).train(iter([*NUMBERS, *NUMBERS.values()]))


def problem_of(tokenizer, family, task=None):
    task = task or Translation(max_new_tokens=8)
    return task.build_problem([], tools_of(task, family, tokenizer))


def words_at(tokenizer, ids):
    return " ".join(tokenizer.tokens(ids))


@pytest.mark.parametrize("family", ["encoder-decoder", "recurrent"])
def test_a_model_with_a_source_reads_it_apart(tokenizer, family):
    [example] = problem_of(tokenizer, MODELS[family]).examples(translated("one two three"))
    assert words_at(tokenizer, example.source) == "<start> one two three"
    assert words_at(tokenizer, example.inputs) == "<start> un deux trois"
    assert words_at(tokenizer, example.targets) == "un deux trois <stop>"
    assert example.weights.tolist() == [1, 1, 1, 1]


def test_a_decoder_reads_both_in_a_row_and_tells_the_target_alone(tokenizer):
    [example] = problem_of(tokenizer, MODELS["decoder"]).examples(translated("one two"))
    assert example.source is None
    assert words_at(tokenizer, example.inputs) == "<start> one two [SEP] un deux"
    told = example.targets[example.weights > 0]
    assert words_at(tokenizer, told) == "un deux <stop>"
    assert len(example.targets) == len(example.inputs)


@settings(max_examples=40, deadline=None)
@given(
    family=st.sampled_from(sorted(MODELS)),
    context=st.integers(6, 14),
    lengths=st.tuples(st.integers(1, 20), st.integers(1, 20)),
)
def test_rows_fit_and_what_does_not_is_counted(tokenizer, family, context, lengths):
    settings_of = MODELS[family].model_copy(update={"context": context})
    problem = problem_of(tokenizer, settings_of)
    record = Record({"source": "one " * lengths[0], "target": "deux " * lengths[1]})
    [example] = problem.examples(record)
    assert len(example.inputs) <= context
    assert example.source is None or len(example.source) <= context
    read = [*example.inputs, *(example.source if example.source is not None else [])]
    kept = sum(token >= 7 for token in read)  # specials have the first seven ids
    assert kept + problem.lost(record) == sum(lengths)
    # A stop is taught only where the target really ends.
    whole = sum(example.inputs == tokenizer.encode("deux")[0]) == lengths[1]
    assert bool(example.weights[-1]) == whole
    # Whatever is written has room behind what is read, so the source never slides out of sight.
    prompt = len(problem.read(record)) if family == "decoder" else 1
    assert prompt + problem.max_new_tokens - 1 <= context


def test_every_reference_is_learnt_from(tokenizer):
    record = Record({"source": "one", "target": ["un", "deux", " "]})
    examples = problem_of(tokenizer, MODELS["recurrent"]).examples(record)
    assert [words_at(tokenizer, each.inputs) for each in examples] == ["<start> un", "<start> deux"]


def test_smoothing_is_for_learning_alone(tokenizer):
    task = Translation(max_new_tokens=8, smoothing=0.2)
    for family in MODELS.values():
        problem = problem_of(tokenizer, family, task)
        model = family.build(vocabulary=tokenizer.size, seed=0)
        examples = problem.examples(translated("one two three"))
        batch = collate(examples, pad_id=0, rows=[0])
        plain = (model.losses(batch) * batch.weights).sum().item()
        assert model.eval()(batch)["token"].sum.item() == pytest.approx(plain, rel=1e-6)
        assert model.train()(batch)["token"].sum.item() != pytest.approx(plain, rel=1e-6)


def by_hand(model, problem, tokenizer, record, max_new_tokens):
    """Token by token from the full forward, nothing cached: ids and log-probability."""
    start, stop = tokenizer.start, tokenizer.stop
    never = [tokenizer.pad, start, tokenizer.cls, tokenizer.sep, tokenizer.mask]
    read = torch.tensor([problem.read(record)])
    written: list[int] = []
    total = 0.0
    for _ in range(max_new_tokens):
        if problem.is_single_row:
            scores = model.logits(torch.cat((read, torch.tensor([written]).long()), dim=1))
        else:
            rows = torch.tensor([[start, *written]])
            scores = model.logits(rows, source=read, source_valid=torch.ones_like(read).bool())
        last = scores[0, -1].double()
        last[never] = -math.inf
        share, token = last.log_softmax(dim=0).max(dim=0)
        total += float(share)
        if int(token) == stop:
            return written, total, len(written) + 1
        written.append(int(token))
    return written, total, len(written)


@pytest.mark.parametrize("family", sorted(MODELS))
def test_answers_are_what_the_model_says_of_each_row_alone(tokenizer, family):
    problem = problem_of(tokenizer, MODELS[family], Translation(max_new_tokens=5, beams=1))
    model = MODELS[family].build(vocabulary=tokenizer.size, seed=3).eval()
    with torch.no_grad():  # far from the start, so that answers differ and some of them end
        for parameter in model.parameters():
            parameter.mul_(8.0)
    sources = ["two", "one two three four five", "six five", "three three three"]
    records = [translated(source) for source in sources]
    answers = problem.answer(model, records)
    assert [row["item"] for row in answers] == [0, 1, 2, 3]
    for row, record in zip(answers, records, strict=True):
        with torch.inference_mode():
            ids, total, length = by_hand(model, problem, tokenizer, record, 5)
            loss = mean_loss(model, problem.examples(record), pad=0, device="cpu")
        assert row["predicted"] == tokenizer.decode(ids)
        assert row["confidence"] == pytest.approx(math.exp(total / length), rel=1e-4)
        assert row["stopped"] == (length > len(ids))
        assert row["truths"] == [record["target"]]
        assert row["loss"] == pytest.approx(loss, rel=1e-5)
        assert row["source_words"] == len(record["source"].split())


def test_rows_without_a_truth_are_answered_too(tokenizer):
    problem = problem_of(tokenizer, MODELS["recurrent"])
    model = MODELS["recurrent"].build(vocabulary=tokenizer.size, seed=0).eval()
    [row] = problem.answer(model, [Record({"source": "one two"})])
    assert "truths" not in row
    assert "loss" not in row
    assert 0 < row["confidence"] <= 1
    assert all("did not end" in sentence for sentence in problem.warnings([row]))


def test_one_beam_is_greedy_and_more_search(tokenizer):
    assert isinstance(
        problem_of(tokenizer, MODELS["decoder"], Translation(beams=1))._strategy, Greedy
    )
    strategy = problem_of(tokenizer, MODELS["decoder"], Translation(length_penalty=1.0))._strategy
    assert strategy == BeamSearch(width=4, length_penalty=1.0)


def test_a_batch_of_many_is_cut_and_comes_back_in_order(tokenizer, monkeypatch):
    monkeypatch.setattr(
        "regard.tasks.text_generation.text_to_text.MAX_CACHED_POSITIONS", 12 * 2 * 3
    )
    problem = problem_of(tokenizer, MODELS["recurrent"], Translation(beams=2, max_new_tokens=4))
    model = MODELS["recurrent"].build(vocabulary=tokenizer.size, seed=1).eval()
    records = [translated(" ".join(["one", "two", "six"][: 1 + n % 3])) for n in range(8)]
    seen = []
    answers = problem.answer(model, records, on_progress=lambda done, total: seen.append(done))
    assert seen == [3, 6, 8]
    assert [row["item"] for row in answers] == list(range(8))
    assert [row["truths"][0] for row in answers] == [record["target"] for record in records]


def test_a_context_without_room_is_refused(tokenizer):
    with pytest.raises(UserError, match=r"model\.context = 4 has no room for a source"):
        problem_of(tokenizer, Decoder(**WIDE, context=4), Translation(max_new_tokens=9))


def test_an_encoder_is_refused(tokenizer):
    problem = problem_of(tokenizer, MODELS["recurrent"])
    model = Encoder(**WIDE).build(vocabulary=tokenizer.size, seed=0)
    with pytest.raises(UserError, match="cannot be put on a EncoderModel"):
        problem.attach_head(model, seed=0)


def test_translation_is_held_against_copying(tokenizer):
    problem = problem_of(tokenizer, MODELS["recurrent"])
    records = [translated("one two"), Record({"source": "six", "target": ["six", "seis"]})]
    [(label, rows)] = problem.baselines([], {"dev": records})
    assert label == "copy the source"
    assert rows["dev"][0] == {"item": 0, "predicted": "one two", "truths": ["un deux"]}
    assert rows["dev"][1]["truths"] == ["six", "seis"]


def test_a_summary_is_held_against_the_lead_sentence(tokenizer):
    task = Summarisation()
    problem = problem_of(tokenizer, MODELS["recurrent"], task)
    records = [
        Record({"document": "Dr. One came. Two left.", "summary": "One came."}),
        Record({"document": ["First.", "Second."], "summary": ["A.", "B."]}),
    ]
    assert task.texts(records[1]) == ["First. Second.", "A.", "B."]
    assert task.asked(records[1]) == ["First. Second."]
    [(label, rows)] = problem.baselines([], {"test": records})
    assert label == "lead sentence"
    assert [row["predicted"] for row in rows["test"]] == ["Dr. One came.", "First."]
    assert problem.metric.score_names == ("rouge1", "rouge2", "rougeL")


def test_summaries_of_several_references_are_scored_by_the_best(tokenizer):
    problem = problem_of(tokenizer, MODELS["decoder"], Summarisation(max_new_tokens=6, beams=2))
    model = MODELS["decoder"].build(vocabulary=tokenizer.size, seed=2).eval()
    records = [
        Record({"document": ["one two", "three"], "summary": ["deux", "un"]}),
        Record({"document": "four five", "summary": "cinq"}),
    ]
    answers = problem.answer(model, records)
    assert [row["truths"] for row in answers] == [["deux", "un"], ["cinq"]]
    said = [row | {"predicted": truth} for row, truth in zip(answers, ["un", "six"], strict=True)]
    rouge = {figure.name: figure.value for figure in score(problem.metric, said, split="dev")}
    assert rouge["rouge1"] == pytest.approx(0.5)


def test_the_forecast_counts_every_beam(tokenizer):
    record = translated("one two three")
    costs = [
        problem_of(tokenizer, MODELS["recurrent"], Translation(beams=beams)).positions_to_answer(
            record
        )
        for beams in (1, 4)
    ]
    # Four tokens are written, the stop one of them, with three beams more.
    assert costs[1] - costs[0] == POSITIONS_PER_TOKEN * 3 * 4


def test_other_numbers_of_answers_and_references_are_refused():
    with pytest.raises(UserError, match="2 hypotheses came with 1 references"):
        sentence_rows(["a", "b"], [["a"]])


def made(answers, **fields):
    return [
        {"item": n, "predicted": text, "truths": [f"reference {n}"], "stopped": True, **fields}
        for n, text in enumerate(answers)
    ]


def test_what_is_wrong_with_all_answers_is_said(tokenizer):
    problem = problem_of(tokenizer, MODELS["recurrent"])
    fine = made([f"answer {n}" for n in range(12)])
    assert problem.warnings(fine) == ()
    [same] = problem.warnings(made(["a man ."] * 9))
    assert same.startswith("'a man .' is the answer to 9 of 9 sources")
    assert problem.warnings(made(["x", "y"], stopped=False))[0] == (
        "2 of 2 answers did not end within 8 tokens"
    )
    empty = made([""] * 30)
    assert any("30 of 30 samples are empty" in sentence for sentence in problem.warnings(empty))


def test_long_sources_have_figures_of_their_own(tokenizer):
    problem = problem_of(tokenizer, MODELS["recurrent"], Translation(length_edges=(5, 10)))
    short = made(["the cat sat on a mat"] * 4, source_words=4)
    long = made(["no"] * 3, source_words=30)
    rows = [row | {"item": n} for n, row in enumerate(short + long)]
    rows = [row | {"truths": ["the cat sat on a mat"]} for row in rows]
    table = problem.tables(rows, split="dev")["by source length"]
    bleu = [row for row in table if row["metric"] == "bleu"]
    assert [(row["words"], row["n"]) for row in bleu] == [("below 5", 4), ("10 and more", 3)]
    assert bleu[0]["value"] == pytest.approx(100)
    assert bleu[1]["value"] < 1
    assert bleu[0]["low"] is not None
    assert json.loads(json.dumps(table)) == table


def test_edges_have_to_rise():
    with pytest.raises(UserError, match=r"task\.length_edges"):
        Recipe.from_table(
            {
                "name": "a",
                "data": {"corpus": "phrases"},
                "model": {"family": "recurrent"},
                "task": {"kind": "translation", "length_edges": [9, 9]},
            }
        )


def numbers(n, seed):
    random = Random(seed)
    every = [" ".join(words) for k in (4, 5) for words in product(NUMBERS, repeat=k)]
    return [translated(source) for source in random.sample(every, n)]


def write_parallel(folder, split, records):
    for side, role in (("en", "source"), ("fr", "target")):
        lines = "".join(record[role] + "\n" for record in records)
        (folder / f"{split}.{side}").write_text(lines, encoding="utf-8")


def test_it_learns_to_translate_and_the_run_says_how_well(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    records = numbers(360, seed=1)
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
    figures = run.figures()
    told = {
        (row["part"], row["of"], row["metric"]): row["value"]
        for row in figures["figures"]
        if row["part"] != "train"
    }
    assert told["test", "model", "chrf"] > 80
    assert told["test", "copy the source", "chrf"] < 50
    [against] = [row for row in figures["comparisons"] if row["part"] == "test"]
    assert against["verdict"] == "better than"
    assert {row["words"] for row in figures["tables"]["by source length"]} == {
        "below 5",
        "5 and more",
    }
    loaded = regard.load(run.folder)
    again = loaded.problem.answer(loaded.model, records[330:])
    kept = [json.loads(line) for line in (run.folder / "items/test.jsonl").build_problem()]
    assert [row["predicted"] for row in again] == [row["predicted"] for row in kept]


def test_files_of_other_lengths_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    write_parallel(tmp_path, "train", numbers(40, seed=2))
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
