"""The form of a recipe: every setting of the schema, equal TOML, the command line's sentences, and
nothing that reaches out of the page."""

from __future__ import annotations

import contextlib
import json
import re
import tomllib
from pathlib import Path

import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.journeys.workspace import TINY
from tests.web.asgi import HOST, ask, guarded

from regard import Recipe
from regard.api.settings_schema import recipe_schema
from regard.core.errors import UserError
from regard.web.app import build_app
from regard.web.listing import Listing, id_of
from regard.web.recipes.draft import form_texts, read_draft, recipe_text
from regard.web.recipes.fields import form_catalogs, part_fields, recipe_fields
from regard.web.recipes.sources import Sources
from regard.web.recipes.views import count_terms

RECIPES = Path(__file__).parents[2] / "recipes"
BROKEN = {"soft-masked", "zero-masked"}


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A folder with data, recipes, runs, and what no form may name."""
    home = tmp_path_factory.mktemp("home")
    (home / "runs").mkdir()
    (home / "texts").mkdir()
    (home / "texts" / "a.txt").write_text("one\ntwo\n")
    (home / "reviews.csv").write_text("text,label\ngood,1\n")
    (home / ".secret.csv").write_text("text,label\ngood,1\n")
    (home / "mine.toml").write_text(tomli_w.dumps({**TINY, "data": {"corpus": "texts"}}))
    with contextlib.suppress(OSError):
        (home / "link.csv").symlink_to("/etc/passwd")
    return home


@pytest.fixture(scope="module")
def sources(home) -> Sources:
    return Sources(Listing(home / "runs"))


def ids(sources):
    return {one.label: one.id for one in sources.files().values()}


def schema_settings(schema, key="") -> set[tuple[str, str]]:
    """Key and documentation of every setting that is no table, by the JSON Schema."""
    found = set()
    for name, one in schema.get("properties", {}).items():
        dotted = f"{key}.{name}" if key else name
        tables = [one, *one.get("anyOf", [])]
        tables = [table for table in tables if "properties" in table]
        for table in tables:
            if table.get("title") not in BROKEN:
                found |= schema_settings(table, dotted)
        if not tables and name != "seen_in":
            found.add((dotted, one.get("description", "")))
    return found


def form_settings(fields) -> set[tuple[str, str]]:
    found = set()
    for field in fields:
        if field.control == "part":
            for choice in field.choices:
                catalog = form_catalogs()[field.catalog]
                found.add((field.selector, choice.doc))
                found |= form_settings(part_fields(catalog, choice.value, field.key, {}))
        elif field.control == "table":
            found |= form_settings(field.fields)
        else:
            found.add((field.key, field.doc))
    return found


def test_the_form_has_every_setting_of_the_schema_with_its_documentation():
    form = form_settings(recipe_fields({}))
    schema = schema_settings(recipe_schema())
    assert {one for one in form if not one[0].startswith("task.seen_in.")} == schema
    assert len(schema) > 250
    assert {key for key, _ in form if key.startswith("task.seen_in.")} >= {"task.seen_in.corpus"}


def every_field(fields):
    for field in fields:
        yield field
        yield from every_field(field.fields)


@st.composite
def forms(draw):
    """Texts of a form: parts, then settings of what is chosen, most of them allowed."""
    texts = {"name": "drawn", "data.corpus": "opinions"}
    for _ in range(3):
        fields = [one for one in every_field(recipe_fields(texts)) if one.key not in texts]
        for field in draw(st.lists(st.sampled_from(fields), max_size=4, unique_by=lambda f: f.key)):
            if field.control == "part":
                texts[field.selector] = draw(st.sampled_from(field.choices)).value
            elif field.control == "choice":
                texts[field.key] = draw(st.sampled_from(field.choices)).value
            elif field.control == "flag":
                texts[field.key] = draw(st.sampled_from(["true", "false"]))
            elif field.control == "split":
                texts[field.key] = draw(st.sampled_from(["0.1", "20", '{ label = ["a"] }']))
            elif field.control == "source":
                texts[field.key] = draw(st.sampled_from(["opinions", "phrases"]))
            elif field.key in ("name", "data.text", "task.text"):
                texts[field.key] = draw(st.from_regex(r"[a-z][a-z0-9.-]{0,8}", fullmatch=True))
            elif field.control == "text" and not field.default.startswith(("[", "{")):
                texts[field.key] = draw(
                    st.sampled_from(["1", "2", "8", "0.5", ".25", "1e-3", "abc", "-1", '"'])
                )
    return texts


def without_errors(texts, sources):
    """What is left of a form once all that its errors name is left out, again and again."""
    for _ in range(20):
        draft = read_draft(texts, sources)
        if draft.recipe is not None:
            return texts, draft
        assert draft.errors
        assert set(map(type, draft.errors.values())) == {str}
        tomllib.loads(draft.toml)  # whatever is wrong, it is TOML
        named = draft.errors.keys() & texts.keys()
        tables = {key.partition(".")[0] for key in draft.errors}
        texts = {
            key: text
            for key, text in texts.items()
            if key in ("name", "data.corpus")
            or (key not in named if named else key.partition(".")[0] not in tables)
        }
    raise AssertionError((texts, draft.errors))


@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@given(texts=forms())
def test_the_toml_of_a_form_loads_to_equal_settings(sources, texts):
    texts, draft = without_errors(texts, sources)
    loaded = tomllib.loads(draft.toml)
    assert Recipe.from_table(loaded) == draft.recipe
    assert recipe_text(loaded) == draft.toml  # nothing is left that is a default
    again = form_texts(draft.recipe, sources)
    assert read_draft(again, sources).recipe == draft.recipe
    assert list(loaded) == [one for one in Recipe.model_fields if one in loaded]


def test_recipes_of_the_project_become_forms_and_come_back(sources):
    count = 0
    for file in sorted(RECIPES.glob("*.toml")):
        if "base" in tomllib.loads(file.read_text()):
            continue  # a study
        recipe = Recipe.load(file)
        if recipe.init_from is not None:
            with pytest.raises(UserError, match="not in the list"):
                form_texts(recipe, sources)
            continue
        texts = form_texts(recipe, sources)
        draft = read_draft(texts, sources)
        assert draft.recipe == recipe, file
        assert Recipe.from_table(tomllib.loads(draft.toml)) == recipe
        count += 1
    assert count >= 10


WRONG = {
    "train.lr": "fast",
    "model.width": "0",
    "model.heads": "2.5",
    "model.attention.kind": "dott",
    "train.epochs": "-1",
    "name": "a b",
    "data.dev": "0.7",
    "train.widht": "3",
    "samples.top_p": "2",
    "tokenizer.minimum_count": "1e30",
}


@pytest.mark.parametrize("key", WRONG)
def test_an_error_is_at_its_field_in_the_words_of_the_command_line(sources, tmp_path, key):
    texts = {"name": "mine", "data.corpus": "opinions", key: WRONG[key]}
    draft = read_draft(texts, sources)
    assert draft.recipe is None
    assert list(draft.errors) == [key]
    name = tomllib.loads(draft.toml)["name"]
    file = tmp_path / f"{name}.toml"
    file.write_text(draft.toml)
    with contextlib.chdir(tmp_path), pytest.raises(UserError) as problem:
        Recipe.load(file.name)
    assert str(problem.value) == draft.errors[key]


def test_all_that_is_wrong_is_said_at_once(sources):
    draft = read_draft({"data.corpus": "opinions", **WRONG}, sources)
    assert WRONG.keys() - draft.errors.keys() <= {"model.attention.kind"}
    assert draft.recipe is None


def test_settings_that_do_not_fit_together_are_said_at_one_of_them(sources):
    texts = {"name": "a", "data.corpus": "opinions", "model.family": "encoder"}
    draft = read_draft({**texts, "objective.kind": "causal"}, sources)
    assert list(draft.errors) == ["model.family"]
    assert "does not learn objective = 'causal'" in draft.errors["model.family"]
    draft = read_draft({**texts, "adapt.kind": "lora"}, sources)
    assert list(draft.errors) == ["adapt.kind"]
    assert list(read_draft({"name": "a"}, sources).errors) == ["data.corpus"]
    size = {"name": "a", "data.corpus": "opinions", "model.width": "50"}
    assert list(read_draft(size, sources).errors) == ["model.width"]
    assert list(read_draft({**size, "model.heads": "7"}, sources).errors) == ["model.heads"]


REACHING_OUT = {
    "data.corpus": [
        *("/etc/passwd", "../home/reviews.csv", "reviews.csv", "texts/*.txt", "~/x", "hub:imdb"),
        *("train.{en,de}", '["opinions", "/etc/passwd"]', ".secret.csv", "link.csv", "mine.toml"),
        *("[1]", "{}", "[[]]", "C:\\x", "0" * 16, "file:///etc/passwd", "\x00", "runs"),
    ],
    "data.dev": ["/etc/passwd", '["/etc/passwd"]', "reviews.csv"],
    "data.test": ["-", "+x", ".", ".secret.csv"],
    "init_from": ["pip:x", "/tmp", "runs/a", "mine.toml", "opinions", "hub:x"],
    "tokenizer.path": ["/etc/passwd", "opinions"],
    "task.collection": ["/etc/passwd"],
    "task.judgements": ["/etc/passwd", '["/etc/passwd"]'],
    "task.seen_in.corpus": ["/etc/passwd"],
    "task.seen_in.dev": ["/etc/passwd"],
    "objective.phrases": ["/etc/passwd", "opinions"],
    "model.attention.kind": ["zero-masked", "soft-masked"],
}
PARTS = {
    "tokenizer.path": {"tokenizer.kind": "file"},
    "task.collection": {"task.kind": "retrieval", "model.family": "encoder"},
    "task.judgements": {"task.kind": "retrieval", "model.family": "encoder"},
    "task.seen_in.corpus": {"task.kind": "recall", "task.subject": "Who (.*)"},
    "task.seen_in.dev": {"task.kind": "recall", "task.subject": "(x)"},
    "objective.phrases": {"objective.kind": "salient"},
}


@pytest.mark.parametrize("key", REACHING_OUT)
def test_what_reaches_out_of_the_page_is_refused(sources, home, key):
    for value in REACHING_OUT[key]:
        given = {"name": "a", "data.corpus": "opinions", **PARTS.get(key, {}), key: value}
        draft = read_draft(given, sources)
        assert draft.recipe is None, value
        assert key in draft.errors, (value, draft.errors)
        assert str(home) not in draft.errors[key]
        assert value not in draft.toml or value in ("opinions", "."), draft.toml


def test_files_beside_the_runs_are_chosen_by_id(sources):
    known = ids(sources)
    assert list(known) == ["reviews.csv", "texts/"]  # no link, nothing hidden, no runs
    draft = read_draft({"name": "a", "data.corpus": known["reviews.csv"]}, sources)
    assert tomllib.loads(draft.toml)["data"] == {"corpus": "reviews.csv"}
    both = f'["{known["texts/"]}", "opinions"]'
    draft = read_draft({"name": "a", "data.corpus": both}, sources)
    assert tomllib.loads(draft.toml)["data"] == {"corpus": ["texts", "opinions"]}
    salient = {"objective.kind": "salient", "objective.phrases": known["reviews.csv"]}
    draft = read_draft({"name": "a", "data.corpus": "opinions", **salient}, sources)
    assert tomllib.loads(draft.toml)["objective"]["phrases"] == "reviews.csv"


TABLES = {
    "family": "model",
    "adapter": "adapt",
    "position": "model.positions",
    "attention": "model.attention",
}


def test_every_setting_that_takes_a_text_was_thought_of(sources):
    """One that is added later is refused until somebody says what its texts stand for."""
    refused = set()
    for catalog in form_catalogs().values():
        for name in catalog.names():
            key = TABLES.get(catalog.name, catalog.name)
            selector = f"{key}.{'family' if key == 'model' else 'kind'}"
            for field in every_field(part_fields(catalog, name, key, {})):
                if field.control == "text":
                    texts = {"name": "a", "data.corpus": "opinions", selector: name}
                    draft = read_draft({**texts, field.key: "1"}, sources)
                    if "not set over the page" in draft.errors.get(field.key, ""):
                        refused.add(field.key)
    assert refused == set()


def post(app, address, values, **changes):
    body = json.dumps({"values": values}).encode() if not isinstance(values, bytes) else values
    headers = [("origin", f"http://{HOST}"), ("content-length", str(len(body)))]
    return ask(app, address, method="POST", body=body, **{"headers": headers, **changes})


def test_the_form_begins_with_a_recipe_of_a_run_under_another_name(tmp_path):
    run = tmp_path / "runs" / "done"
    run.mkdir(parents=True)
    table = {**TINY, "name": "done", "data": {"corpus": "opinions"}}
    (run / "recipe.toml").write_text(tomli_w.dumps(table))
    shown = ask(guarded(build_app(tmp_path / "runs")), f"/recipe?from={id_of('done')}")
    assert 'data-key="name" value="done-2"' in shown.text
    assert 'data-key="model.width" value="16"' in shown.text
    table["model"] = {"attention": {"kind": "zero-masked", "on_purpose": True}}
    (run / "recipe.toml").write_text(tomli_w.dumps(table))
    broken = ask(guarded(build_app(tmp_path / "runs")), f"/recipe?from={id_of('done')}")
    assert "is broken on purpose" in broken.text


def test_the_page_answers_as_somebody_types(home):
    app = guarded(build_app(home / "runs"))
    page = ask(app, "/recipe?data.corpus=opinions&model.family=encoder&train.lr=fast")
    assert page.status == 200
    assert "train.lr = &#39;fast&#39; is not allowed" in page.text
    start = re.search(r'<option value="(\w+)">mine</option>', page.text)[1]
    begun = ask(app, f"/recipe?from={start}")
    assert 'value="16"' in begun.text
    answer = post(app, "/recipe/check", {"name": "a", "data.corpus": "opinions"})
    found = json.loads(answer.body)
    assert found["errors"] == {}
    assert "4,800" in found["counts"]  # position embeddings, which need no vocabulary
    wrong = json.loads(post(app, "/recipe/check", {"name": "a", "train.lr": "x"}).body)
    assert wrong["errors"].keys() == {"train.lr", "data.corpus"}
    file = ask(app, "/recipe/recipe.toml?name=a&data.corpus=opinions")
    assert tomllib.loads(file.text) == {"name": "a", "data": {"corpus": "opinions"}}
    part = ask(app, "/recipe/parts/attention/additive?key=model.attention")
    assert 'data-key="model.attention.hidden"' in part.text


def test_counting_allocates_nothing_whatever_the_sizes(sources):
    """It runs in the server, as somebody types."""
    most = "1000000000"
    for extra in (
        {"model.attention.kind": "additive", "model.attention.hidden": most},
        {"model.attention.kind": "linear", "model.attention.feature_map": "random",
         "model.attention.features": most},
        {"model.attention.kind": "synthesizer-random", "model.context": "100000"},
        {"model.positions.kind": "sinusoidal", "model.context": "16000000"},
        {"model.width": "3000000000", "model.mlp_width": most},
        {"model.family": "encoder", "model.segments": most, "model.patch_dim": most},
        {"model.family": "recurrent", "model.width": "999999999"},
    ):  # fmt: skip
        draft = read_draft({"name": "a", "data.corpus": "opinions", **extra}, sources)
        assert draft.recipe is not None, draft.errors
        assert sum(term.value for term, _ in count_terms(draft.recipe, 8000)) > 0


def test_a_text_of_two_lines_stays_one(home):
    app = guarded(build_app(home / "runs"))
    query = "name=a&data.corpus=opinions&task.kind=verbalizer&task.template=%7Btext%7D%0AIs:"
    shown = ask(app, f"/recipe?{query}").text
    assert re.search(r"<textarea[^>]*task.template[^>]*>\n\{text\}\nIs:</textarea>", shown)


NO_FORM = (b"", b"{", b"[]", b'{"values": 3}', b'{"values": {"a": 1}}', b'{"values": {"a": null}}',
           b"[" * 5000, b'{"values": {"' + b"a" * 200 + b'": "1"}}', b"\xff")  # fmt: skip


@pytest.mark.parametrize("body", NO_FORM, ids=range(len(NO_FORM)))
def test_what_is_no_form_is_a_sentence(home, body):
    app = guarded(build_app(home / "runs"))
    for address in ("/recipe/check", "/recipe/forecast"):
        answer = post(app, address, body)
        assert answer.status == 400
        assert answer.headers["content-type"].startswith("text/plain")


def test_hostile_keys_and_values_stay_texts(home):
    app = guarded(build_app(home / "runs"))
    hostile = "<img src=x onerror=alert(1)>"
    keys = (
        hostile,
        "__class__",
        "name.__init__",
        "data.corpus.x",
        "..",
        "a" * 90,
        "train",
        "model",
    )
    for key in keys:
        answer = post(app, "/recipe/check", {"name": "a", "data.corpus": "opinions", key: hostile})
        assert answer.status == 200
        found = json.loads(answer.body)
        assert found["errors"], key
        assert "<img" not in found["counts"]
    for address in (
        "/recipe/parts/attention/zero-masked?key=<script>",
        "/recipe/parts/os/system?key=model",
        "/recipe/parts/attention/os?key=model.attention",
        "/recipe?from=../etc",
    ):
        assert ask(app, address).status in (400, 404)


def test_the_form_begins_with_a_recipe_that_comes_with_regard(tmp_path):
    """There is none beside the runs."""
    (tmp_path / "runs").mkdir()
    app = guarded(build_app(tmp_path / "runs"))
    (group,) = re.findall(
        r'<optgroup label="Built-in recipes">(.*?)</optgroup>', ask(app, "/recipe").text
    )
    starts = dict(re.findall(r'value="(\w+)">([\w-]+)</option>', group))
    assert "opinions" in starts.values()
    for id, name in starts.items():
        text = ask(app, f"/recipe?from={id}").text
        assert f"{name}" in text
        assert not re.search(r'id="problems"[^>]*role="alert">', text), name
