"""Files in `written/` are by the tools themselves: lm_eval 0.4.13, inspect_ai 0.3.285 and the
Trainer of transformers 5.22; the expected scores are those that each tool reported."""

import json
import random
import shutil
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import ttest_rel

import regard
from regard import UserError
from regard.studies.judging.formats import archives, read_item_file
from regard.studies.judging.item_metric import find_metric

WRITTEN = Path(__file__).parent.parent / "written"
LM_EVAL = WRITTEN / "lm_eval"


def reported(path: Path, metric: str, **where: object) -> float:
    """The score of one file, as an outcome has it."""
    table = read_item_file(path)
    for column, value in where.items():
        rows = [row for row, one in enumerate(table.columns[column]) if one == value]
        table = table.select(rows)
    found = find_metric([table], metric, lower_is_better=None)
    return float(found.score_function(found.statistics(table).sum(axis=-1)))


@pytest.mark.parametrize(
    ("name", "metric", "where", "score"),
    [
        ("hf__llama-100", "acc", {}, 0.0),
        ("hf__llama-300", "acc", {}, 0.5),
        ("hf__llama-300", "accuracy", {}, 0.5),
        ("filtered", "exact_match", {"filter": "flexible"}, 0.5),
        ("filtered", "exact_match", {"filter": "strict"}, 0.0),
        ("texts", "word_perplexity", {}, 14896.9522),
        ("texts", "byte_perplexity", {}, 5.2907),
        ("texts", "bits_per_byte", {}, 2.4034),
    ],
)
def test_lm_eval_scores_are_its_own(name, metric, where, score):
    assert reported(LM_EVAL / name, metric, **where) == pytest.approx(score, abs=1e-4)


def test_lm_eval_logs_know_model_task_and_documents():
    outcome = regard.judge(LM_EVAL / "hf__llama-100", LM_EVAL / "hf__llama-300", metric="acc")
    assert [one.name for one in outcome.variants] == ["hf__llama-100", "hf__llama-300"]
    assert outcome.decides == "word-order.acc"
    assert "doc.passage" in read_item_file(LM_EVAL / "texts").columns


def test_other_documents_are_other_items(tmp_path):
    for name in ("a", "b"):
        shutil.copytree(LM_EVAL / "hf__llama-100", tmp_path / name)
    [file] = (tmp_path / "b").iterdir()
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[2]["doc_hash"] = rows[1]["doc_hash"]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UserError, match="line 3: item 2"):
        regard.judge(tmp_path / "a", tmp_path / "b", metric="acc")


def test_a_mixture_of_filters_is_refused():
    with pytest.raises(UserError, match="--where filter="):
        regard.judge(LM_EVAL / "filtered", LM_EVAL / "texts", metric="doc_id", lower_is_better=True)


def test_inspect_archives_average_epochs():
    log = WRITTEN / "inspect-epochs.eval"
    assert reported(log, "accuracy") == 0.5
    table = read_item_file(log)
    assert (table.task, table.scores, len(table)) == ("sums", ("match",), 8)
    assert set(table.columns["metadata.passage"]) == {"p0", "p1"}
    outcome = regard.judge({"log": log, "none": {"id": ["q0", "q1", "q2", "q3"], "match": [0] * 4}})
    assert outcome.variant("log").estimates["test.match"].value == 0.5
    [verdict] = outcome.verdicts
    interval = ttest_rel([0, 0, 0, 0], [1, 0.5, 0, 0.5]).confidence_interval(0.95)
    assert (verdict.low, verdict.high) == pytest.approx((interval.low, interval.high))
    assert any("2 epochs" in remark for remark in outcome.remarks)
    seeded = regard.judge({"log": log, "same": log}, metric="match", seed="epoch")
    assert (seeded.verdicts[0].seeds, seeded.verdicts[0].n) == (2, 4)


def test_inspect_documents_have_a_column_for_each_scorer():
    log = WRITTEN / "inspect-two-scorers.json"
    assert reported(log, "match") == reported(log, "includes") == 0.75
    with pytest.raises(UserError, match="match, includes"):
        regard.judge({"a": log, "b": log})


def test_trainer_logits_become_labels():
    assert reported(WRITTEN / "trainer.npz", "accuracy") == pytest.approx(1 / 3)
    predicted = read_item_file(WRITTEN / "trainer.npz").columns["predictions"]
    assert predicted == [1, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1]


def test_tables_of_every_format_are_the_same(tmp_path):
    scores = [0.0, 1.0, 1.0, 0.5]
    pq.write_table(pa.table({"id": [1, 2, 3, 4], "acc": scores}), tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text("id,acc\n1,0\n2,1\n3,true\n4,0.5\n")
    (tmp_path / "c.tsv").write_text("id\tacc\n1\t0\n2\t1\n3\t1\n4\t0.5\n")
    rows = [{"id": n, "acc": score} for n, score in enumerate(scores, 1)]
    (tmp_path / "d.json").write_text(json.dumps(rows))
    (tmp_path / "e.json").write_text(json.dumps({"id": [1, 2, 3, 4], "acc": scores}))
    (tmp_path / "f.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    np.savez(tmp_path / "g.npz", id=[1, 2, 3, 4], acc=scores)
    outcome = regard.judge(*sorted(tmp_path.iterdir()), metric="acc")
    assert len(outcome.verdicts) == 6
    assert all(verdict.value == 0 for verdict in outcome.verdicts)
    assert [len(one.sha256) for one in outcome.sources] == [64] * 7


@pytest.mark.parametrize(
    ("name", "content", "facts"),
    [
        ("results.json", {"results": {"arc": {"acc,none": 0.5}}}, ("--log_samples",)),
        ("log.json", {"eval": {}, "status": "started"}, ("without samples",)),
        ("one.json", {"accuracy": 0.5}, ("no columns",)),
        ("list.json", [1, 2], ("no rows",)),
        ("ragged.json", {"predictions": [1, 2], "label_ids": [1]}, ("predictions has 2",)),
        ("tokens.json", {"predictions": [[[1, 2]], [[3, 4]]]}, ("(2, 1, 2)",)),
        ("deep.json", b"[" * 100_000, ("not valid JSON",)),
        ("samples.json", {"eval": [], "samples": [1]}, ("eval has 0",)),
        ("bad.npz", b"no zip", ("bad.npz", "np.savez")),
        ("bad.eval", b"no zip", ("bad.eval", "inspect")),
    ],
)
def test_files_without_items_are_one_sentence(tmp_path, name, content, facts):
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(UserError) as raised:
        read_item_file(file)
    assert all(fact in str(raised.value) for fact in (name, *facts)), raised.value


def test_pickled_arrays_are_not_read(tmp_path):
    np.savez(tmp_path / "a.npz", predictions=np.array([{"x": 1}], dtype=object))
    with pytest.raises(UserError, match="pickle"):
        read_item_file(tmp_path / "a.npz")


def test_a_damaged_archive_is_noticed(tmp_path):
    content = bytearray((WRITTEN / "inspect-epochs.eval").read_bytes())
    content[content.index(b"samples/q0_epoch_1.json") + 90] ^= 0xFF
    (tmp_path / "log.eval").write_bytes(content)
    with pytest.raises(UserError, match="damaged"):
        read_item_file(tmp_path / "log.eval")


def test_an_archive_of_other_content_is_no_log(tmp_path):
    for header in ("[]", '{"eval": {}}'):
        with zipfile.ZipFile(tmp_path / "log.eval", "w") as archive:
            archive.writestr("header.json", header)
            archive.writestr("samples/a.json", "[1]")
        with pytest.raises(UserError, match=r"not a log|a sample is no object"):
            read_item_file(tmp_path / "log.eval")


@pytest.mark.parametrize("name", ["log.eval", "a.npz"])
def test_any_damage_of_an_archive_is_one_sentence(tmp_path, name):
    """zipfile raises NotImplementedError, RuntimeError, zlib.error, struct.error, …"""
    file = tmp_path / name
    shutil.copy(WRITTEN / "inspect-epochs.eval", file)
    if name == "a.npz":
        np.savez_compressed(file, predictions=np.arange(50), label_ids=np.arange(50))
    content = file.read_bytes()
    generator = random.Random(0)
    for _ in range(100):
        damaged = bytearray(content)
        for _ in range(generator.choice((1, 3))):
            damaged[generator.randrange(len(content))] ^= 1 << generator.randrange(8)
        file.write_bytes(damaged[: generator.choice((len(content), generator.randrange(1, 900)))])
        with suppress(UserError):
            read_item_file(file)


def test_archives_that_unpack_without_end_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MAX_MEMBER_BYTES", 1 << 20)
    with zipfile.ZipFile(tmp_path / "log.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", " " * (2 << 20))
    np.savez_compressed(tmp_path / "a.npz", predictions=np.zeros(1 << 20))
    with zipfile.ZipFile(tmp_path / "deep.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", "[" * 200_000)
    for name, said in (
        ("log.eval", "more than 1 MB"),
        ("a.npz", "more than 1 MB"),
        ("deep.eval", "nested"),
    ):
        with pytest.raises(UserError, match=said):
            read_item_file(tmp_path / name)


def test_scores_of_a_sample_that_are_no_object_are_named(tmp_path):
    log = {"eval": {"task": "t"}, "samples": [{"id": 1, "scores": 7}]}
    (tmp_path / "log.json").write_text(json.dumps(log))
    with pytest.raises(UserError, match="sample 1: its scores are no object"):
        read_item_file(tmp_path / "log.json")


def test_logits_that_are_no_number_predict_nothing(tmp_path):
    """The largest of NaN and others is NaN's place, which would be judged as a label."""
    logits = np.random.default_rng(0).normal(size=(5, 3))
    logits[1, 2] = np.nan
    np.savez(tmp_path / "a.npz", predictions=logits, label_ids=np.zeros(5))
    with pytest.raises(UserError, match="1 of 5 items, the first is item 2"):
        read_item_file(tmp_path / "a.npz")


def test_a_folder_of_several_logs_is_asked_about(tmp_path):
    shutil.copytree(LM_EVAL, tmp_path / "logs")
    with pytest.raises(UserError, match="4 logs"):
        read_item_file(tmp_path / "logs")
    (tmp_path / "none").mkdir()
    with pytest.raises(UserError, match="without a log"):
        read_item_file(tmp_path / "none")


def test_columns_by_semicolons_and_files_of_one_stem(tmp_path):
    (tmp_path / "a.csv").write_text("id;correct\n1;1\n2;0\n")
    (tmp_path / "a.jsonl").write_text('{"id": 1, "correct": 1}\n{"id": 2, "correct": 1}\n')
    outcome = regard.judge(tmp_path / "a.csv", tmp_path / "a.jsonl", metric="correct")
    assert [one.name for one in outcome.variants] == ["a.csv", "a.jsonl"]
