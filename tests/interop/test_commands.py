"""The command `regard import`."""

from __future__ import annotations

import json

import pytest
import transformers
import typer
from tests.interop.transformers_models import SMALL, randomise, save_checkpoint
from typer.testing import CliRunner

from regard.cli.models.convert import import_model
from regard.core.errors import UserError


@pytest.fixture
def app():
    app = typer.Typer()
    app.command("import")(import_model)
    return app


@pytest.fixture
def folder(tmp_path):
    model = transformers.BertForSequenceClassification(transformers.BertConfig(**SMALL))
    return save_checkpoint(randomise(model), tmp_path / "theirs")


def test_printed_report(app, folder, tmp_path):
    result = CliRunner().invoke(app, [str(folder), "--out", str(tmp_path / "ours")])
    assert result.exit_code == 0
    lines = {line.split("  ")[0]: line for line in result.stdout.splitlines()}
    assert lines["architecture"].endswith("bert")
    assert lines["context"].endswith("20 positions")
    assert "30 pieces" in lines["tokenizer"]
    assert lines["task"].endswith("classification: LABEL_0, LABEL_1")
    assert lines["unused"].endswith("nothing in the file")
    assert lines["unfilled"].endswith("no parameter")
    assert result.stdout.splitlines()[-1] == str(tmp_path / "ours")


def test_json_report(app, folder, tmp_path):
    result = CliRunner().invoke(app, [str(folder), "--out", str(tmp_path / "ours"), "--json"])
    report = json.loads(result.stdout)
    assert report["architecture"] == "bert"
    assert (report["task"], report["labels"]) == ("classification", ["LABEL_0", "LABEL_1"])
    assert report["unused"] == []
    assert report["folder"] == str(tmp_path / "ours")


def test_error_is_one_sentence(app, folder, tmp_path):
    (folder / "config.json").write_text('{"model_type": "t5"}')
    result = CliRunner().invoke(app, [str(folder), "--out", str(tmp_path / "ours")])
    assert isinstance(result.exception, UserError)
    assert "model_type is 't5'" in str(result.exception)
