"""Watching a study: what is shown before its end is a preview, and at its end the verdict."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.journeys.workspace import file_digests
from tests.web.conftest import drawn_study as drawn_study
from tests.web.replay import Replay

from regard.core.errors import UserError
from regard.studies.outcome import read_outcome
from regard.studies.verdicts.planned_looks import PREVIEW
from regard.studies.watch import WatchedState, watch


@pytest.fixture
def replay(drawn_study, tmp_path):
    return Replay(drawn_study, tmp_path / "runs" / "study")


def test_there_is_no_verdict_before_the_last_planned_run(replay, drawn_study):
    final = read_outcome(drawn_study)
    assert final.verdicts[0].better == "one"
    names = list(replay.runs())
    said = []
    for name in names:
        watched = watch(replay.home)
        assert not watched.is_decided
        said.append(watched.undecided)
        assert {one.better for one in watched.outcome.verdicts} == {""}
        judged = [one for one in watched.outcome.verdicts if one.value is not None]
        assert all(one.is_preview and one.sentence == PREVIEW for one in judged)
        replay.begin(name, lines=10)
        running = watch(replay.home).running
        assert [f"{run.variant}/seed-{run.seed}" for run in running] == [name]
        assert 0 < running[0].fraction < 1
        replay.finish(name)
    assert said == [f"not decided: {n} of 3 seeds, planned" for n in (0, 0, 1, 1, 2, 2)]
    watched = watch(replay.home)
    assert (watched.is_decided, watched.undecided) == (True, "")
    mine, theirs = watched.outcome.verdicts[0], final.verdicts[0]
    assert (mine.sentence, mine.value, mine.low) == (theirs.sentence, theirs.value, theirs.low)
    replay.judge()
    assert watch(replay.home).outcome == replace(final, folder=replay.home)


def test_a_preview_has_the_differences_of_the_seeds_so_far(replay, drawn_study):
    for name in list(replay.runs())[:4]:
        replay.finish(name)
    final = read_outcome(drawn_study).verdicts[0]
    preview = watch(replay.home).outcome.verdicts[0]
    assert preview.per_seed == final.per_seed[:2]
    assert "over 2 of 3 seeds" in preview.notes[0]


def test_looking_writes_nothing(replay):
    replay.begin(next(replay.runs()), lines=10)
    before = file_digests(replay.home.parent)
    watch(replay.home)
    assert file_digests(replay.home.parent) == before


def test_states_and_time_left(replay):
    names = list(replay.runs())
    for name in names[:2]:
        replay.finish(name)
    replay.begin(names[2], lines=10)
    watched = watch(replay.home)
    states = {f"{run.variant}/seed-{run.seed}": run.state for run in watched.runs}
    assert [states[name] for name in names] == (["finished"] * 2 + ["running"] + ["waiting"] * 3)
    took = watched.runs[0].seconds
    began = datetime.fromisoformat(watched.running[0].record.events.start.time)
    left = watched.seconds_left(now=began + timedelta(seconds=took / 2))
    assert left == pytest.approx(3.5 * took)
    writer = (replay.home / names[2]).with_name(f".{names[2].rpartition('/')[2]}.writer.json")
    writer.unlink()  # its process ended
    watched = watch(replay.home)
    assert WatchedState.STOPPED in {run.state for run in watched.runs}
    assert watched.seconds_left(now=datetime.now(UTC)) is None


def test_before_its_plan_a_study_says_so(replay):
    (replay.home / "plan.json").unlink()
    with pytest.raises(UserError, match="not planned yet"):
        watch(replay.home)
