"""Trainings of the page: saved whole, limited, stopped as by Ctrl-C, known from their folder."""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import sys
import time
from pathlib import Path

import pytest
from tests.journeys.workspace import file_digests
from tests.web.asgi import HOST, ask, guarded
from tests.web.serve_stand_in import STAND_IN

from regard.core.errors import UserError
from regard.runs.locking.lock import find_writer, lock_run
from regard.web import app as app_module
from regard.web.app import build_app
from regard.web.listing import Listing, id_of
from regard.web.recipes.draft import read_draft
from regard.web.recipes.sources import Sources
from regard.web.trainings import processes
from regard.web.trainings.processes import Trainings, TrainingStatus
from regard.web.trainings.store import MARK, read_trainings, save_recipe


@pytest.fixture
def home(tmp_path) -> Path:
    (tmp_path / "runs").mkdir()
    return tmp_path


@pytest.fixture(autouse=True)
def _interrupts_are_heard():
    """As in the page's process. A shell's background jobs ignore them, and so would trainings."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def trainings(home):
    one = build(home)
    yield one
    for process in one._processes.values():
        process.kill()
        process.wait()


def build(home) -> Trainings:
    command = [sys.executable, str(STAND_IN)]
    return Trainings(Listing(home / "runs"), home=home.resolve(), command=command)


def draft(home, **texts):
    sources = Sources(Listing(home / "runs"))
    return read_draft({"data.corpus": "opinions", **texts}, sources)


def start(trainings, home, name):
    whole = draft(home, name=name)
    return trainings.start(whole.recipe, whole.toml)


def wait_for(trainings, id, *states):
    for _ in range(600):
        found = trainings.get(id)
        if found.state in states:
            return found
        time.sleep(0.05)
    raise AssertionError((found.state, found.training.output()))


def test_a_training_is_started_stopped_and_resumed(trainings, home):
    one = start(trainings, home, "mine")
    saved = (home / "mine.toml").read_text()
    assert saved.startswith(MARK)
    assert saved == MARK + draft(home, name="mine").toml
    running = wait_for(trainings, one.id, TrainingStatus.RUNNING)
    assert running.is_active
    assert not running.can_resume
    with pytest.raises(UserError, match="is running"):
        trainings.resume(one.id)
    trainings.stop(one.id)
    with pytest.raises(UserError, match=r"is (stopping|stopped)"):  # a second signal ends at once
        trainings.stop(one.id)
    stopped = wait_for(trainings, one.id, TrainingStatus.STOPPED)
    assert "saved at step 7" in stopped.training.output()
    trainings.resume(one.id)
    finished = wait_for(trainings, one.id, TrainingStatus.FINISHED)
    output = finished.training.output()
    assert "arguments mine.toml --out runs/mine" in output
    assert "arguments runs/mine --resume" in output
    with pytest.raises(UserError, match="is finished"):
        trainings.resume(one.id)


def test_another_page_knows_a_training_and_stops_it(trainings, home):
    one = start(trainings, home, "mine")
    wait_for(trainings, one.id, TrainingStatus.RUNNING)
    other = build(home)  # as after a restart: it has no process of its own
    assert [found.state for found in other.all()] == [TrainingStatus.RUNNING]
    other.stop(one.id)
    wait_for(trainings, one.id, TrainingStatus.STOPPED)
    wait_for(other, one.id, TrainingStatus.STOPPED)


@pytest.mark.skipif(os.name != "posix", reason="elsewhere it is known 25 s later")
def test_a_training_that_was_killed_can_be_resumed_at_once(trainings, home):
    one = start(trainings, home, "mine")
    wait_for(trainings, one.id, TrainingStatus.RUNNING)
    process = trainings._processes["mine"]
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert build(home).get(one.id).can_resume
    assert trainings.get(one.id).state is TrainingStatus.STOPPED


def test_what_is_refused_before_a_run_exists_says_why_and_can_start_again(trainings, home):
    whole = draft(home, name="refuse")
    one = trainings.start(whole.recipe, whole.toml)
    failed = wait_for(trainings, one.id, TrainingStatus.FAILED)
    assert failed.reason == "recipe: refused, says the stand-in"
    (home / "refuse.toml").write_text(MARK + "name = 'now it works'")
    trainings.resume(one.id)
    running = wait_for(trainings, one.id, TrainingStatus.RUNNING)
    assert running.training.output().count("arguments refuse.toml --out runs/refuse") == 2


def test_more_trainings_than_may_run_are_refused(trainings, home, monkeypatch):
    monkeypatch.setattr(processes, "MAX_RUNNING", 1)
    one = start(trainings, home, "one")
    with pytest.raises(UserError, match="one: no more than 1"):
        start(trainings, home, "two")
    assert not (home / "two.toml").exists()
    trainings.stop(one.id)
    wait_for(trainings, one.id, TrainingStatus.STOPPED, TrainingStatus.FAILED)
    two = start(trainings, home, "two")
    with pytest.raises(UserError, match="no more than 1"):
        trainings.resume(one.id)
    wait_for(trainings, two.id, TrainingStatus.RUNNING)


def test_nothing_is_written_over(trainings, home):
    (home / "theirs.toml").write_text("name = 'theirs'")
    (home / "runs" / "taken").mkdir()
    before = file_digests(home)
    for name, sentence in (
        ("theirs", "exists already, and the page has not written it"),
        ("taken", "a run taken exists already"),
        ("pyproject", "read by other tools"),
    ):
        whole = draft(home, name=name)
        with pytest.raises(UserError, match=sentence):
            trainings.start(whole.recipe, whole.toml)
    assert file_digests(home) == before
    save_recipe(home, "own", "a = 1\n")
    save_recipe(home, "own", "a = 2\n")  # the page's own file may change
    assert (home / "own.toml").read_text() == f"{MARK}a = 2\n"


def test_a_link_in_the_place_of_a_recipe_is_not_followed(home):
    target = home / "elsewhere.toml"
    target.write_text(MARK)
    try:
        (home / "link.toml").symlink_to(target)
    except OSError:
        pytest.skip("links are not allowed here")
    with pytest.raises(UserError, match="exists already"):
        save_recipe(home, "link", "a = 1\n")
    assert target.read_text() == MARK


def test_a_damaged_record_is_passed_over(trainings, home):
    one = start(trainings, home, "mine")
    for name, text in (("half", "{"), ("other", '{"schema": 9}'), ("list", "[]")):
        (home / "runs" / ".trainings" / name).mkdir()
        (home / "runs" / ".trainings" / name / "training.json").write_text(text)
    (home / "runs" / ".trainings" / "empty").mkdir()
    assert [found.id for found in read_trainings(home / "runs")] == [one.id]


def test_a_writer_is_found_while_it_lives_alone(tmp_path):
    run = tmp_path / "run"
    assert find_writer(run) is None
    with lock_run(run, "training"):
        assert find_writer(run).pid == os.getpid()
    assert find_writer(run) is None
    if os.name != "posix":
        return  # what has ended is known by its silence there
    dead = {"schema": 1, "purpose": "training", "host": platform.node(), "pid": 2**22 + 1}
    writer = tmp_path / ".run.writer.json"
    writer.write_text(json.dumps({**dead, "since": "2026-01-01T00:00:00+00:00"}))
    assert find_writer(run) is None


@pytest.fixture
def app(home, monkeypatch, trainings):
    monkeypatch.setattr(app_module, "Trainings", lambda *_, **__: trainings)
    return guarded(build_app(home / "runs"))


def post(app, address, body=b"", **changes):
    headers = [("origin", f"http://{HOST}"), ("content-length", str(len(body)))]
    return ask(app, address, method="POST", body=body, **{"headers": headers, **changes})


def form(**values):
    return json.dumps({"values": {"data.corpus": "opinions", **values}}).encode()


def test_the_page_saves_trains_stops_and_resumes(app, trainings, home):
    saved = post(app, "/recipe/save", form(name="mine"))
    assert json.loads(saved.body)["file"] == "mine.toml"
    assert [path.name for path in (home / "runs").iterdir()] == []
    begun = post(app, "/recipe/train", form(name="mine"))
    address = json.loads(begun.body)["address"]
    assert address == f"/trainings/{id_of('mine')}"
    wait_for(trainings, id_of("mine"), TrainingStatus.RUNNING)
    shown = ask(app, address).text
    assert re.search(r'action="/trainings/\w{16}/stop"', shown)
    assert "arguments mine.toml" in shown
    assert "mine" in ask(app, "/trainings").text
    run = ask(app, f"/runs/{id_of('mine')}").text
    assert 'action="/trainings/' in run
    stopped = post(app, f"{address}/stop")
    assert (stopped.status, stopped.headers["location"]) == (303, address)
    wait_for(trainings, id_of("mine"), TrainingStatus.STOPPED)
    assert post(app, f"{address}/stop").status == 400
    assert re.search(r'action="/trainings/\w{16}/resume"', ask(app, address).text)
    assert post(app, f"{address}/resume").status == 303
    wait_for(trainings, id_of("mine"), TrainingStatus.FINISHED)


def test_what_is_wrong_starts_and_writes_nothing(app, home):
    before = file_digests(home)
    for body in (
        form(name="../mine"),
        form(name="a/b"),
        form(name="mine", **{"data.corpus": "/etc/passwd"}),
        form(name="mine", **{"model.attention.kind": "zero-masked"}),
        form(name="mine", **{"model.attention.on_purpose": "true"}),
        form(name="mine", **{"init_from": "pip:x"}),
        form(name=""),
        b"",
        b"[]",
    ):
        for address in ("/recipe/train", "/recipe/save"):
            assert post(app, address, body).status == 400, body
    assert ask(app, "/recipe/train").status in (404, 405)
    for address in ("/recipe/train", "/recipe/save", f"/trainings/{id_of('mine')}/stop"):
        foreign = [("origin", "http://attacker.example"), ("content-length", "2")]
        assert post(app, address, b"{}", headers=foreign).status == 403
        assert post(app, address, b"{}", cookie=None).status == 403
        large = [("origin", f"http://{HOST}"), ("content-length", str(1 << 20))]
        assert post(app, address, b"{}", headers=large).status == 413
    for id in ("..", "mine", "0" * 16, "-", "con"):
        for verb in ("stop", "resume"):
            assert post(app, f"/trainings/{id}/{verb}").status in (400, 404)
        assert ask(app, f"/trainings/{id}").status in (400, 404)
    assert file_digests(home) == before


def test_the_record_of_a_deleted_run_goes_with_it(app, trainings, home):
    one = start(trainings, home, "mine")
    wait_for(trainings, one.id, TrainingStatus.RUNNING)
    body = f"run={one.id}".encode()
    assert post(app, "/runs/delete", body).status == 400  # it is being trained
    trainings.stop(one.id)
    wait_for(trainings, one.id, TrainingStatus.STOPPED)
    (one.run / "events.jsonl").write_text("")
    answer = post(app, "/runs/delete", body)
    assert answer.status == 303, answer.text
    assert not one.run.exists()
    assert trainings.all() == []
    assert (home / "mine.toml").is_file()  # the recipe was saved for good
