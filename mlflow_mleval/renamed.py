"""Old names of keyword arguments and attributes, which go on working."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def renamed(**names: str | tuple[str, Callable[[Any], Any]]) -> Callable[[Function], Function]:
    """Accept old keyword arguments, with a DeprecationWarning: ``@renamed(old="new")``.

    Where the values changed, too, give the new name and what turns an old value into a new one.

    >>> @renamed(n_draws="n_resamples")
    ... def draw(n_resamples=9):
    ...     return n_resamples
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     draw(n_draws=3), str(said[0].message)
    (3, '`n_draws` of draw() is called `n_resamples` now.')
    """

    def wrap(function: Function) -> Function:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            for old in names.keys() & kwargs.keys():
                new, turn = (names[old], lambda value: value) if isinstance(names[old], str) else names[old]
                if new in kwargs:
                    raise TypeError(f"`{new}` must be given once, got `{old}`, its old name, too.")
                warnings.warn(f"`{old}` of {function.__name__}() is called `{new}` now.", DeprecationWarning, stacklevel=2)
                kwargs[new] = turn(kwargs.pop(old))
            return function(*args, **kwargs)

        return call

    return wrap


#: Whether the smaller value is better was said by a flag; measures have a direction everywhere.
DIRECTION = ("direction", lambda minimize: "min" if minimize else "max")


def alias(name: str) -> property:
    """An old name of an attribute, for reading."""
    return property(lambda self: getattr(self, name), doc=f"Old name of `{name}`.")
