"""The fixture `make_run`."""

from tests.made_run import make_run

__all__ = ["make_run"]
