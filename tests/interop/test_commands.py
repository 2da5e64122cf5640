"""`regard import` as a person types it."""

from __future__ import annotations

import json

import pytest
import transformers
import typer
from tests.interop.theirs import SMALL, saved, shaken
from typer.testing import CliRunner

from regard.cli.models.import_model import import_model
from regard.core.errors import UserError


@pytest.fixture
def app():
    made = typer.Typer()
    made.command("import")(import_model)
    return made


@pytest.fixture
def folder(tmp_path):
    model = transformers.BertForSequenceClassification(transformers.BertConfig(**SMALL))
    return saved(shaken(model), tmp_path / "theirs")


def test_the_report(app, folder, tmp_path):
    told = CliRunner().invoke(app, [str(folder), "--out", str(tmp_path / "ours")])
    assert told.exit_code == 0
    lines = {line.split("  ")[0]: line for line in told.stdout.splitlines()}
    assert lines["architecture"].endswith("bert")
    assert lines["context"].endswith("20 places")
    assert "30 pieces" in lines["tokenizer"]
    assert "classifier.bias, classifier.weight" in lines["unused"]
    assert lines["unfilled"].endswith("no parameter")
    assert told.stdout.splitlines()[-1] == str(tmp_path / "ours")


def test_the_report_as_json(app, folder, tmp_path):
    told = CliRunner().invoke(app, [str(folder), "--out", str(tmp_path / "ours"), "--json"])
    figures = json.loads(told.stdout)
    assert figures["architecture"] == "bert"
    assert figures["unused"] == ["classifier.bias", "classifier.weight"]
    assert figures["folder"] == str(tmp_path / "ours")


def test_a_mistake_is_one_sentence(app, folder, tmp_path):
    (folder / "config.json").write_text('{"model_type": "t5"}')
    told = CliRunner().invoke(app, [str(folder), "--out", str(tmp_path / "ours")])
    assert isinstance(told.exception, UserError)
    assert "model_type is 't5'" in str(told.exception)
