"""The fixture `make_run`."""

from tests.synthetic_run import make_run

__all__ = ["make_run"]
