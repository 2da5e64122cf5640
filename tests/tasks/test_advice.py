"""Advice on model families: every built-in task has one, and supports the advised family."""

import json

import pytest
from tests.journeys.workspace import Workspace

from regard.core.errors import UserError
from regard.models.families import FAMILIES
from regard.runs.recipe import Recipe
from regard.tasks import TASKS, Task
from regard.tasks.advice import RECOMMENDED, advise


@pytest.mark.parametrize("task", TASKS.names())
def test_the_recommended_family_supports_the_task(task: str) -> None:
    assert task in RECOMMENDED
    assert advise(task).family in TASKS.get(task).properties["families"]
    assert advise(task).family in FAMILIES.names()


@pytest.mark.parametrize(
    ("family", "tasks"),
    [
        ("encoder", ("classification", "pairs", "retrieval", "extractive")),
        ("encoder-decoder", ("translation", "summarisation")),
        ("decoder", ("recall", "verbalizer")),
    ],
)
def test_recommended_families(family: str, tasks: tuple[str, ...]) -> None:
    assert {advise(task).family for task in tasks} == {family}


def test_a_users_task_is_advised_the_first_family_it_lists() -> None:
    TASKS.add("rhymes", families=("recurrent", "decoder"))(Task)
    try:
        assert advise("rhymes").family == "recurrent"
    finally:
        TASKS.remove("rhymes")


def test_an_unsupported_family_is_refused_with_advice() -> None:
    table = {"name": "x", "data": {"corpus": "x"}, "model": "encoder", "task": "translation"}
    with pytest.raises(UserError, match="best started with an encoder-decoder: "):
        Recipe.from_table(table)


def test_ls_shows_the_advice(tmp_path) -> None:
    workspace = Workspace(tmp_path)
    printed = " ".join(workspace.run("ls", "task").split())
    assert "best started with an encoder-decoder: " in printed
    assert "Pretrain from scratch where" in printed
    assert "you inherit its bias" in printed
    families = {
        row["name"]: row["advice"]["family"]
        for row in json.loads(workspace.run("ls", "task", "--json"))
    }
    assert families["recall"] == "decoder"
    assert "advice" not in workspace.run("ls", "mask", "--json")


def test_validate_advises_where_the_recipe_has_another_family(tmp_path) -> None:
    workspace = Workspace(tmp_path)
    rows = [f"{n} the film was {'fine' if n % 2 else 'dull'},{n % 2}" for n in range(160)]
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
    advice = "advice task.kind = 'classification' is best started with an encoder"
    assert advice in " ".join(workspace.run("validate", "decoder.toml").split())
    assert "advice" not in workspace.run("validate", "encoder.toml")
