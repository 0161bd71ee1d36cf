"""Which methods a test does not separate: maximal cliques of the non-rejection graph, and letters that show them."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import islice
from string import ascii_letters

import numpy as np
import pandas as pd

#: A graph may have exponentially many maximal cliques; beyond this many nobody reads them.
MAX_CLIQUES = 1000


def cliques(separated: pd.DataFrame) -> list[list[Hashable]]:
    """The maximal sets of methods of which the test separates no pair (a piece of a critical-difference diagram each).

    `separated` is methods x methods, symmetric (else a ValueError); its diagonal does not count. Sets and their members are in
    the order of the frame; a method that is separated from all others stands alone.

    Where the graph is chordal, as it is for tests of mean ranks (intervals on a line), they are found in O(methods squared). A
    general graph is searched by networkx; if it has more than `MAX_CLIQUES` maximal cliques, a UserWarning says so and the result
    is a choice among them that still holds every unseparated pair at least once.

    >>> apart = pd.DataFrame([[0, 0, 1], [0, 0, 0], [1, 0, 0]], list("abc"), list("abc"), dtype=bool)
    >>> cliques(apart)
    [['a', 'b'], ['b', 'c']]
    """
    if separated.shape[0] != separated.shape[1] or not separated.index.equals(separated.columns):
        raise ValueError(f"`separated` must be square with the same names both ways, got {separated.shape}. Reindex it.")
    apart = separated.to_numpy(dtype=bool)
    if (apart != apart.T).any():
        raise ValueError(f"`separated` must be symmetric, got {int((apart != apart.T).sum() // 2)} pairs that differ.")
    together = ~apart
    np.fill_diagonal(together, False)
    found = _chordal(together)
    if found is None:
        found = _general(together)
    return [separated.index[members].tolist() for members in sorted(sorted(int(v) for v in clique) for clique in found)]


def grouped(separated: pd.DataFrame) -> tuple[list[list[Hashable]], dict[Hashable, str]]:
    """The `cliques`, and the `letters` that show them; the methods of the frame are best first."""
    found = cliques(separated)
    return found, letters(found, separated.index.tolist())


def _chordal(together: np.ndarray) -> list[np.ndarray] | None:
    """Maximal cliques by maximum cardinality search (Tarjan & Yannakakis 1984; Blair & Peyton 1993); None if not chordal."""
    n = len(together)
    weight = np.zeros(n, dtype=np.int64)
    visited = np.zeros(n, dtype=bool)
    place = np.full(n, -1)
    found: list[np.ndarray] = []
    for step in range(n):
        v = int(np.argmax(np.where(visited, -1, weight)))
        earlier = np.flatnonzero(together[v] & visited)
        if len(earlier):
            last = earlier[np.argmax(place[earlier])]
            if not together[last, earlier[earlier != last]].all():
                return None
        grown = np.append(earlier, v)
        # the search leaves a clique for good once the number of earlier neighbours no longer grows
        if found and len(earlier) == len(found[-1]):
            found[-1] = grown
        else:
            found.append(grown)
        visited[v], place[v] = True, step
        weight += together[v]
    return found


def _general(together: np.ndarray) -> list[list[int]]:
    import networkx as nx  # takes a tenth of a second, and hardly any test needs it

    graph = nx.from_numpy_array(together)
    found = list(islice(nx.find_cliques(graph), MAX_CLIQUES + 1))
    if len(found) <= MAX_CLIQUES:
        return found
    warnings.warn(
        f"the graph of unseparated methods has more than {MAX_CLIQUES} maximal cliques; some are shown that hold every pair.",
        stacklevel=3,
    )
    open_pairs = np.triu(together, 1)
    chosen = [[v] for v in np.flatnonzero(~together.any(axis=0))]
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
    """The compact letter display: two methods share a letter exactly where they are not separated (Piepho 2004).

    `groups` are the maximal cliques. "a" goes to the group of the best method of `order`; after z come capitals, then a2, b2 and
    so on.

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
