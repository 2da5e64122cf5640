"""`regard check`: what it prints, what it answers, and with which exit code."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.journeys.desk import Desk

from regard.core import user_files

SOUND = '''"""Sound."""

from regard.attention.kinds import AttentionKind, BrokenKind, kind
from regard.attention.kinds.dot import DotProduct


@kind("{name}", cost="n² · d"{declared})
class Mine(AttentionKind):
    """{name}, for a test."""

    def build(self, shape):
        return Rule()


class Rule(DotProduct):
    pass
'''
LEAKY = SOUND.replace(
    "    pass\n",
    "    ignores_masked_keys = False\n\n"
    "    def fast(self, inputs):\n"
    "        return None\n\n"
    "    def normalise(self, scores, allowed):\n"
    "        return scores.softmax(-1) * allowed\n",
)
SOUND_ON_PURPOSE, LEAKY_ON_PURPOSE = (
    text.replace("Mine(AttentionKind)", "Mine(BrokenKind)") for text in (SOUND, LEAKY)
)
ON_PURPOSE = ', broken="on purpose", fails=("forbidden-keys", "padding", "cache")'
FAMILY = '''
from regard.models.families import FAMILIES, Family

@FAMILIES.add("mine", predicts="nothing", objectives=())
class Mine(Family):
    """A family of one's own."""
'''


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    before = dict(user_files._loaded)
    yield Desk(tmp_path)
    for file in [f for digest, f in user_files._loaded.items() if digest not in before]:
        user_files.unload(file)


def test_a_sound_kind_passes(desk: Desk) -> None:
    desk.write("mine.py", SOUND.format(name="mine", declared=""))
    outcome = desk.regard("check", "mine.py", "--configurations", "3")
    assert outcome.code == 0
    assert "attention mine  mine.py:7" in outcome.out
    assert outcome.out.count("✓") == 14
    assert "✗" not in outcome.out
    assert "as declared: 14 contracts" in outcome.out


def test_a_leaky_kind_fails_with_numbers(desk: Desk) -> None:
    desk.write("leaky.py", LEAKY.format(name="leaky", declared=""))
    outcome = desk.regard("check", "leaky.py", "--configurations", "8")
    assert outcome.code == 1
    assert "3 of 14 contracts are broken: forbidden-keys, padding, cache" in outcome.out
    assert "allowed 1e-12" in outcome.out


def test_what_is_broken_on_purpose_is_as_declared(desk: Desk) -> None:
    desk.write("leaky.py", LEAKY_ON_PURPOSE.format(name="leaky", declared=ON_PURPOSE))
    outcome = desk.regard("check", "leaky.py", "--configurations", "8")
    assert outcome.code == 0
    assert outcome.out.count("as declared: ") == 4


def test_a_declared_failure_that_does_not_happen_is_one(desk: Desk) -> None:
    desk.write("mine.py", SOUND_ON_PURPOSE.format(name="mine", declared=ON_PURPOSE))
    outcome = desk.regard("check", "mine.py", "--configurations", "3")
    assert outcome.code == 1
    assert "declared to fail, and holds everywhere" in outcome.out


@pytest.mark.parametrize(
    ("text", "declared", "says"),
    [
        (SOUND, ON_PURPOSE, "says what is broken, and Mine is no BrokenKind: derive it"),
        (SOUND_ON_PURPOSE, "", "Mine is a BrokenKind, and kind 'mine' does not say what is wrong"),
    ],
)
def test_half_a_declaration_is_refused(desk: Desk, text: str, declared: str, says: str) -> None:
    desk.write("mine.py", text.format(name="mine", declared=declared))
    outcome = desk.regard("check", "mine.py")
    assert outcome.code == 2
    assert says in outcome.complaint
    assert outcome.complaint.startswith("part: mine.py, line 7: ")


def test_json_holds_every_result(desk: Desk) -> None:
    desk.write("leaky.py", LEAKY.format(name="leaky", declared=""))
    outcome = desk.regard("check", "leaky.py", "--configurations", "8", "--json")
    assert outcome.code == 1
    told = json.loads(outcome.out)
    (part,) = told["parts"]
    assert (told["as_declared"], part["sort"], part["name"]) == (False, "attention", "leaky")
    wrong = {r["contract"] for r in part["results"] if not r["as_declared"]}
    assert wrong == {"forbidden-keys", "padding", "cache"}


def test_other_sorts_load_and_have_no_contracts_yet(desk: Desk) -> None:
    desk.write("family.py", FAMILY)
    outcome = desk.regard("check", "family.py")
    assert outcome.code == 0
    assert "family mine" in outcome.out
    assert "there are no contracts for a family yet" in outcome.out


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1\n", "check: mine.py adds no part."),
        ("x = undefined\n", "part: mine.py, line 1: NameError: name 'undefined' is not defined"),
        (
            SOUND.format(name="dot", declared=""),
            "attention 'dot': the name is taken by regard/attention/kinds/dot.py:",
        ),
    ],
)
def test_what_cannot_be_checked_is_said_in_a_sentence(desk: Desk, text: str, says: str) -> None:
    desk.write("mine.py", text)
    outcome = desk.regard("check", "mine.py")
    assert outcome.code == 2
    assert says in outcome.complaint
    assert outcome.out == ""


def test_a_missing_file_is_said(desk: Desk) -> None:
    outcome = desk.regard("check", "gone.py")
    assert outcome.code == 2
    assert outcome.complaint.startswith("part: gone.py does not exist. Give the path of a Python")
