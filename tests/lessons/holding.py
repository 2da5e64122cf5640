"""What tests of lessons share: that every check of one holds."""

from regard.lessons import run_lesson


def holds(name: str, **given: float) -> None:
    failed = [
        check.as_dict() for check in run_lesson(name, **given).result.checks if not check.passed
    ]
    assert failed == []
