"""A plugin of pytest: `pytest --regard-audit` audits the models of functions that are marked with
`@regard.audited`, each as one test.

Without the option these tests are skipped, and neither torch nor the audit is imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from unittest import TestCase

import pytest

from regard.audits.audited import audit_request
from regard.core.errors import UserError

if TYPE_CHECKING:
    from regard.audits.audit import Audit

OPTION = "--regard-audit"
MARKER = "regard_audit"
MAX_LEAKS_SHOWN = 10


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("regard").addoption(
        OPTION,
        action="store_true",
        help="Audit the models of functions marked with @regard.audited.",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARKER}: audits of models, which {OPTION} runs")


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> Sequence[pytest.Item] | None:
    """A marked function is a test, whatever its name is and wherever it was imported from; with
    parameters, its own or of fixtures, it is one for each."""
    if isinstance(obj, type) and issubclass(obj, TestCase):
        _refuse_marked_methods(obj, collector)
    function = getattr(obj, "__func__", obj)  # of a static method
    if audit_request(function) is None:
        return None
    items: list[pytest.Item] = list(collector._genfunctions(name, function))
    for item in items:
        item.add_marker(MARKER)
        if not collector.config.getoption(OPTION):
            item.add_marker(pytest.mark.skip(reason=f"audits run with {OPTION}"))
    return items


def _refuse_marked_methods(case: type[TestCase], collector: pytest.Collector) -> None:
    """unittest runs the methods of its classes itself: they would pass whatever they return."""
    marked = [name for name, value in vars(case).items() if audit_request(value)]
    if marked and collector.config.getoption(OPTION):
        raise collector.CollectError(
            f"{case.__name__}.{marked[0]} cannot be audited: unittest runs it. Mark a function or "
            "a method of a plain class."
        )


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Make the model, with fixtures if the function asks for them, and audit it."""
    request = audit_request(pyfuncitem.obj)
    if request is None:
        return None
    import regard

    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    model = pyfuncitem.obj(**arguments)
    try:
        audit = regard.audit(
            model, request.mask, request.sample, lengths=request.lengths, seed=request.seed
        )
    except UserError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    if not audit.is_clean:
        pytest.fail(_report(audit), pytrace=False)
    return True


def _report(audit: Audit) -> str:
    """The verdict, the largest leaks, and what could not be checked."""
    lines = [f"{audit.target}, mask {audit.mask} ({audit.mask_from})", audit.sentence()]
    largest = sorted(audit.leaks, key=lambda leak: -leak.influence)
    lines += [
        f"  position {leak.query} depends on {leak.key}: {leak.influence:.2g} "
        f"by {leak.how}, {leak.where}"
        for leak in largest[:MAX_LEAKS_SHOWN]
    ]
    if len(largest) > MAX_LEAKS_SHOWN:
        lines.append(f"  … {len(largest):,} leaking pairs in total")
    lines += [f"  other finding: {finding.text}" for finding in audit.findings]
    lines += [f"  not checked: {check}" for check in audit.unchecked]
    return "\n".join(lines)
