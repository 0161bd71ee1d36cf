"""The smallest graphs that join true and predicted classes: as few common ancestors as will do, and the largest F1.

Sets of an instance's nodes are integers with one bit a node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from functools import reduce
from heapq import nlargest
from itertools import chain, pairwise
from operator import or_
from typing import Any

import numpy as np

from mlflow_mleval.measures.lca import Legs, Meetings

_STEPS = 200_000  # partial solutions that are looked at, shared out among the classes of an instance
_COVERS = 2000  # sets of meeting nodes that are looked at
_WAYS = 64  # shortest paths of one leg that differ in a shared node
_TWINS = 8  # beyond so many, look for nodes that can stand in for each other


def minimal_graphs(meetings: Meetings, rows: int) -> np.ndarray:
    """Sizes of the intersection, of the true and of the predicted graph of every instance, and whether the search was exhaustive.

    Shape (4, rows). Every class keeps one of its own meeting nodes, in both graphs and joined to it by a shortest path. The
    meeting nodes are as few as possible; among all such graphs those with the largest F1 count, then those with the fewest
    nodes, then those with the fewest predicted nodes.
    """
    found = np.zeros((4, rows), int)
    found[3] = 1
    for side, (instance, _) in zip((1, 2), meetings.alone, strict=True):
        found[side] = np.bincount(instance, minlength=rows)
    options = _by_class(meetings)
    start = np.searchsorted(options[:, 0], np.arange(rows + 1))
    sides = [_Side(legs) for legs in (meetings.true, meetings.pred)]
    for i in np.flatnonzero(np.diff(start)):
        found[:, i] = _Instance(options[start[i] : start[i + 1], 1:].tolist(), sides).solve()
    return found


def _by_class(meetings: Meetings) -> np.ndarray:
    """Instance, class, meeting node, true and predicted leg of every choice a class has; sorted by instance and class."""
    parts = []
    for shift, own in ((0, meetings.of_left), (meetings.of_left.max(initial=-1) + 1, meetings.of_right)):
        mine = own >= 0
        columns = meetings.instance, own + shift, meetings.top, meetings.left, meetings.right
        parts.append(np.stack([column[mine] for column in columns], 1))
    options = np.concatenate(parts)
    return options[np.lexsort((options[:, 1], options[:, 0]))]


class _Side:
    """Nodes and edges of the legs of one side as lists."""

    def __init__(self, legs: Legs):
        start, node = legs.nodes.indptr.tolist(), legs.nodes.indices.tolist()
        self.nodes = [node[a:b] for a, b in pairwise(start)]
        self.dummy = legs.nodes.shape[1] - 1
        self.first = np.searchsorted(legs.edge[:, 0], np.arange(len(start))).tolist()
        self.edge = legs.edge[:, 1:]

    def edges(self, leg: int) -> list[tuple[int, int]]:
        return list(map(tuple, self.edge[self.first[leg] : self.first[leg + 1]].tolist()))

    def forks(self, leg: int) -> bool:
        """Whether the leg has several paths; a single path has one edge fewer than nodes."""
        return self.first[leg + 1] - self.first[leg] >= len(self.nodes[leg])


class _Instance:
    """The choices of one instance's classes."""

    def __init__(self, options: list[list[int]], sides: list[_Side]):
        self.exact = True
        self.bit: dict[int, int] = {}
        self.classes: dict[int, dict[int, list[tuple[int, int]]]] = {}
        for owner, top, left, right in options:
            self.classes.setdefault(owner, {}).setdefault(self._mask([top]), []).append((left, right))
        legs = [dict.fromkeys(option[2 + side] for option in options) for side in (0, 1)]
        masks = [{leg: self._mask(side.nodes[leg]) for leg in used} for side, used in zip(sides, legs, strict=True)]
        self.shared = once = 0  # shared: nodes of several legs, the only ones for which it matters which path is taken
        for mask in chain.from_iterable(side.values() for side in masks):
            self.shared |= once & mask
            once |= mask
        self.ways: list[dict[int, list[int]]] = [{}, {}]
        spare: set[int] | None = None
        for number, side in enumerate(sides):
            for leg, mask in masks[number].items():
                ways = self._ways(side, leg, ()) if side.forks(leg) else [mask]
                if len(ways) > _TWINS:
                    spare = self._twins(sides, masks) if spare is None else spare
                    ways = self._ways(side, leg, spare)
                if len(ways) > _WAYS:
                    ways, self.exact = ways[:_WAYS], False
                self.ways[number][leg] = ways

    def _mask(self, nodes: Iterable[int]) -> int:
        mask = 0
        for node in nodes:
            mask |= self.bit.setdefault(node, 1 << len(self.bit))
        return mask

    def _ways(self, side: _Side, leg: int, spare: Collection[int]) -> list[int]:
        """The shortest paths of a leg; of those that differ in no shared node only one with the fewest nodes."""
        above: dict[int, list[int]] = {}
        for lower, upper in side.edges(leg):
            if lower not in spare and upper not in spare:
                above.setdefault(lower, []).append(upper)
        ways: dict[int, dict[int, int]] = {}
        # Numbers fall upwards, but the dummy node, which has the highest, is a top.
        for node in sorted(side.nodes[leg], key=lambda v: v if v < side.dummy else -1):
            if node in spare:
                continue
            own, found = self.bit[node], {}
            for way in chain.from_iterable(ways[v].values() for v in above[node]) if node in above else (0,):
                way |= own
                old = found.get(way & self.shared)
                if old is None or way.bit_count() < old.bit_count():
                    found[way & self.shared] = way
                if len(found) > _WAYS:
                    break
            ways[node] = found
        return list(found.values())

    def _twins(self, sides: list[_Side], masks: list[dict[int, int]]) -> set[int]:
        """Nodes that another one can stand in for: in the legs of one side only, with the same neighbours in all of them."""
        lower, upper = defaultdict(set), defaultdict(set)
        for number, side in enumerate(sides):
            for leg in masks[number]:
                for low, high in side.edges(leg):
                    upper[low].add((number, leg, high))
                    lower[high].add((number, leg, low))
        contested = reduce(or_, masks[0].values()) & reduce(or_, masks[1].values())
        first: dict[Any, int] = {}
        inner = sorted(node for node in upper.keys() & lower.keys() if not self.bit[node] & contested)
        return {node for node in inner if first.setdefault((frozenset(upper[node]), frozenset(lower[node])), node) != node}

    def solve(self) -> tuple[int, int, int, bool]:
        """Sizes of the intersection, the true and the predicted graph, and whether nothing was left out of the search."""
        groups = list(self._groups())
        choices = {owner: self._choices(tops) for owner, tops in self.classes.items()}
        live = {}  # nodes that later classes may still add
        later = 0
        for owner in reversed(list(chain.from_iterable(groups))):
            live[owner] = later
            for _, true, pred in choices[owner]:
                later |= true | pred
        most = max(1, _STEPS // sum(map(len, choices.values())))
        states = [(0, 0)]
        for group in groups:
            merged = _Frontier(live[group[-1]])
            covers = self._fewest([reduce(or_, self.classes[owner]) for owner in group])
            if len(covers) > most:
                covers, self.exact = covers[:most], False
            for cover in covers:
                found = states
                for owner in group:
                    frontier = _Frontier(live[owner])
                    for true, pred in found:
                        for top, more_true, more_pred in choices[owner]:
                            if top & cover:
                                frontier.add(true | more_true, pred | more_pred)
                    found = self._bounded(frontier, most // len(covers))
                for true, pred in found:
                    merged.add(true, pred)
            states = self._bounded(merged, most)
        true, pred = max(states, key=_merit)
        return (true & pred).bit_count(), true.bit_count(), pred.bit_count(), self.exact

    def _choices(self, tops: dict[int, list[tuple[int, int]]]) -> set[tuple[int, int, int]]:
        """Meeting node and paths of both sides that a class may keep."""
        return {
            (top, true, pred)
            for top, legs in tops.items()
            for left, right in legs
            for true in self.ways[0][left]
            for pred in self.ways[1][right]
        }

    def _bounded(self, frontier: _Frontier, most: int) -> list[tuple[int, int]]:
        states = frontier.graphs()
        if len(states) > most:
            states, self.exact = nlargest(most, states, key=_merit), False
        return states

    def _groups(self) -> Iterator[list[int]]:
        """Classes that share meeting nodes, directly or over others."""
        groups: list[tuple[int, list[int]]] = []
        for owner, tops in self.classes.items():
            mask, members = reduce(or_, tops), [owner]
            apart = []
            for other, group in groups:
                if other & mask:
                    mask, members = mask | other, group + members
                else:
                    apart.append((other, group))
            groups = [*apart, (mask, members)]
        return (members for _, members in groups)

    def _fewest(self, wanted: list[int]) -> list[int]:
        """All smallest sets of nodes that hold a node of each of these sets."""
        sure = reduce(or_, (tops for tops in wanted if tops.bit_count() == 1), 0)
        wanted = sorted({tops for tops in wanted if not tops & sure}, key=int.bit_count)
        found: dict[int, None] = {}
        calls = 0

        def extend(chosen: int, size: int) -> None:
            nonlocal calls
            calls += 1
            missing = seen = needed = 0
            for tops in wanted:
                if not tops & chosen:
                    missing = missing or tops
                    needed += not tops & seen  # sets without a common node need one each
                    seen |= tops
            if not missing:
                found[chosen] = None
            elif needed <= size:
                while missing and calls < _COVERS:
                    extend(chosen | (missing & -missing), size - 1)
                    missing &= missing - 1

        size = 0
        while not found and calls < _COVERS:
            extend(sure, size)
            size += 1
        if calls >= _COVERS:
            self.exact = False
        if not found:  # the node that most sets hold, again and again
            chosen = sure
            while left := [tops for tops in wanted if not tops & chosen]:
                chosen |= max(self.bit.values(), key=lambda bit: sum(tops & bit > 0 for tops in left))
            found[chosen] = None
        return list(found)


class _Frontier:
    """Pairs of graphs of which none stays better than another whatever live nodes are added to both."""

    def __init__(self, live: int):
        self.live = live
        self.best: dict[tuple[int, int], list[tuple[int, ...]]] = {}

    def add(self, true: int, pred: int) -> None:
        both, size = (true & pred).bit_count(), pred.bit_count()
        nodes = true.bit_count() + size
        rivals = self.best.setdefault((true & self.live, pred & self.live), [])
        for other in rivals:
            if other[0] >= both and other[1] <= nodes and (other[0] > both or other[1] < nodes or other[2] <= size):
                return
        rivals[:] = [other for other in rivals if other[0] > both or other[1] < nodes]
        rivals.append((both, nodes, size, true, pred))

    def graphs(self) -> list[tuple[int, int]]:
        return [rival[3:] for rivals in self.best.values() for rival in rivals]


def _merit(graphs: tuple[int, int]) -> tuple[float, int, int]:
    true, pred = graphs
    nodes = true.bit_count() + pred.bit_count()
    return (true & pred).bit_count() / nodes, -nodes, -pred.bit_count()
