"""The attention workbench: its numbers, its audit, and what it refuses."""

from __future__ import annotations

import base64
import csv
import io
import json
import shutil
from pathlib import Path
from urllib.parse import urlencode
from xml.etree import ElementTree

import numpy as np
import pytest
import tomli_w
import torch
from tests.journeys.workspace import TINY, generated_text
from tests.web.asgi import ask, guarded

import regard
from regard.attention.kinds import ATTENTION
from regard.attention.masks.expression import parse_mask
from regard.models.inputs import ModelInputs
from regard.runs.inspection.kinds_side_by_side import FreshModels, FreshWeights, read_row
from regard.web.app import build_app
from regard.web.attention import methods
from regard.web.attention.choice import MAX_CHARACTERS, AttentionChoice
from regard.web.listing import id_of

TEXT = "one cat follows the other cat"
SIZE = 6


def address(name: str, **values: object) -> str:
    return f"/attention/{name}?{urlencode({'text': TEXT, **values})}"


def answer(app, name: str, **values: object):
    found = ask(app, address(name, **values))
    assert found.status == 200, found.text
    return json.loads(found.body) if name.endswith("json") else found


def array(text: str, dtype: str = "u1") -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype=dtype).reshape(SIZE, SIZE)


def expected_weights(kind: str, mask: str, **fresh: int):
    models = FreshModels.of_text(TEXT, FreshWeights(**fresh))
    return read_row(models.model(kind), models.ids, parse_mask(mask, SIZE)).attention


def test_what_the_browser_draws_are_the_weights_of_the_library(app):
    found = answer(
        app, "view.json", kinds="dot,hard", mask="causal", seed=4, layer=1, head=2, through=1
    )
    assert found["tokens"] == TEXT.split()
    for one in found["kinds"]:
        layers = expected_weights(one["kind"], "causal", seed=4)
        assert (one["layer"], one["head"]) == (1, 2)
        assert array(one["weights"], "<f4") == pytest.approx(layers[1].weights[2], abs=1e-6)
        for layer, heads in zip(layers, one["heads"], strict=True):
            assert [head["entropy"] for head in heads] == pytest.approx(layer.entropies.tolist())
            levels = array(heads[3]["image"]["levels"])
            assert levels == pytest.approx(255 * np.sqrt(layer.weights[3]), abs=0.51)
        rollout = (layers[0].weights.mean(0) + np.eye(SIZE)) / 2
        assert array(one["rollout"], "<f4") == pytest.approx(rollout, abs=1e-6)
    assert np.array_equal(array(found["mask"]["allowed"]), np.tril(np.ones((SIZE, SIZE))))
    assert (found["layers"], found["through"]) == (2, 1)


def test_numbers_and_pictures_are_those_of_the_same_address(app):
    values = {"kinds": "dot,additive", "mask": "causal", "allow": "1.4", "head": 1}
    numbers = answer(app, "weights.json", **values)
    assert [one["kind"] for one in numbers["kinds"]] == ["dot", "additive"]
    assert all(one["holds_all_heads"] and len(one["heads"]) == 8 for one in numbers["kinds"])
    assert numbers["allowed"][1] == [True, True, False, False, True, False]
    assert numbers["layers_to_reach"][1] == [1, 0, 2, 2, 1, 255]
    rows = list(csv.DictReader(io.StringIO(answer(app, "weights.csv", **values).text)))
    assert len(rows) == 2 * 22
    weights = np.array(numbers["kinds"][0]["heads"][1]["weights"])
    for row in rows[:22]:
        assert (row["kind"], row["layer"], row["head"]) == ("dot", "0", "1")
        assert row["query_token"] == TEXT.split()[int(row["query"])]
        weight = weights[int(row["query"]), int(row["key"])]
        assert float(row["weight"]) == pytest.approx(weight, abs=1e-5)
    for name in ("heads", "mask"):
        drawn = answer(app, f"{name}.svg", show="arcs", theme="dark", width=500, **values)
        assert drawn.headers["content-type"] == "image/svg+xml"
        assert ElementTree.fromstring(drawn.body).tag.endswith("svg")
        assert "follows" in drawn.text
    assert answer(app, "mask.png", **values).body.startswith(b"\x89PNG")


def test_the_audit_answers_for_a_painted_pair(app):
    clean = answer(app, "audit.json", kinds="dot,hard", mask="causal")
    assert [one["verdict"] for one in clean["kinds"]] == ["clean", "clean"]
    painted = {"kinds": "dot", "mask": "causal", "allow": "1.4", "layers": 1}
    [dot] = answer(app, "audit.json", **painted)["kinds"]
    assert dot["sentence"].startswith("sees the future: position 1 reacts to token 4 (largest")
    assert [(one["query"], one["key"]) for one in dot["leaks"]] == [(1, 4)]
    assert np.argwhere(array(dot["pairs"])).tolist() == [[1, 4]]
    held = answer(app, "audit.json", declared="bidirectional", **painted)
    assert held["kinds"][0]["verdict"] == "nothing forbidden"
    window = {"kinds": "dot", "mask": "causal", "declared": "causal & sliding_window:2"}
    [wide] = answer(app, "audit.json", **window)["kinds"]
    assert {(one["query"], one["key"]) for one in wide["leaks"]} == {
        (i, j) for i in range(SIZE) for j in range(i - 1)
    }


def test_a_kind_that_refuses_a_mask_stands_beside_those_that_do_not(app):
    found = answer(app, "view.json", kinds="dot,linear", mask="causal & sliding_window:3")
    dot, linear = found["kinds"]
    assert "weights" in dot
    assert "does not support the mask" in linear["refused"]
    audit = answer(app, "audit.json", kinds="dot,linear", mask="causal & sliding_window:3")
    assert [one["kind"] for one in audit["kinds"]] == ["dot"]


HOSTILE = "<script>alert(1)</script> '\" =1+1 {{7*7}} \u202e\u0000 é 𝄞"


def test_markup_in_a_sentence_stays_a_sentence(app):
    page = ask(app, f"/attention?{urlencode({'text': HOSTILE, 'mask': '<b>'})}")
    assert page.status == 200
    assert "<script>alert" not in page.text
    assert "{{7*7}}" in page.text
    view = ask(app, f"/attention/view.json?{urlencode({'text': HOSTILE})}")
    assert view.headers["content-type"] == "application/json"
    assert "script" in json.loads(view.body)["tokens"]
    drawn = ask(app, f"/attention/heads.svg?{urlencode({'text': HOSTILE})}")
    assert not [one for one in ElementTree.fromstring(drawn.body).iter() if "script" in one.tag]
    table = ask(app, f"/attention/weights.csv?{urlencode({'text': HOSTILE})}").text
    cells = [cell for row in csv.reader(io.StringIO(table)) for cell in row]
    assert "'=" in cells
    assert not [cell for cell in cells if cell.startswith(("=", "@", "+"))]


REFUSED = {
    "text=": "there is no text yet",
    f"text={'a' * (MAX_CHARACTERS + 1)}": "characters",
    "mask=causl": "did you mean causal",
    "mask=causal+%26": "it ends where a mask should follow",
    "mask=prefix:999999": "prefix of 999999 positions",
    "declared=no-such": "unknown mask",
    "allow=4": "names no cells",
    "forbid=4.7.9": "names no cells",
    "kinds=dott": "did you mean dot",
    "kinds=zero-masked": "unknown kind",
    "kinds=soft-masked": "unknown kind",
    "kinds=dot,additive,hard,linear,group": "5 kinds",
    "kind=dot": "unknown parameter",
    "on_purpose=true": "unknown parameter",
    "run=../../etc": "there is no such run",
    "run=0000000000000000": "there is no such run",
    "seed=-1": "seed = '-1' is not allowed",
    "width=513": "width = '513' is not allowed",
    "width=50": "heads = 4 does not divide width = 50",
    "layers=7": "is not allowed",
    "heads=1e9": "is not allowed",
    "std=nan": "is not allowed",
    "positions=/etc/passwd": "is not allowed",
    "layer=x": "give a whole number",
    "show=<script>": "map or arcs",
}


@pytest.mark.parametrize("query", REFUSED)
def test_wrong_values_are_sentences(app, query):
    for path in ("/attention/view.json", "/attention/audit.json"):
        text = "" if query.startswith("text=") else f"&text={urlencode({'': TEXT})[1:]}"
        found = ask(app, f"{path}?{query}{text}")
        if "does not divide" in REFUSED[query] and found.status == 200:
            continue  # said by each kind, below
        if query.startswith("declared") and "view" in path:
            continue  # only the audit asks for it
        assert found.status in (400, 404), (path, found.text)
        assert REFUSED[query] in found.text
        assert found.headers["content-type"].startswith("text/plain")
        assert "Traceback" not in found.text


def test_what_every_kind_refuses_is_said_by_each(app):
    found = answer(app, "view.json", width=50)
    assert all("heads = 4 does not divide" in one["refused"] for one in found["kinds"])


def test_an_address_holds_what_was_chosen():
    values = {
        "text": TEXT, "seed": "7", "positions": "rotary", "kinds": "hard,dot", "mask": "prefix:2",
        "allow": "1-2.4", "declared": "causal", "layer": "1", "query": "3", "show": "arcs",
    }  # fmt: skip
    choice = AttentionChoice.parse(values)
    assert choice.kinds == ("hard", "dot")
    assert choice.fresh == FreshWeights(seed=7, positions="rotary")
    page_values = {"text": HOSTILE, "run": "", "mask": "~causal"}
    assert AttentionChoice.parse(page_values).mask == "~causal"


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A served folder with one trained run, `tiny`."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "generated.txt").write_text(generated_text())
    recipe = folder / "tiny.toml"
    recipe.write_text(tomli_w.dumps({**TINY, "data": {**TINY["data"], "corpus": "generated.txt"}}))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        regard.train(recipe, out=folder / "runs" / "tiny")
    return folder / "runs"


def test_a_run_s_weights_are_those_of_regard_inspect(trained):
    app, text = guarded(build_app(trained)), "the cat sees every river"
    found = ask(app, f"/attention/view.json?{urlencode({'run': id_of('tiny'), 'text': text})}")
    view = json.loads(found.body)
    inspected = regard.inspect(trained / "tiny", text)
    assert view["own"] == {"kind": "dot", "mask": "causal"}
    assert tuple(view["tokens"]) == inspected.row.tokens
    size = len(view["tokens"])
    weights = np.frombuffer(base64.b64decode(view["kinds"][0]["weights"]), "<f4")
    assert weights.reshape(size, size) == pytest.approx(inspected.attention[0].weights[0], abs=1e-6)
    values = {"run": id_of("tiny"), "text": text, "kinds": "dot,additive", "mask": "bidirectional"}
    other = json.loads(ask(app, f"/attention/view.json?{urlencode(values)}").body)
    assert other["kinds"][0]["fresh"] == []
    assert other["kinds"][1]["fresh"]
    audit = json.loads(ask(app, f"/attention/audit.json?{urlencode(values)}").body)
    assert [one["verdict"] for one in audit["kinds"]] == ["leak", "leak"]
    page = ask(app, f"/attention?run={id_of('tiny')}")
    assert f'<option value="{id_of("tiny")}" selected>tiny</option>' in page.text


def refused(trained: Path, copy: Path, change) -> str:
    """What is said of a copy of the run whose config was changed."""
    shutil.copytree(trained / "tiny", copy / "changed")
    for config in copy.rglob("config.json"):
        table = json.loads(config.read_text())
        change(table)
        config.write_text(json.dumps(table))
    params = {"folder": str(copy / "changed"), "root": str(copy), "choice": {"text": "the cat"}}
    with pytest.MonkeyPatch.context() as patch:
        # What is asked is not whether a changed file is noticed, which the manifest does.
        patch.setattr("regard.runs.run.find_damage", lambda folder: None)
        patch.setattr("regard.runs.run.check_sealed", lambda *_, **__: None)
        with pytest.raises(regard.UserError) as problem:
            methods.view(params)
    return str(problem.value)


def test_no_run_is_loaded_that_is_broken_on_purpose_or_came_from_elsewhere(trained, tmp_path):
    broken = {"kind": "zero-masked", "on_purpose": True}
    assert ATTENTION.get("zero-masked").properties["broken"]
    said = refused(trained, tmp_path / "a", lambda one: one["model"].update(attention=broken))
    assert "is broken on purpose" in said
    foreign = {"source": "gpt2", "architecture": "GPT2LMHeadModel"}
    said = refused(trained, tmp_path / "b", lambda one: one.update(imported=foreign))
    assert "stands on a model of another tool" in said
    outside = {"adapt": {"kind": "lora"}, "base": {"path": "/etc", "fingerprint": "0" * 64}}
    said = refused(trained, tmp_path / "c", lambda one: one.update(outside))
    assert "an adapter for a model outside the folder of this page" in said


def test_a_changed_run_is_read_again(trained, tmp_path):
    root = tmp_path / "runs"
    shutil.copytree(trained / "tiny", root / "tiny")
    params = {"folder": str(root / "tiny"), "root": str(root), "choice": {"text": "the cat"}}
    first = methods.View(params)
    assert methods.View(params).source.body is first.source.body
    (root / "tiny" / "final" / "manifest.json").touch()
    again = methods.View(params)
    assert again.source.body is not first.source.body
    assert torch.equal(
        *(one.source.body.logits(ModelInputs(one.source.ids)) for one in (first, again))
    )


def test_512_tokens_are_drawn_small_and_said_to_be_too_many_for_the_audit():
    text = " ".join(f"w{n % 90}" for n in range(600))
    params = {"choice": {"text": text, "kinds": "dot"}}
    found = methods.view(params)
    assert found["remarks"] == ["the text has 600 tokens: the first 512 are shown"]
    assert found["kinds"][0]["heads"][0][0]["image"]["size"] == 64
    [audit] = methods.audit(params)["kinds"]
    assert audit["verdict"] == "cannot tell"
    numbers = methods.numbers(params)
    assert not numbers["kinds"][0]["holds_all_heads"]
    assert len(numbers["kinds"][0]["heads"]) == 1
