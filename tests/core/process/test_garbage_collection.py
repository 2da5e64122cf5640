"""Collections are paused inside and as before afterwards, also upon an error and where off."""

import gc
from contextlib import suppress

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
