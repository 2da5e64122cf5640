"""Properties of every task in the catalogue."""

import pytest

from regard.core.setting_docs import setting_docs
from regard.core.settings import read_settings, to_table
from regard.data.record_corpus import Record
from regard.evaluation.metrics.metric import METRICS
from regard.models.families import FAMILIES
from regard.tasks import TASKS, Task


@pytest.mark.parametrize("name", TASKS.names())
class TestEveryTask:
    def test_no_task_redefines_a_common_setting(self, name):
        """One task's answer length once replaced the row length: every window had thirty tokens."""
        own = vars(TASKS.get(name).part).get("__annotations__", {})
        assert not own.keys() & Task.model_fields.keys()

    def test_is_documented(self, name):
        entry = TASKS.get(name)
        assert entry.summary
        assert setting_docs(entry.part).keys() >= entry.part.model_fields.keys()

    def test_families_exist(self, name):
        families = TASKS.get(name).properties["families"]
        assert families
        assert {*families} <= {*FAMILIES.names()}

    def test_roles_are_declared_once_and_have_a_column(self, name):
        task = TASKS.get(name).part()
        roles = (*task.column_roles, *task.optional_roles)
        assert len({*roles}) == len(roles)
        typed = {*task.target_roles, *task.optional_columns(), *task.column_types()}
        assert typed <= {*task.columns()}
        assert {*task.input_columns()} <= {*task.columns()} - {*task.target_roles}
        assert all(isinstance(column, str) for column in task.columns().values())

    def test_scores_are_those_of_a_metric(self, name):
        scores = TASKS.get(name).part.score_names
        assert any(scores == metric.part.score_names for metric in METRICS)

    def test_group_is_that_of_the_data_or_a_shared_input(self, name):
        task = TASKS.get(name).part()
        row = dict.fromkeys((*task.columns(), *task.input_columns()), "a value")
        assert task.group_of(Record(row, group="author 1")) == "author 1"
        assert task.group_of(Record({}, group=None)) is None
        if task.group_role is None:
            assert task.group_of(Record(row)) is None
            return
        assert task.group_role in task.input_columns()
        long, other = (Record({**row, task.group_role: text * 40}) for text in ("long", "other"))
        assert task.group_of(Record(row)) == "a value"
        assert task.group_of(long) == task.group_of(Record(long)) != task.group_of(other)
        assert len(task.group_of(long)) < 40

    def test_settings_survive_a_recipe(self, name):
        task = TASKS.get(name).part()
        assert read_settings(type(task), to_table(task)) == task
