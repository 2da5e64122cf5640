"""Properties of every task in the catalogue."""

import pytest

from regard.tasks import TASKS, Task


@pytest.mark.parametrize("name", TASKS.names())
def test_no_task_redefines_a_common_setting(name):
    """One task's answer length once replaced the row length: every window had thirty tokens."""
    own = vars(TASKS.get(name).part).get("__annotations__", {})
    assert not own.keys() & Task.model_fields.keys()
