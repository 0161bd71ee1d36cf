"""Which methods a test does not separate: maximal cliques of the non-rejection graph, and letters
that show them.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from string import ascii_letters
from typing import Any

import numpy as np
import pandas as pd

#: A graph may have exponentially many maximal cliques; of more than this, and than methods, only
#: some are shown.
MAX_CLIQUES = 1000


def cliques(separated: pd.DataFrame) -> list[list[Any]]:
    """The maximal sets of methods of which the test separates no pair (a piece of a
    critical-difference diagram each).

    `separated` is methods x methods, symmetric (else a ValueError); its diagonal does not count.
    Sets and their members are in the order of the frame; a method that is separated from all others
    stands alone.

    If there are more of them than `MAX_CLIQUES` and than methods, a UserWarning says so and the
    result is a choice among them that still holds every unseparated pair at least once.

    >>> apart = pd.DataFrame([[0, 0, 1], [0, 0, 0], [1, 0, 0]], list("abc"), list("abc"), dtype=bool)
    >>> cliques(apart)
    [['a', 'b'], ['b', 'c']]
    """  # noqa: E501
    if separated.shape[0] != separated.shape[1] or not separated.index.equals(separated.columns):
        raise ValueError(
            f"`separated` must be square with the same names both ways, got {separated.shape}. "
            "Reindex it."
        )
    apart = separated.to_numpy(dtype=bool)
    if (apart != apart.T).any():
        raise ValueError(
            f"`separated` must be symmetric, got {int((apart != apart.T).sum() // 2)} pairs that "
            "differ."
        )
    together = ~apart
    np.fill_diagonal(together, False)
    groups = _all_cliques(together) or _some_cliques(together)
    return [
        separated.index[members].tolist() for members in sorted(sorted(group) for group in groups)
    ]


def grouped(separated: pd.DataFrame) -> tuple[list[list[Any]], dict[Any, str]]:
    """The `cliques`, and the `letters` that show them; the methods of the frame are best first."""
    found = cliques(separated)
    return found, letters(found, separated.index.tolist())


def _all_cliques(together: np.ndarray) -> list[list[int]]:
    """The maximal cliques; none at all where there are too many.

    Vertices come one by one; sets of them are bits of integers. networkx takes 10 s for 1,000
    methods on a line, this .2 s.
    """
    groups: list[int] = []
    for v, row in enumerate(together[:, ::-1]):  # the first vertex is the last digit
        near = int("".join("1" if joined else "0" for joined in row), 2)
        joined: list[int] = []
        for group in sorted({group & near for group in groups}, key=int.bit_count, reverse=True):
            if all(group & ~larger for larger in joined):
                joined.append(group)
        # what v joins as a whole is no longer maximal; a vertex without neighbours stands alone
        groups = [group for group in groups if group & ~near] + [
            group | 1 << v for group in joined or [0]
        ]
        # cliques never become fewer when a vertex comes
        if len(groups) > max(MAX_CLIQUES, len(together)):
            return []
    return [[v for v in range(len(together)) if group >> v & 1] for group in groups]


def _some_cliques(together: np.ndarray) -> list[list[int]]:
    """Maximal cliques that hold every pair, each grown from a pair that was open by what closes
    most.
    """
    limit = max(MAX_CLIQUES, len(together))
    warnings.warn(
        f"the graph of unseparated methods has more than {limit} maximal cliques; "
        "some are shown that hold every pair.",
        stacklevel=3,
    )
    open_pairs = np.triu(together, 1)
    chosen = [[int(v)] for v in np.flatnonzero(~together.any(axis=0))]
    while open_pairs.any():
        a, b = np.unravel_index(int(np.argmax(open_pairs)), open_pairs.shape)
        clique, common = [int(a), int(b)], together[a] & together[b]
        while common.any():
            fresh = (open_pairs | open_pairs.T)[clique].sum(axis=0)
            v = int(np.argmax(np.where(common, fresh, -1)))
            clique.append(v)
            common &= together[v]
        open_pairs[np.ix_(clique, clique)] = False
        chosen.append(clique)
    return chosen


def letters(groups: Iterable[Sequence[Hashable]], order: Sequence[Hashable]) -> dict[Hashable, str]:
    """The compact letter display: two methods share a letter exactly where they are not separated
    (Piepho 2004).

    `groups` are the maximal cliques. "a" goes to the group of the best method of `order`; after z
    come capitals, then a2, b2 and so on.

    >>> letters([["b", "c"], ["a", "b"]], order=["a", "b", "c"])
    {'a': 'a', 'b': 'ab', 'c': 'b'}
    """
    place: Mapping[Hashable, int] = {name: i for i, name in enumerate(order)}
    out = dict.fromkeys(order, "")
    for i, members in enumerate(sorted(sorted(place[name] for name in group) for group in groups)):
        turn, letter = divmod(i, len(ascii_letters))
        for at in members:
            out[order[at]] += ascii_letters[letter] + (str(turn + 1) if turn else "")
    return out
