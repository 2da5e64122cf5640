"""`regard check`: output, JSON and exit codes."""

import json
import re
from pathlib import Path

import pytest
from tests.journeys.workspace import Workspace
from tests.wording import says

CORRECT = '''"""Correct."""

from regard.attention.kinds import AttentionKind, BrokenKind, kind
from regard.attention.kinds.dot import DotProduct


@kind("{name}", cost="n² · d"{declared})
class Mine(AttentionKind):
    """{name}, for a test."""

    def build(self, shape):
        return Function()


class Function(DotProduct):
    pass
'''
LEAKY = CORRECT.replace(
    "    pass\n",
    "    ignores_masked_keys = False\n\n"
    "    def fast(self, inputs):\n"
    "        return None\n\n"
    "    def normalise(self, scores, allowed):\n"
    "        return scores.softmax(-1) * allowed\n",
)
WRONG = '        raise IndexError("no such head")\n'
RAISING = {
    "scores": CORRECT.replace("    pass\n", f"    def scores(self, q, k):\n{WRONG}"),
    # Not at its default width, so that the part itself can be built.
    "build": CORRECT.replace(
        "        return Function()\n",
        f"        if shape.width == 2:\n    {WRONG}        return Function()\n",
    ),
}
CORRECT_ON_PURPOSE, LEAKY_ON_PURPOSE = (
    text.replace("Mine(AttentionKind)", "Mine(BrokenKind)") for text in (CORRECT, LEAKY)
)
ON_PURPOSE = ', broken="on purpose", fails=("forbidden-keys", "padding", "cache")'
FAMILY = '''
from regard.models.families import FAMILIES, Family

@FAMILIES.add("mine", predicts="nothing", objectives=())
class Mine(Family):
    """A user's own family."""
'''


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def test_correct_kind_passes(workspace: Workspace) -> None:
    workspace.write("mine.py", CORRECT.format(name="mine", declared=""))
    result = workspace.invoke("check", "mine.py", "--configurations", "3")
    assert result.exit_code == 0
    assert "attention mine  mine.py:7" in result.stdout
    assert result.stdout.count("✓") == 14
    assert "✗" not in result.stdout
    assert "as declared: 14 contracts" in result.stdout


def test_leaking_kind_fails_with_numbers(workspace: Workspace) -> None:
    workspace.write("leaky.py", LEAKY.format(name="leaky", declared=""))
    result = workspace.invoke("check", "leaky.py", "--configurations", "8")
    assert result.exit_code == 1
    assert says(result.stdout, "3 of 14", "broken: forbidden-keys, padding, cache")
    assert "allowed 1e-12" in result.stdout


def test_deliberately_broken_kind_is_as_declared(workspace: Workspace) -> None:
    workspace.write("leaky.py", LEAKY_ON_PURPOSE.format(name="leaky", declared=ON_PURPOSE))
    result = workspace.invoke("check", "leaky.py", "--configurations", "8")
    assert result.exit_code == 0
    assert result.stdout.count("as declared: ") == 4


def test_declared_failure_must_happen(workspace: Workspace) -> None:
    workspace.write("mine.py", CORRECT_ON_PURPOSE.format(name="mine", declared=ON_PURPOSE))
    result = workspace.invoke("check", "mine.py", "--configurations", "3")
    assert result.exit_code == 1
    assert "declared to fail, and holds everywhere" in result.stdout


@pytest.mark.parametrize(
    ("text", "declared", "message"),
    [
        (CORRECT, ON_PURPOSE, "says what is broken, and Mine is no BrokenKind: derive it"),
        (
            CORRECT_ON_PURPOSE,
            "",
            "Mine is a BrokenKind, and kind 'mine' does not say what is wrong",
        ),
    ],
)
def test_incomplete_declaration_is_refused(
    workspace: Workspace, text: str, declared: str, message: str
) -> None:
    workspace.write("mine.py", text.format(name="mine", declared=declared))
    result = workspace.invoke("check", "mine.py")
    assert result.exit_code == 2
    assert message in result.error
    assert result.error.startswith("part: mine.py, line 7: ")


def test_json_has_every_result(workspace: Workspace) -> None:
    workspace.write("leaky.py", LEAKY.format(name="leaky", declared=""))
    result = workspace.invoke("check", "leaky.py", "--configurations", "8", "--json")
    assert result.exit_code == 1
    table = json.loads(result.stdout)
    (part,) = table["parts"]
    assert (table["as_declared"], part["catalog"], part["name"]) == (False, "attention", "leaky")
    broken = {r["contract"] for r in part["results"] if not r["as_declared"]}
    assert broken == {"forbidden-keys", "padding", "cache"}


@pytest.mark.parametrize("where", ["scores", "build"])
def test_the_configuration_is_said_where_code_raises(workspace: Workspace, where: str) -> None:
    workspace.write("mine.py", RAISING[where].format(name="mine", declared=""))
    result = workspace.invoke("check", "mine.py", "--configurations", "8", "--json")
    assert result.exit_code == 1, result.stderr
    (part,) = json.loads(result.stdout)["parts"]
    sentences = [one["sentence"] for one in part["results"] if "IndexError" in one["sentence"]]
    assert sentences
    for sentence in sentences:
        assert "mine.py, line" in sentence
        assert re.search(r"heads of \d+", sentence)


def test_part_without_contracts_is_loaded(workspace: Workspace) -> None:
    workspace.write("family.py", FAMILY)
    result = workspace.invoke("check", "family.py")
    assert result.exit_code == 0
    assert "family mine" in result.stdout
    assert "no contracts for a family" in result.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "check: mine.py adds no part."),
        ("x = undefined\n", "part: mine.py, line 1: NameError: name 'undefined' is not defined"),
        (
            CORRECT.format(name="dot", declared=""),
            "attention 'dot': the name is taken by regard/attention/kinds/dot.py:",
        ),
    ],
)
def test_errors_are_one_sentence(workspace: Workspace, text: str, message: str) -> None:
    workspace.write("mine.py", text)
    result = workspace.invoke("check", "mine.py")
    assert result.exit_code == 2
    assert message in result.error
    assert result.stdout == ""


def test_missing_file_is_refused(workspace: Workspace) -> None:
    result = workspace.invoke("check", "gone.py")
    assert result.exit_code == 2
    assert says(result.error, "part: gone.py does not exist.", "Give the path")
