"""Clean models stay clean whatever their values are replaced by."""

import pytest
from tests.audits.clean_mixers import MIXERS
from tests.audits.clean_modules import CLEAN

from regard.audits.audit import audit


@pytest.mark.parametrize("name", [*CLEAN, *MIXERS])
def test_clean_module_has_no_leak(name: str) -> None:
    report = audit({**CLEAN, **MIXERS}[name]())
    assert report.verdict == "clean", report.sentence()
