"""Tables of pairs with the better method first: what tells the two apart changes places or sign
with them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike


def better_first(
    pairs: pd.DataFrame,
    turned: ArrayLike,
    *,
    swap: Iterable[tuple[str, str]] = (),
    negate: Iterable[str] = (),
) -> pd.DataFrame:
    """The rows in the same order, those that are `turned` (see `behind`) with the methods the other
    way round.

    Columns of `swap` change places: what is said of method_a, and of method_b. Then those of
    `negate` change sign: differences a minus b.

    >>> pairs = pd.DataFrame({"method_a": ["x"], "method_b": ["y"], "wins": [2], "losses": [5], "low": [-3], "high": [-1]})
    >>> better_first(pairs, [True], swap=[("wins", "losses"), ("low", "high")], negate=["low", "high"]).values.tolist()
    [['y', 'x', 5, 2, 1, 3]]
    """  # noqa: E501
    turned, out = np.asarray(turned, dtype=bool), pairs.copy()
    for a, b in (("method_a", "method_b"), *swap):
        out[a], out[b] = pairs[a].mask(turned, pairs[b]), pairs[b].mask(turned, pairs[a])
    for name in negate:
        out[name] = out[name].mask(turned, -out[name])
    return out


def behind(pairs: pd.DataFrame, order: Sequence[Hashable]) -> np.ndarray:
    """Which rows have method_a behind method_b in the order, best first.

    >>> behind(pd.DataFrame({"method_a": ["x", "y"], "method_b": ["y", "z"]}), ["y", "z", "x"]).tolist()
    [True, False]
    """  # noqa: E501
    at = places(pairs, order)
    return (at["a"] > at["b"]).to_numpy()


def places(pairs: pd.DataFrame, order: Sequence[Hashable]) -> pd.DataFrame:
    """The places a and b of the two methods in the order, counted from 0."""
    place = {method: i for i, method in enumerate(order)}
    return pd.DataFrame({"a": pairs["method_a"].map(place), "b": pairs["method_b"].map(place)})
