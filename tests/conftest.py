"""For every test: machines are noisy, so no example fails because it took long."""

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
