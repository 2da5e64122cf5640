"""What holds for every task in the catalogue."""

import pytest

from regard.tasks import TASKS, Task


@pytest.mark.parametrize("name", TASKS.names())
def test_a_setting_of_all_tasks_means_the_same_in_each(name):
    """An answer's length once stood where a row's does, and every window had thirty places."""
    own = vars(TASKS.get(name).part).get("__annotations__", {})
    assert not own.keys() & Task.model_fields.keys()
