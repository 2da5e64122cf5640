"""A finished study whose losses were drawn: its folder is written in a moment."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from tests.journeys.workspace import TINY, WORDS
from tests.studies.drawn_trainings import DrawnTrainings
from tests.synthetic_run import event_lines

from regard.studies import compare
from regard.studies.engines import choice


def draw_study(folder: Path, *, variants: Mapping[str, Mapping[str, Any]], seeds: int) -> Path:
    """The folder of a study in which the last variant is better than the first."""
    folder.mkdir(parents=True, exist_ok=True)
    sentences = [" ".join(words) for words in itertools.product(*WORDS)]
    (folder / "generated.txt").write_text("\n".join(sentences[::3]))
    (folder / "tiny.toml").write_text(tomli_w.dumps(TINY))
    first, *_, last = variants
    study = {
        "base": "tiny.toml",
        "question": f"Is {last} better than {first}?",
        "seeds": list(range(seeds)),
        "variants": variants,
    }
    (folder / "study.toml").write_text(tomli_w.dumps(study))
    trainings = DrawnTrainings()
    trainings.better_by[last] = 30.0
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(folder):
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        patch.setattr(choice, "LocalEngine", lambda **_: trainings)
        compare.compare("study.toml")
    home = folder / "runs" / "study"
    for run in home.glob("*/seed-*"):
        (run / "final").mkdir()
        (run / "events.jsonl").write_text("\n".join(event_lines(200)) + "\n")
    return home
