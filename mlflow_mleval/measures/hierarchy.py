"""The class hierarchy: a directed acyclic graph of classes, edges from parent to child."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import chain
from typing import Any

import networkx as nx
import numpy as np


class Hierarchy:
    """A hierarchy of classes: a tree or a directed acyclic graph, with one root or several.

    Parameters
    ----------
    edges : iterable of (parent, child), or networkx.DiGraph
        Class names are any hashable values. Isolated nodes of a graph are classes too.
    weights : sequence of float, optional
        Length of each edge, in the order of `edges`; positive. Every edge has length 1 without it.

    Attributes
    ----------
    nodes : list
        The classes in the order in which the edges name them first (of a graph: its own order). The columns of an
        indicator matrix N x C stand in this order.

    Raises
    ------
    ValueError
        No class, a self-loop, a duplicate edge, a cycle, a weight that is not positive; the offenders are named and counted.
    TypeError
        An edge that is not a pair.

    Notes
    -----
    A virtual root stands above all roots, at distance 1. It joins the parts of a forest for distances and lowest common
    ancestors; it is no class and never among `nodes`.

    Examples
    --------
    >>> h = Hierarchy([("animal", "cat"), ("animal", "dog"), ("pet", "dog")])
    >>> h
    Hierarchy(4 classes, 3 edges, 2 roots, 2 leaves, 1 with several parents)
    >>> sorted(h.ancestors("dog"))
    ['animal', 'pet']
    >>> h.distance("cat", "dog")
    2.0
    """

    def __init__(self, edges: Iterable[tuple[Hashable, Hashable]] | nx.DiGraph, weights: Sequence[float] | None = None):
        isolated: Iterable[Hashable] = ()
        if isinstance(edges, nx.Graph):
            if not edges.is_directed():
                raise TypeError("`edges` must be a directed graph (parent to child), got an undirected one. Use DiGraph.")
            isolated, edges = edges.nodes, edges.edges()
        edges = list(edges)
        for i, edge in enumerate(edges):
            if isinstance(edge, str) or not hasattr(edge, "__len__") or len(edge) != 2:
                raise TypeError(f"`edges[{i}]` must be a pair (parent, child), got {edge!r}. Give two class names.")
        flat = list(chain.from_iterable(edges))
        self.nodes: list[Hashable] = list(dict.fromkeys(chain(isolated, flat)))
        if not self.nodes:
            raise ValueError("`edges` must name at least one class, got none. Give (parent, child) pairs.")
        self._position = {name: i for i, name in enumerate(self.nodes)}
        ends = np.fromiter(map(self._position.__getitem__, flat), np.int64, len(flat)).reshape(-1, 2)
        lengths = np.ones(len(edges)) if weights is None else np.asarray(weights, float)
        self._check_edges(ends, lengths)
        self._parents: list[list[tuple[int, float]]] = [[] for _ in self.nodes]
        for (p, c), w in zip(ends.tolist(), lengths.tolist(), strict=True):
            self._parents[c].append((p, w))
        self._edges = len(edges)

    def _check_edges(self, ends: np.ndarray, lengths: np.ndarray) -> None:
        def named(rows: Iterable[Sequence[int]]) -> str:
            return _listing(tuple(self.nodes[j] for j in row) for row in rows)

        if lengths.shape != (len(ends),):
            raise ValueError(f"`weights` must hold one length for each of the {len(ends)} edges, got shape {lengths.shape}.")
        bad = ~(np.isfinite(lengths) & (lengths > 0))
        if bad.any():
            raise ValueError(f"`weights` must be positive and finite, got others on {named(ends[bad])}.")
        loops = ends[ends[:, 0] == ends[:, 1]]
        if len(loops):
            raise ValueError(f"`edges` must not join a class to itself, got {named(loops)}. Remove the self-loops.")
        order = np.lexsort(ends.T)
        repeated = np.zeros(len(ends), bool)
        repeated[order[1:]] = (ends[order[1:]] == ends[order[:-1]]).all(1)
        if repeated.any():
            raise ValueError(f"`edges` must not repeat an edge, got again {named(ends[repeated])}. Remove the duplicates.")
        try:
            cycle = nx.find_cycle(nx.DiGraph(ends.tolist()))
        except nx.NetworkXNoCycle:
            return
        raise ValueError(f"`edges` must not run in a cycle, got {named([[a for a, _ in cycle]])}. Remove one of its edges.")

    def __repr__(self) -> str:
        counts = [len(p) for p in self._parents]
        inner = {p for row in self._parents for p, _ in row}
        return (
            f"Hierarchy({len(self.nodes)} classes, {self._edges} edges, {counts.count(0)} roots, "
            f"{len(self.nodes) - len(inner)} leaves, {sum(c > 1 for c in counts)} with several parents)"
        )

    def __len__(self) -> int:
        return len(self.nodes)

    def __contains__(self, name: object) -> bool:
        return name in self._position

    def _upward(self, i: int) -> dict[int, float]:
        """Shortest upward distances from a class to itself, its ancestors and the virtual root (-1)."""
        found: dict[int, float] = {}
        todo = {i: 0.0}
        while todo:
            v = min(todo, key=todo.__getitem__)
            found[v] = d = todo.pop(v)
            if v < 0:
                continue
            for p, w in self._parents[v] or [(-1, 1.0)]:
                if p not in found:
                    todo[p] = min(todo.get(p, np.inf), d + w)
        return found

    def ancestors(self, name: Hashable) -> set[Hashable]:
        """The classes above a class, itself left out."""
        i = self._position[name]
        return {self.nodes[v] for v in self._upward(i) if v not in (i, -1)}

    def distance(self, a: Hashable, b: Hashable) -> float:
        """Length of the shortest path between two classes through a common ancestor; the virtual root is one."""
        up, down = self._upward(self._position[a]), self._upward(self._position[b])
        return min(d + down[v] for v, d in up.items() if v in down)


def _listing(items: Iterable[Any], limit: int = 5) -> str:
    items = list(items)
    text = ", ".join(repr(i) for i in items[:limit])
    return f"{len(items)}: {text}" + (", ..." if len(items) > limit else "")
