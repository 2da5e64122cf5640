"""Run a lesson and assert that all of its checks pass."""

from regard.lessons import run_lesson


def assert_checks_pass(name: str, **parameters: float) -> None:
    checks = run_lesson(name, **parameters).result.checks
    assert [check.as_dict() for check in checks if not check.passed] == []
