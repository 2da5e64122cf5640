"""How many bytes of addresses this process may have: `ulimit -v`, which batch systems set too."""

from __future__ import annotations


def address_limit() -> int | None:
    """None where there is no limit, or the system does not tell."""
    try:
        import resource  # not on every system
    except ImportError:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft
