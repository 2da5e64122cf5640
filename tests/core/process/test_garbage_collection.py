"""Collections are paused inside and as before afterwards, also upon an error and where off."""

import gc
import subprocess
import sys
from contextlib import suppress

import pytest

from regard.core.process.garbage_collection import paused_collection


def test_paused_inside_and_on_again_after_an_error() -> None:
    with suppress(ValueError), paused_collection():
        assert not gc.isenabled()
        raise ValueError
    assert gc.isenabled()


def test_stays_off_where_it_was_off() -> None:
    gc.disable()
    try:
        with paused_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize(("before", "frozen"), [("import gc", True), ("import gc, torch", False)])
def test_imports_are_frozen_unless_the_caller_may_have_models(before: str, frozen: bool) -> None:
    program = f"{before}; import regard.api; print(gc.isenabled(), gc.get_freeze_count() > 0)"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert printed.stdout.split() == ["True", str(frozen)], printed.stderr
