"""Which family for which task: every task that ships has advice, and the advice can be followed."""

import json

import pytest
from tests.journeys.workspace import Workspace

from regard.core.errors import UserError
from regard.models.families import FAMILIES
from regard.runs.recipe import Recipe
from regard.tasks import TASKS, Task
from regard.tasks.advice import BEST, advise


@pytest.mark.parametrize("task", TASKS.names())
def test_the_advised_family_is_one_that_can(task: str) -> None:
    assert task in BEST
    assert advise(task).family in TASKS.get(task).properties["families"]
    assert advise(task).family in FAMILIES.names()


@pytest.mark.parametrize(
    ("family", "tasks"),
    [
        ("encoder", ("classification", "pairs", "retrieval", "extractive")),
        ("encoder-decoder", ("translation", "summarisation")),
        ("decoder", ("recall", "verbalised")),
    ],
)
def test_families_by_what_a_task_asks_for(family: str, tasks: tuple[str, ...]) -> None:
    assert {advise(task).family for task in tasks} == {family}


def test_a_task_of_ones_own_has_the_first_family_it_names() -> None:
    TASKS.add("rhymes", families=("recurrent", "decoder"))(Task)
    try:
        assert advise("rhymes").family == "recurrent"
    finally:
        TASKS.remove("rhymes")


def test_a_family_that_does_not_fit_is_refused_with_advice() -> None:
    table = {"name": "x", "data": {"corpus": "x"}, "model": "encoder", "task": "translation"}
    with pytest.raises(UserError, match="best begun with an encoder-decoder: the source is read"):
        Recipe.from_table(table)


def test_ls_tells_it(tmp_path) -> None:
    workspace = Workspace(tmp_path)
    shown = " ".join(workspace.run("ls", "task").split())
    assert "best begun with an encoder-decoder: the source is read as a whole" in shown
    assert "Pretrain anew where there is none for the language" in shown
    assert "its bias comes with it" in shown
    told = {
        row["name"]: row["advice"]["family"]
        for row in json.loads(workspace.run("ls", "task", "--json"))
    }
    assert told["recall"] == "decoder"
    assert "advice" not in workspace.run("ls", "mask", "--json")


def test_validate_tells_it_where_the_recipe_has_another_family(tmp_path) -> None:
    workspace = Workspace(tmp_path)
    rows = [
        f"{number} the film was {'fine' if number % 2 else 'dull'},{number % 2}"
        for number in range(160)
    ]
    workspace.write("rows.csv", "\n".join(["text,label", *rows]))
    for family in ("decoder", "encoder"):
        workspace.recipe(
            f"{family}.toml",
            data__corpus="rows.csv",
            data__dev=0.2,
            data__test=0.2,
            model__family=family,
            task={"kind": "classification"},
        )
    advice = "advice task.kind = 'classification' is best begun with an encoder"
    assert advice in " ".join(workspace.run("validate", "decoder.toml").split())
    assert "advice" not in workspace.run("validate", "encoder.toml")
