"""Checks of arguments and arrays that several layers share; every message names the argument and says what to do."""

from __future__ import annotations

from collections.abc import Iterable


def one_of(value: str, name: str, allowed: Iterable[str]) -> str:
    """The value, if it is one of the allowed; else a ValueError that lists them.

    >>> one_of("holm", "correction", ["holm", "none"])
    'holm'
    """
    allowed = list(allowed)
    if value not in allowed:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, allowed))}, got {value!r}.")
    return value


def probability(value: float, name: str) -> float:
    """The value as a float strictly between 0 and 1; else a ValueError.

    >>> probability(0.05, "alpha")
    0.05
    """
    number = float(value)
    if not 0 < number < 1:
        raise ValueError(f"`{name}` must lie strictly between 0 and 1, got {value!r}.")
    return number
