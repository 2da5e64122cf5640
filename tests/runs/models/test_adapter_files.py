"""Adapter files: in peft's format, or with a remark why not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.adapters.small_models import LIKE_BERT, body, family_of

from regard.adapters import ADAPTERS
from regard.adapters.ledger import trained_tensors
from regard.core.settings import read_settings
from regard.data.tokenizers.character import Character
from regard.runs.models.adapter_files import ADAPTER_CONFIG, write_adapter

TOKENIZER = Character().train(iter(["some words"]))


def write(folder: Path, kind: str, *, adapter: dict | None = None, **table) -> tuple:
    """The peft type of the written files, and the remarks."""
    settings = {**(adapter or {}), **({"length": 3} if kind == "prompt" else {"rank": 2})}
    family, model = family_of("encoder", **table), body("encoder", **table)
    read_settings(ADAPTERS.get(kind).part, settings).apply(model, seed=0)
    remarks = write_adapter(
        folder,
        trained_tensors(model),
        adapter={"kind": kind, "alpha": 16.0, **settings},
        family=family,
        tokenizer=TOKENIZER,
        base="base",
        architecture=None,
    )
    return json.loads((folder / ADAPTER_CONFIG).read_text())["peft_type"], remarks


@pytest.mark.parametrize(
    ("kind", "adapter"), [("lora", {}), ("lora", {"targets": ["*"]}), ("prompt", {})]
)
def test_adapters_that_peft_has_are_in_its_format(tmp_path, kind, adapter):
    peft_types = {"lora": "LORA", "prompt": "PROMPT_TUNING"}
    assert write(tmp_path, kind, adapter=adapter, **LIKE_BERT) == (peft_types[kind], [])


def test_a_remark_says_why_peft_cannot_read_it(tmp_path):
    peft_type, [remark] = write(tmp_path, "lora", **LIKE_BERT, attention="additive")
    assert peft_type is None
    assert remark.startswith("peft cannot read the adapter")
    assert "bert does not have attention" in remark


def test_a_prompt_that_attends_to_itself_alone_is_not_in_peft(tmp_path):
    peft_type, [remark] = write(tmp_path, "prompt", **LIKE_BERT, across_documents=False)
    assert peft_type is None
    assert "across_documents = false" in remark
    assert write(tmp_path, "lora", **LIKE_BERT, across_documents=False) == ("LORA", [])
