"""Every page and every file it offers: escaped, without a path in an address, and read-only."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from starlette.routing import Route
from tests.journeys.workspace import file_digests
from tests.web.asgi import HOST, ask, guarded
from tests.web.replay import Replay

from regard import api
from regard.reports.run_report import RUN_CHARTS
from regard.reports.study_report import CHARTS
from regard.web.app import build_app
from regard.web.listing import Listing
from regard.web.plots import FORMATS

LOADED = re.compile(r"/static/[0-9a-f]{12}/[a-z.]+")


class Inspected(HTMLParser):
    """What of a page a browser would run, load or style."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.bad: list[str] = []
        self.links: set[str] = set()
        self._script = False
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self._script = tag == "script"
        self.bad += [f"<{tag} {name}>" for name in given if name.startswith("on")]
        self.bad += [f"<{tag} style>"] if "style" in given else []
        self.bad += [f"<{tag}>"] if tag in ("style", "iframe", "object", "embed", "base") else []
        for name in ("src", "href", "action", "formaction", "data-chart", "data-events"):
            value = given.get(name)
            if value is None:
                continue
            self.links.add(value)
            if not value.startswith(("/", "#", "?")) or value.startswith("//"):
                self.bad.append(f"<{tag} {name}={value}>")
            if tag in ("script", "link") and not LOADED.fullmatch(value):
                self.bad.append(f"<{tag} {name}={value}>")
        if tag == "script" and "src" not in given:
            self.bad.append("<script> inline")

    def handle_endtag(self, tag):
        self._script = False

    def handle_data(self, data):
        if self._script and data.strip():
            self.bad.append(f"script {data[:40]}")


@pytest.fixture(scope="module")
def ids(hostile_root):
    listing = Listing(hostile_root)
    return list(listing.studies()), list(listing.runs())


@pytest.fixture(scope="module")
def pages(ids):
    (study,), runs = ids
    return [
        "/",
        f"/studies/{study}",
        f"/studies/{study}/report",
        "/runs",
        "/runs?q=dot&sort=-dev.perplexity&where=model.width>=10",
        f"/runs/{runs[0]}",
        f"/compare/{runs[0]}/{runs[-1]}",
        f"/runs/chosen?do=delete&run={runs[0]}&run={runs[1]}",
        "/playground",
        "/lessons",
        "/attention?text=%3Cscript%3Ealert(1)%3C/script%3E",
        "/lessons/average-of-two?beta=3",
        "/recipe",
        "/recipe?model.family=encoder&name=%3Cscript%3Ealert(1)&data.corpus=%22%3E",
        "/trainings",
    ]


def test_every_page_is_escaped_and_loads_only_its_own(app, pages, hostile_root):
    before = file_digests(hostile_root)
    for page in pages:
        answer = ask(app, page)
        assert answer.status == 200, (page, answer.text[:200])
        inspected = Inspected(answer.text)
        assert inspected.bad == [], page
        assert "<script>alert" not in answer.text
        assert "49" not in re.findall(r"\{\{ ?7 ?\* ?7 ?\}\}|(49) \{% raw", answer.text)
        for link in inspected.links:
            if LOADED.fullmatch(link):
                assert ask(app, link).status == 200, link
    assert file_digests(hostile_root) == before


def test_every_chart_in_every_format(app, ids):
    (study,), runs = ids
    charts = [f"/studies/{study}/charts/{name}" for name in CHARTS if name != "by-length"]
    charts += [f"/runs/{runs[0]}/charts/{name}" for name in ("loss", "intervals", "learning-rate")]
    charts += [f"/compare/{runs[0]}/{runs[1]}/losses"]
    for chart in charts:
        for format in FORMATS if chart == charts[0] else ("json", "csv"):
            answer = ask(app, f"{chart}.{format}?theme=dark&width=400")
            assert answer.status == 200, (chart, format, answer.text)
            assert answer.headers["content-type"] == FORMATS[format]
            if format == "json":
                assert answer.text.isascii()
                assert json.loads(answer.body)["width"] == 400
            elif format == "csv":
                rows = list(csv.DictReader(io.StringIO(answer.text)))
                assert rows
                cells = [cell for row in rows for cell in row.values() if cell]
                assert not [one for one in cells if one[0] in "=@\t" or re.match(r"[+-]\D", one)]
            elif format == "svg":
                assert ElementTree.fromstring(answer.body).tag.endswith("svg")
            else:
                assert answer.body.startswith(b"\x89PNG")
    assert {"loss", "intervals", "learning-rate"} < RUN_CHARTS.keys()


def test_the_numbers_behind_a_study_and_a_run(app, ids):
    (study,), runs = ids
    outcome = json.loads(ask(app, f"/studies/{study}/scores.json").body)
    assert outcome["decides"] == "dev.perplexity"
    rows = list(csv.DictReader(io.StringIO(ask(app, f"/studies/{study}/scores.csv").text)))
    assert {"dot", "additive", "unigram"} < {row["of"] for row in rows}
    results = json.loads(ask(app, f"/runs/{runs[0]}/results.json").body)
    assert results["estimates"]
    curves = json.loads(ask(app, f"/runs/sparklines.json?ids={runs[0]},unknown").body)
    assert list(curves) == [runs[0]]
    assert len(curves[runs[0]]) > 5


ELSEWHERE = (
    "..", "...", "etc", "passwd", "dot-vs-additive", "results.json", "final", "0" * 16, "f" * 16,
    "A" * 16, "-", "_", ".", "~root", "con", "a" * 200,
)  # fmt: skip
"What stands for an id, and is none."


def test_no_id_leads_elsewhere(app, hostile_root, ids):
    """Whatever is put in the place of each parameter of each address is refused in a sentence."""
    secret = hostile_root.parent / "secret.toml"
    secret.write_text("secret")
    (study,), runs = ids
    known = {"id": runs[0], "a": runs[0], "b": runs[1], "name": "loss", "format": "json"}
    known |= {"version": "0", "catalog": "attention", "view": "text"}
    tried = 0
    for route in build_app(hostile_root).routes:
        assert isinstance(route, Route)
        for parameter in route.param_convertors:
            for value in (*ELSEWHERE, study if "/runs/" in route.path else "x"):
                if (parameter, route.path.partition("/{")[0]) == ("version", "/static"):
                    continue
                target = route.path
                for name in route.param_convertors:
                    given = value if name == parameter else known[name]
                    target = target.replace(f"{{{name}}}", given).replace(f"{{{name}:str}}", given)
                method = "POST" if "POST" in route.methods else "GET"
                headers = [("origin", f"http://{HOST}"), ("content-length", "0")]
                options = {"method": method, "headers": headers if method == "POST" else ()}
                answer = ask(app, target, **options)
                assert answer.status in (400, 404), (target, answer.status)
                assert "secret" not in answer.text
                tried += 1
    assert tried > 300


def test_wrong_values_are_sentences(app, ids):
    _, runs = ids
    wrong = {
        "/runs?where=nonsense": "this is no condition",
        "/runs?where=no.such.key=1": "no run here has the key",
        "/runs?sort=no.such.key": "no run here has the key",
        f"/compare/{runs[0]}/{runs[1]}?split=train": "dev or test",
        f"/runs/{runs[0]}/charts/loss.json?width=wide": "give pixels",
        f"/runs/{runs[0]}/charts/loss.json?theme=blue": "light or dark",
        "/runs/chosen?do=compare": "Tick two runs",
        "/runs/chosen?do=delete": "no run is ticked",
        "/lessons/average-of-twoo": "did you mean",
        "/lessons/average-of-two?beta=500": "a number from 1 to 50",
        "/lessons/average-of-two?gamma=5": "unknown parameter",
        "/lessons/average-of-two/result.json?beta=%3Cscript%3E": "a number from 1 to 50",
        "/lessons/average-of-two/exercise?seed=-1": "a whole number",
    }
    for address, sentence in wrong.items():
        answer = ask(app, address)
        assert sentence in answer.text, (address, answer.text[-600:])
        is_text = answer.headers["content-type"].startswith("text/plain")
        assert is_text or "<script>" not in answer.text
        assert "Traceback" not in answer.text


def test_runs_are_deleted_after_confirmation_alone(tmp_path, drawn_study):
    root = tmp_path / "runs"
    shutil.copytree(drawn_study, root / "study")
    (root / "study" / "outcome.json").unlink()
    app, listing = guarded(build_app(root)), Listing(root)
    ids = {run.name: id for id, run in listing.runs().items()}
    chosen = [ids["study/one/seed-0"], ids["study/one/seed-1"]]
    question = ask(app, "/runs/chosen?do=delete&" + "&".join(f"run={id}" for id in chosen))
    assert "Delete 2 runs?" in question.text
    assert len(listing.runs()) == 6
    assert (root / "study/one/seed-0").is_dir()

    def post(body: str):
        headers = [("origin", f"http://{HOST}"), ("content-length", str(len(body)))]
        return ask(app, "/runs/delete", method="POST", headers=headers, body=body.encode())

    assert post("run=" + "0" * 16).status == 404
    assert post("").status == 400
    assert ask(app, f"/runs/delete?run={chosen[0]}").status == 404  # only POST deletes
    assert (root / "study/one/seed-0").is_dir()
    deleted = post("&".join(f"run={id}" for id in chosen))
    assert (deleted.status, deleted.headers["location"]) == (303, "/runs?deleted=2")
    left = sorted(path.relative_to(root).as_posix() for path in root.glob("study/*/seed-*"))
    assert left == ["study/one/seed-2", *(f"study/other/seed-{seed}" for seed in range(3))]


def test_what_is_unfinished_damaged_or_judged_elsewhere_is_shown_too(tmp_path, drawn_study):
    replay = Replay(drawn_study, tmp_path / "runs" / "study")
    replay.begin("one/seed-0", lines=12)
    replay.finish("other/seed-0")
    replay.begin("other/seed-1", lines=0)
    (tmp_path / "runs/study/other/seed-1/results.json").write_text("{")
    for name in ("a", "b"):
        rows = [
            {"id": n, "correct": (n + len(name)) % 3 > 0, "seed": s}
            for n in range(40)
            for s in (0, 1)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    files = [tmp_path / f"{name}.jsonl" for name in ("a", "b")]
    api.judge(*files, metric="correct", out=tmp_path / "runs" / "judged")
    app, listing = guarded(build_app(tmp_path / "runs")), Listing(tmp_path / "runs")
    table = ask(app, "/runs").text
    assert all(state in table for state in ("running", "finished", "damaged"))
    assert [one.name for one in listing.studies().values()] == ["judged", "study"]
    for id in listing.studies():
        assert ask(app, f"/studies/{id}").status == 200, ask(app, f"/studies/{id}").text
    for id, run in listing.runs().items():
        answer = ask(app, f"/runs/{id}")
        assert answer.status == (400 if run.state == "damaged" else 200)
    both = [id for id, run in listing.runs().items() if run.state != "damaged"]
    assert "cannot be compared item by item" in ask(app, f"/compare/{both[0]}/{both[1]}").text


def test_a_finished_study_with_parts_of_somebodys_own_is_shown_as_judged(tmp_path, drawn_study):
    home = tmp_path / "runs" / "study"
    shutil.copytree(drawn_study, home)
    plan = home / "plan.json"
    plan.write_text(plan.read_text().replace('"dot"', '"of-my-own"'))
    assert "of-my-own" in plan.read_text()
    (study,) = Listing(tmp_path / "runs").studies()
    shown = ask(guarded(build_app(tmp_path / "runs")), f"/studies/{study}")
    assert "one is better than other by" in shown.text


def test_links_out_of_the_folder_are_not_followed(tmp_path, drawn_study):
    root = tmp_path / "runs"
    root.mkdir()
    try:
        (root / "study").symlink_to(drawn_study, target_is_directory=True)
    except OSError:
        pytest.skip("links are not allowed here")
    listing = Listing(root)
    assert (listing.runs(), listing.studies()) == ({}, {})
    assert "No study yet" in ask(guarded(build_app(root)), "/").text


def test_the_page_imports_nothing_until_it_is_served():
    source = Path(__file__).parents[2] / "src" / "regard" / "cli" / "web" / "serve.py"
    assert not re.search(
        r"^(from|import) (starlette|uvicorn|regard\.web)", source.read_text(), re.M
    )
