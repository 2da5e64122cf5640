"""The playground: its numbers are the library's, and nothing but the page's runs is loaded."""

from __future__ import annotations

import csv
import io
import json
import math
from urllib.parse import urlencode
from xml.etree import ElementTree

import pytest
import torch
from tests.web.asgi import ask, guarded
from tests.web.test_pages import Inspected
from tests.web.trained_runs import MARKUP

from regard import api
from regard.generation.generate import Greedy, Sampling
from regard.models.blocks.head_ablation import Head, ablate_heads
from regard.models.inputs import ModelInputs
from regard.runs.inspection.continuation import DecodedRow
from regard.runs.inspection.head_effects import head_effects, mean_row_loss
from regard.runs.results import read_results
from regard.web.app import build_app
from regard.web.listing import id_of

PROMPT = "the cat sees"


@pytest.fixture(scope="module")
def app(trained_root):
    return guarded(build_app(trained_root))


@pytest.fixture(scope="module")
def writer(trained_root):
    return api.load(trained_root / "writer")


def get(app, run, view, **query):
    answer = ask(app, f"/playground/{id_of(run)}/{view}?{urlencode(query)}")
    assert answer.status == 200, answer.text
    return json.loads(answer.body)


def row_of(loaded, found):
    """The row that an answer describes, with the stop token where that ended it."""
    ids = [loaded.tokenizer.require("start"), *(token["id"] for token in found["tokens"])]
    given = 1 + sum(token["origin"] == "prompt" for token in found["tokens"])
    return DecodedRow(tuple(ids), given)


def test_a_greedy_text_is_that_of_generate_with_the_models_probabilities(app, writer):
    found = get(app, "writer", "text.json", prompt=PROMPT, temperature=0, n=9)
    text = "".join(token["piece"] for token in found["tokens"])
    [generated] = writer.generate([PROMPT], strategy=Greedy(), max_new_tokens=9)
    assert text == PROMPT + generated
    row = row_of(writer, found)
    with torch.inference_mode():
        p = torch.softmax(writer.model.logits(ModelInputs(torch.tensor([row.ids])))[0], dim=-1)
    for n, token in enumerate(found["tokens"]):
        assert token["probability"] == pytest.approx(float(p[n, token["id"]]), rel=1e-3)
        for one in token["alternatives"]:
            assert one["probability"] == pytest.approx(float(p[n, one["id"]]), rel=1e-3)
        if token["origin"] != "prompt":
            assert (token["drawn"], token["alternatives"][0]["id"]) == (1.0, token["id"])
    losses = [-math.log(token["probability"]) for token in found["tokens"]]
    assert found["loss"]["prompt"]["mean"] == pytest.approx(sum(losses[:3]) / 3)
    assert found["loss"]["continuation"]["n"] == len(losses) - 3


def test_a_drawn_text_is_that_of_generate_with_this_seed(app, writer):
    settings = {"temperature": 1.3, "top_p": 0.9, "top_k": 7, "seed": 5}
    found = get(app, "writer", "text.json", prompt=PROMPT, n=10, **settings)
    strategy = Sampling(temperature=1.3, top_p=0.9, top_k=7)
    [text] = writer.generate([PROMPT], strategy=strategy, max_new_tokens=10, seed=5)
    assert "".join(token["piece"] for token in found["tokens"]) == PROMPT + text
    searched = get(app, "writer", "text.json", prompt=PROMPT, n=10, beam=3)
    assert searched["tokens"][:3] != []


def test_a_branch_goes_on_from_the_token_that_was_chosen(app):
    query = {"prompt": PROMPT, "temperature": 0, "n": 8}
    whole = get(app, "writer", "text.json", **query)
    at, others = 3, whole["tokens"][3]["alternatives"][1:]
    chosen = next(one for one in others if not one["label"].startswith("<"))
    branch = get(app, "writer", "text.json", **query, branches=f"{at}.{chosen['id']}")
    ids = [token["id"] for token in branch["tokens"]]
    assert ids[:at] == [token["id"] for token in whole["tokens"][:at]]
    assert branch["tokens"][at]["id"] == chosen["id"]
    assert branch["tokens"][at]["origin"] == "chosen"
    assert branch["tokens"][at]["probability"] == pytest.approx(chosen["probability"], rel=1e-3)
    written = PROMPT.split() + [token["label"] for token in branch["tokens"][3 : at + 1]]
    again = get(app, "writer", "text.json", **{**query, "prompt": " ".join(written)})
    assert [token["id"] for token in again["tokens"]] == ids
    twice = f"{at}.{chosen['id']}-2.{ids[0]}"
    assert [t["id"] for t in get(app, "writer", "text.json", **query, branches=twice)["tokens"]][
        :3
    ] == [*ids[:2], ids[0]]


def test_heads_that_are_off_change_text_and_loss_as_the_library_says(app, writer):
    query = {"prompt": PROMPT, "temperature": 0, "n": 8}
    whole = get(app, "writer", "text.json", **query)
    assert whole["layers"] == {"block.0.attention": 2, "block.1.attention": 2}
    row, off = row_of(writer, whole), [Head("block.0.attention", 1), Head("block.1.attention", 0)]
    effects = get(app, "writer", "heads.json", **query)
    library = head_effects(writer.model, row)
    for layer, losses in library.without.items():
        assert effects["without"][layer] == pytest.approx(losses, rel=1e-4)
    assert (effects["n"], effects["loss"]) == (library.n, pytest.approx(library.loss, rel=1e-4))
    ablated = get(app, "writer", "text.json", **query, off="0.1-1.0")
    with ablate_heads(writer.model, off):
        [text] = writer.generate([PROMPT], strategy=Greedy(), max_new_tokens=8)
        loss, n = mean_row_loss(writer.model, row)
    assert "".join(token["piece"] for token in ablated["tokens"]) == PROMPT + text
    compared = ablated["whole"]
    assert compared["loss_without"] == pytest.approx(loss, rel=1e-4)
    assert (compared["loss"], compared["n"]) == (pytest.approx(library.loss, rel=1e-4), n)
    assert compared["pieces"][:3] == [token["piece"] for token in whole["tokens"][:3]]


def test_the_last_layer_of_the_lens_is_what_the_text_shows(app):
    query = {"prompt": PROMPT, "temperature": 0, "n": 6}
    tokens = get(app, "writer", "text.json", **query)["tokens"]
    lens = get(app, "writer", "lens.json", **query, positions=5)
    for cell, label in zip(lens["cells"][-1], lens["following"], strict=True):
        if label:
            token = next(t for t in tokens if math.isclose(
                t["probability"], cell["next_probability"], rel_tol=1e-3))  # fmt: skip
            assert token["label"] == label


def test_every_file_behind_a_text(app):
    query = urlencode({"prompt": MARKUP, "n": 5, "off": "0.0"})
    for view in ("text", "lens", "heads"):
        address = f"/playground/{id_of('writer')}/{view}"
        drawn = ask(app, f"{address}.svg?{query}&theme=dark&width=400")
        root = ElementTree.fromstring(drawn.body)
        assert root.tag.endswith("svg")
        assert not [one for one in root.iter() if one.tag.endswith(("img", "script"))]
        assert ask(app, f"{address}.png?{query}").body.startswith(b"\x89PNG")
        rows = list(csv.DictReader(io.StringIO(ask(app, f"{address}.csv?{query}").text)))
        assert rows
        cells = [cell for row in rows for cell in row.values() if cell]
        assert not [one for one in cells if one[0] in "=@\t"]


def test_a_classifiers_answer_and_its_truth(app, trained_root):
    [predicted] = api.predict(trained_root / "classifier", ["a cat paints every day"])
    found = get(app, "classifier", "answer.json", text="a cat paints every day")
    assert found["predicted"] == predicted["predicted"]
    assert found["confidence"] == pytest.approx(predicted["confidence"], rel=1e-4)
    assert sum(one["p"] for one in found["probabilities"]) == pytest.approx(1)
    items = (trained_root / "classifier/items/dev.jsonl").read_text().splitlines()
    for number in (0, 7):
        stored = json.loads(items[number])
        found = get(app, "classifier", "answer.json", item=number)
        assert found["fields"] == {"text": stored["record"]["text"]}
        for name in ("predicted", "truth"):
            assert found[name] == stored[name]
        assert found["confidence"] == pytest.approx(stored["confidence"], rel=1e-4)
        assert found["is_correct"] == (stored["predicted"] == stored["truth"])


@pytest.mark.long
@pytest.mark.parametrize("run", ["recall", "retrieval", "reader"])
def test_other_tasks_answer_a_row_of_dev_as_the_run_did(task_root, run):
    app = guarded(build_app(task_root))
    assert ask(app, f"/playground/{id_of(run)}/answers?item=2").status == 200
    items = (task_root / run / "items/dev.jsonl").read_text().splitlines()
    stored = json.loads(items[2])
    found = get(app, run, "answer.json", item=2)
    assert found["predicted"] == stored["predicted"]
    assert found["confidence"] == pytest.approx(stored["confidence"], rel=1e-3)
    if run == "retrieval":
        assert [one["document"] for one in found["found"]] == [
            one["document"] for one in stored["found"]
        ]
        typed = get(app, run, "answer.json", query=stored["record"]["query"])
        assert typed["found"][0]["document"] == found["found"][0]["document"]
    if run == "recall":
        assert found["threshold"] is not None
        text = get(app, run, "text.json", prompt=found["fields"]["question"], temperature=0, n=4)
        assert "".join(one["piece"] for one in text["tokens"][-4:]) != ""


def test_risk_and_coverage_at_a_threshold_are_counted_on_dev(app, trained_root):
    lines = (trained_root / "classifier/items/dev.jsonl").read_text().splitlines()
    results = read_results(trained_root / "classifier/results.json")
    leaves_out = any(one.split == "dev" for one in results.contamination)
    items = [one for one in map(json.loads, lines) if not (leaves_out and one["overlap"])]
    middle = sorted(item["confidence"] for item in items)[len(items) // 2]
    risk = get(app, "classifier", "risk.json", threshold=middle)
    assert risk["n"] == len(items)
    for point in [*risk["points"], risk["chosen"]]:
        given = [item for item in items if item["confidence"] >= point["threshold"]]
        wrong = sum(item["predicted"] != item["truth"] for item in given)
        assert point["coverage"]["value"] == pytest.approx(len(given) / len(items))
        assert point["risk"]["value"] == pytest.approx(wrong / len(given))
        assert (point["risk"]["n"], point["coverage"]["n"]) == (len(given), len(items))
        assert point["risk"]["low"] <= point["risk"]["value"] <= point["risk"]["high"]
    assert risk["chosen"]["threshold"] == middle
    assert get(app, "classifier", "risk.json", threshold=1)["chosen"] is None or (
        max(item["confidence"] for item in items) == 1
    )
    address = f"/playground/{id_of('classifier')}"
    rows = list(csv.DictReader(io.StringIO(ask(app, f"{address}/risk.csv").text)))
    assert len(rows) == len(risk["points"])
    assert (
        ElementTree.fromstring(ask(app, f"{address}/curve.svg?threshold={middle}").body) is not None
    )


REFUSED = {
    "broken": "broken on purpose",
    "own-code": "needs a person's own code (mine.py)",
    "foreign": "a model of another tool",
    "own-files": "searches /etc/passwd, a file outside the run",
}


@pytest.mark.parametrize("run", REFUSED)
def test_what_is_not_loaded_over_http_is_refused_in_a_sentence(app, run):
    view = "answer.json?text=x" if run == "own-files" else "text.json?prompt=a"
    answer = ask(app, f"/playground/{id_of(run)}/{view}")
    assert (answer.status, REFUSED[run] in answer.text) == (400, True), answer.text
    assert "root:" not in answer.text


WRONG = {
    "writer/text.json?temperature=-1": "a number from 0 to 10",
    "writer/text.json?temperature=nan": "a number from 0 to 10",
    "writer/text.json?n=100000": "a whole number from 1 to 200",
    "writer/text.json?temprature=1": "did you mean",
    "writer/text.json?branches=1.2.3": "pairs of numbers",
    "writer/text.json?branches=999.3": "no token 3 to put at position 999",
    "writer/text.json?branches=0.99999": "no token 99999",
    "writer/text.json?off=7.0": "no attention layer 7",
    "writer/text.json?off=0.9": "heads are 0 to 1",
    "writer/text.json?prompt=" + "a" * 4001: "at most 4,000",
    "writer/text.svg?theme=blue": "light or dark",
    "writer/answers": "predicts masked tokens and has no task",
    "classifier/text.json?prompt=a": "writes no text",
    "classifier/answer.json?": "give a text",
    "classifier/answer.json?item=9999": "dev has no row 9999",
    "classifier/answer.json?item=..": "a whole number",
    "classifier/risk.json?threshold=2": "a number from 0 to 1",
    "unfinished/answers": "so it has no model to try",
}


@pytest.mark.parametrize("address", WRONG)
def test_wrong_values_are_sentences(app, address):
    run, _, rest = address.partition("/")
    answer = ask(app, f"/playground/{id_of(run)}/{rest}")
    if run == "writer" and rest == "answers":
        assert answer.status == 400
        return
    assert answer.status == 400
    assert WRONG[address] in answer.text.replace("&#39;", "'"), answer.text[-500:]
    assert "Traceback" not in answer.text


def test_pages_are_escaped_and_lead_to_each_other(app):
    attack = "</textarea><script>alert(1)</script>{{7*7}}"
    for address in (
        "/playground",
        f"/playground/{id_of('writer')}?{urlencode({'prompt': attack})}",
        f"/playground/{id_of('classifier')}/answers?{urlencode({'text': attack})}",
    ):
        answer = ask(app, address)
        assert answer.status == 200, answer.text[-300:]
        assert Inspected(answer.text).bad == []
        assert "<script>alert" not in answer.text
        assert "{{7*7}}" in answer.text or attack not in address
    led = ask(app, f"/playground/{id_of('classifier')}?item=3")
    assert led.headers["location"] == f"/playground/{id_of('classifier')}/answers?item=3"
