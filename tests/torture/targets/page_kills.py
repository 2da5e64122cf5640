"""`regard serve` is killed while recipes are saved, trainings started and stopped, runs deleted."""

from __future__ import annotations

import http.client
import json
import os
import random
import shutil
import signal
import sys
import threading
import time
import tomllib
from contextlib import suppress
from pathlib import Path

from tests.reports.synthetic_study import outcome_with, write_runs
from tests.torture.harness import Failure, Target
from tests.web.page_process import PageProcess, page_process
from tests.web.serve_stand_in import STAND_IN

from regard.core.errors import UserError
from regard.runs.locking.lock import find_writer
from regard.web.listing import Listing, id_of
from regard.web.trainings.processes import Trainings, TrainingStatus
from regard.web.trainings.store import MARK, read_trainings

MAX_DELAY = 1.6
"Seconds from the first command to the kill: a command takes some milliseconds."
TRAINING_SECONDS = "0.3"
PATIENCE = 30.0


def make(home: Path) -> Path:
    """Finished runs that can be deleted."""
    runs = home / "runs"
    outcome = outcome_with("dot", "additive", seeds=3)
    write_runs(runs / "study", outcome)
    (runs / "study" / "outcome.json").unlink(missing_ok=True)
    return runs


def trial(made: Path, generator: random.Random, folder: Path) -> str:
    os.environ["STAND_IN_SECONDS"] = TRAINING_SECONDS
    runs = folder / "runs"
    shutil.copytree(made, runs)
    whole = {path.parent: path.parent for path in runs.rglob("recipe.toml")}
    files = {run: sorted(path.name for path in run.iterdir()) for run in whole}
    answered: list[tuple[str, str]] = []
    with page_process(runs) as page:
        commands = threading.Thread(target=_requests, args=(page, runs, generator, answered))
        commands.start()
        time.sleep(generator.uniform(0.0, MAX_DELAY))
        page.process.send_signal(signal.SIGKILL)
        page.process.wait()
        commands.join(PATIENCE)
        if commands.is_alive():
            raise Failure("hung", "a client waits for a server that was killed")
    _check_recipes(folder, answered)
    _check_runs(files, answered, runs)
    resumed = _check_trainings(runs, answered)
    if not answered:
        return "nothing was done yet"
    return "resumed" if resumed else "nothing lost"


def _requests(
    page: PageProcess, runs: Path, generator: random.Random, answered: list[tuple[str, str]]
) -> None:
    """What a person does, and what the page has confirmed, until it is dead."""
    deletable = sorted(path.parent for path in runs.rglob("recipe.toml"))
    for number in range(1000):
        name = f"made-{number}"
        command = generator.choice(["save", "train", "train", "delete", "stop", "resume", "save"])
        form = {"name": name, "data.corpus": "opinions", "train.seed": str(number)}
        known = [one.name for one in read_trainings(runs)]
        try:
            if command in ("save", "train"):
                reply = page.post(f"/recipe/{command}", form)
                if reply.status == 200:
                    answered.append((command, name))
            elif command == "delete" and deletable:
                run = deletable.pop(generator.randrange(len(deletable)))
                id = id_of(run.relative_to(runs).as_posix())
                reply = page.ask("/runs/delete", body=f"run={id}".encode())
                if reply.status == 303:
                    answered.append((command, str(run)))
            elif known and command in ("stop", "resume"):
                page.ask(f"/trainings/{id_of(generator.choice(known))}/{command}", body=b"")
        except (OSError, http.client.HTTPException):
            return


def _check_recipes(folder: Path, answered: list[tuple[str, str]]) -> None:
    """Every recipe is whole, and what was confirmed is there."""
    for file in folder.glob("*.toml"):
        text = file.read_text()
        try:
            name = tomllib.loads(text)["name"]
        except (tomllib.TOMLDecodeError, KeyError) as problem:
            raise Failure("lost", f"{file.name} is half-written: {problem}") from None
        if not text.startswith(MARK) or name != file.stem:
            raise Failure("lost", f"{file.name} holds something else")
    for command, name in answered:
        if command in ("save", "train") and not (folder / f"{name}.toml").is_file():
            raise Failure("lost", f"{name}.toml was confirmed, and is not there")


def _check_runs(files: dict[Path, list[str]], answered: list[tuple[str, str]], runs: Path) -> None:
    """A run exists whole, or not at all."""
    deleted = {name for command, name in answered if command == "delete"}
    for run, names in files.items():
        if str(run) in deleted and run.exists():
            raise Failure("lost", f"the deletion of {run.name} was confirmed, and it is there")
        if run.exists() and sorted(path.name for path in run.iterdir()) != names:
            raise Failure("lost", f"{run} was deleted by half")
    Listing(runs).runs()


def _check_trainings(runs: Path, answered: list[tuple[str, str]]) -> int:
    """Each is known to a new page, ends by itself or is resumed by it, and finishes."""
    home = runs.parent.resolve()
    after = Trainings(Listing(runs), home=home, command=[sys.executable, str(STAND_IN)])
    known = {one.name for one in read_trainings(runs)}
    for command, name in answered:
        if command == "train" and name not in known:
            raise Failure("lost", f"the training {name} was confirmed, and is not known")
    for folder in (runs / ".trainings").glob("[!.]*"):
        json.loads((folder / "training.json").read_text())
    resumed = 0
    for name in sorted(known):
        until = time.monotonic() + PATIENCE
        while (found := after.get(id_of(name))).state is not TrainingStatus.FINISHED:
            if time.monotonic() > until:
                raise Failure("hung", f"{name} is {found.state}: {found.training.output()}")
            if found.can_resume and find_writer(found.training.run) is None:
                time.sleep(0.3)  # it may be importing still
                with suppress(UserError):  # it has begun, or two others run
                    after.resume(found.training.id)
                    resumed += 1
            time.sleep(0.05)
    return resumed


TARGET = Target(
    "page-kills",
    "`regard serve` killed while recipes are saved, trainings started and stopped, runs deleted",
    200,
    trial,
    make,
    seconds=120,
)
