"""outcome.json: round trip, and damaged files."""

from __future__ import annotations

import json

import pytest
from tests.reports.synthetic_study import outcome_with, write_runs
from tests.unsealed import unseal

from regard.core.errors import UserError
from regard.studies.outcome import read_outcome


def test_outcome_round_trip(tmp_path):
    outcome = outcome_with("dot", "additive", "zero-masked", question="Which?")
    for variant in outcome.variants:
        variant.samples, variant.probes = [], []
    write_runs(tmp_path, outcome)
    again = read_outcome(tmp_path)
    sealed = {**outcome.as_dict(), "sealed": True}
    assert json.loads(json.dumps(again.as_dict())) == json.loads(json.dumps(sealed))
    assert again.verdicts == outcome.verdicts
    assert [one.estimates for one in again.variants] == [one.estimates for one in outcome.variants]


def test_an_outcome_of_the_former_schema_is_read(tmp_path):
    outcome = outcome_with("dot", "additive")
    write_runs(tmp_path, outcome)
    table = json.loads((tmp_path / "outcome.json").read_text())
    for key in ("looks", "diverged", "divergences"):
        del table[key]
    for variant in table["variants"]:
        del variant["diverged"]
        for run in variant["runs"]:
            del run["diverged"]
        for spread in variant["estimates"].values():
            del spread["groups"], spread["no_interval"]
    (tmp_path / "outcome.json").write_text(json.dumps(table | {"schema": 3}))
    unseal(tmp_path)  # it had none
    assert read_outcome(tmp_path).verdicts == outcome.verdicts


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda table: table.pop("decides"), "damaged at decides"),
        (lambda table: table["variants"][0].pop("name"), r"damaged at variants\.0\.name"),
        (lambda table: table.update(reference="gru"), "gru has a verdict but is no variant"),
        (
            lambda table: table["variants"][0].update(audit={}),
            r"audit\.verdict",
        ),
        (lambda table: table.update(schema=99), "schema 99"),
        (lambda table: table.update(schema=1), "schema 1 .*reads schema 4"),
    ],
)
def test_damaged_outcome_is_refused(tmp_path, damage, message):
    write_runs(tmp_path, outcome_with("dot", "additive"))
    table = json.loads((tmp_path / "outcome.json").read_text())
    damage(table)
    (tmp_path / "outcome.json").write_text(json.dumps(table))
    with pytest.raises(UserError, match="not what was written"):
        read_outcome(tmp_path)
    unseal(tmp_path)
    with pytest.raises(UserError, match=message):
        read_outcome(tmp_path)
    (tmp_path / "outcome.json").unlink()
    with pytest.raises(UserError, match="not a finished study"):
        read_outcome(tmp_path)
