"""Graphs that join true and predicted classes over their lowest common ancestors."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import reduce
from heapq import nlargest
from itertools import chain
from operator import or_
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy import sparse

from mlflow_mleval.measures.hierarchy import (
    Pairs,
    Parents,
    distinct,
    lookup,
    meetings,
    sizes_of,
    spans,
)
from mlflow_mleval.measures.inputs import Csr, row_sizes, rows_of
from mlflow_mleval.validation import AnyArray, present


@dataclass(frozen=True)
class Legs:
    """All shortest paths from classes of one side up to nodes where they meet the other."""

    low: AnyArray  # the class where each leg starts
    high: AnyArray  # the node where it ends
    nodes: Csr  # bool, legs x (n + 1): those on the paths of each leg; n is the dummy
    edge: AnyArray  # edges x 3: leg, lower node, upper node; sorted by leg


@dataclass(frozen=True)
class Side:
    """The classes of one side where they meet the other: a row for a class and a node."""

    own: AnyArray  # place of the class in the indices if the other one is nearest to it, else -1
    used: AnyArray  # the leg of the class
    legs: Legs
    alone: tuple[AnyArray, AnyArray]  # instance and leg (itself) of classes without one to meet
    # instance and leg from every class to every meeting node above it; None if unasked
    joins: tuple[AnyArray, AnyArray] | None


def meet(
    up: Parents,
    above: Csr,
    true: Csr,
    pred: Csr,
    pairs: Pairs,
    kept: tuple[AnyArray, AnyArray],
    limit: float,
    join: bool,
) -> tuple[AnyArray, list[Side]]:
    """Where the `kept` classes of each instance meet: the instances, and both sides; with `join`,
    legs lead from every class to every meeting node of its instance above it."""
    n = len(up.level)
    both = kept[0][pairs.left] & kept[1][pairs.right]
    instance = np.repeat(np.arange(true.shape[0]), np.diff(pairs.start))[both]
    place = (pairs.left[both], pairs.right[both])
    kind = pairs.kind[both]
    apart = np.minimum(pairs.apart, limit)[kind]
    own = []
    for at, labels in zip(place, (true, pred), strict=True):
        nearest = np.full(labels.nnz, np.inf)
        np.minimum.at(nearest, at, apart)
        own.append(np.where(apart <= nearest[at] + up.tolerance, at, -1))
    active = (own[0] >= 0) | (own[1] >= 0)
    kind = kind[active]
    wanted = np.zeros(len(pairs.a), bool)
    wanted[kind] = True
    pair, top, climbs = meeting_nodes(up, above, pairs, wanted, limit)
    start = np.searchsorted(pair, np.arange(len(pairs.a) + 1))
    size = np.diff(start)[kind]
    row = spans(start[kind], size)
    instance, *own = (np.repeat(a[active], size) for a in (instance, *own))
    where, node, _ = distinct(instance, top[row], n + 1)  # the meeting nodes of each instance
    sides = []
    for classes, climb, labels, rest, nearest in zip(
        (pairs.a, pairs.b), climbs, (true, pred), kept, own, strict=True
    ):
        owner = rows_of(labels)
        lonely = rest & (np.diff(pairs.start)[owner] == 0)
        ways = [
            (classes[pair], top, climb),
            (labels.indices[lonely], labels.indices[lonely], np.zeros(lonely.sum())),
        ]
        if join:
            count = row_sizes(labels)[where]
            inside = spans(labels.indptr[where], count)
            start = labels.indices[inside]
            end = np.repeat(node, count)
            at = np.repeat(where, count)
            far = np.where(end == n, limit / 2, lookup(above, start, np.minimum(end, n - 1)) - 1.0)
            way = rest[inside] & (far >= 0)
            ways.append((start[way], end[way], far[way]))
        starts, ends, lengths = (np.concatenate(column) for column in zip(*ways, strict=True))
        low, high, leg = distinct(starts, ends, n + 1)
        length = np.empty(len(low))
        length[leg] = lengths
        legs = climb_legs(up, above, low, high, length, limit)
        n_alone = int(lonely.sum())
        alone = owner[lonely], leg[len(pair) : len(pair) + n_alone]
        joins = (at[way], leg[len(pair) + n_alone :]) if join else None
        sides.append(Side(nearest, leg[row], legs, alone, joins))
    return instance, sides


def extended_graphs(instance: AnyArray, sides: list[Side], rows: int) -> AnyArray:
    """Sizes of the intersection, the true and the predicted extended graph, (3, rows)."""
    graphs = []
    for side in sides:
        legs, (alone, leg) = side.legs, side.alone
        cells = np.append(instance, alone), np.append(side.used, leg)
        graphs.append(_marked_cells(*cells, (rows, legs.nodes.shape[0])) @ legs.nodes)
    return sizes_of(*graphs)


def meeting_nodes(
    up: Parents, above: Csr, pairs: Pairs, wanted: AnyArray, limit: float
) -> tuple[AnyArray, AnyArray, tuple[AnyArray, AnyArray]]:
    """Where shortest paths of distinct pairs meet, and how far above either class."""
    far = wanted & (pairs.apart > limit + up.tolerance)
    near = np.flatnonzero(wanted & ~far)
    pair = [np.flatnonzero(far)]
    top = [np.full(far.sum(), len(up.level))]
    climb = [np.full(far.sum(), limit / 2)]
    for part, ancestors, length in meetings(above, pairs.a[near], pairs.b[near]):
        owner = np.repeat(near[part], row_sizes(ancestors))
        meet = length <= pairs.apart[owner] + up.tolerance
        pair.append(owner[meet])
        top.append(ancestors.indices[meet])
        climb.append(ancestors.data[meet] - 1.0)
    pair_of = np.concatenate(pair)
    order = np.argsort(pair_of, kind="stable")
    pair_of = pair_of[order]
    top_of = np.concatenate(top)[order]
    climbed = np.concatenate(climb)[order]
    return pair_of, top_of, (np.minimum(pairs.apart, limit)[pair_of] - climbed, climbed)


def climb_legs(
    up: Parents, above: Csr, low: AnyArray, high: AnyArray, length: AnyArray, limit: float
) -> Legs:
    """Walk all shortest paths from classes up to nodes at these distances."""
    n = len(up.level)
    cut = limit / 2 - up.tolerance
    leg = np.arange(len(low))
    node = low
    whole = length
    end = high
    dummy = high == n
    if dummy.any():
        size = row_sizes(above)[low[dummy]]
        entry = spans(above.indptr[low[dummy]], size)
        far = above.data[entry] - 1.0
        exits = ((far >= cut) & (far < limit / 2 + up.length.max())) | (
            (far < cut) & (above.indices[entry] == 0)
        )
        owner = np.repeat(np.flatnonzero(dummy), size)[exits]
        leg = np.append(leg[~dummy], owner)
        node = np.append(node[~dummy], low[owner])
        whole = np.append(whole[~dummy], far[exits])
        end = np.append(end[~dummy], above.indices[entry][exits])
    reach = np.where(dummy[leg], cut, np.inf)
    # left: what remains of the way
    walk = np.arange(len(leg))
    left = whole
    rows = [np.flatnonzero(dummy)]
    nodes = [np.full(dummy.sum(), n)]
    edges = []
    while len(walk):
        rows.append(leg[walk])
        nodes.append(node)
        done = left <= up.tolerance
        last = walk[done & dummy[leg[walk]]]  # a way that ends at the virtual root
        edges.append(np.stack([leg[last], node[done & dummy[leg[walk]]], np.full(len(last), n)], 1))
        count = np.where(done, 0, up.start[node + 1] - up.start[node])
        edge = spans(up.start[node], count)
        walk = np.repeat(walk, count)
        lower = np.repeat(node, count)
        left = np.repeat(left, count) - up.length[edge]
        node = up.parent[edge]
        # 0 where the end does not lie above, else the distance plus 1; what remains must be just it
        distance = lookup(above, node, end[walk])
        tight = (distance > 0) & (np.abs(distance - 1 - left) <= up.tolerance)
        walk, lower, node, left = (a[tight] for a in (walk, lower, node, left))
        within = whole[walk] - left < reach[walk]
        edges.append(np.stack([leg[walk], lower, np.where(within, node, n)], 1))
        walk, node, left = (a[within] for a in (walk, node, left))
        once = np.unique(walk * n + node, return_index=True)[1]
        walk, node, left = (a[once] for a in (walk, node, left))
    marks = _marked_cells(np.concatenate(rows), np.concatenate(nodes), (len(low), n + 1))
    steps = np.concatenate(edges) if edges else np.zeros((0, 3), int)
    return Legs(low, high, marks, steps[np.argsort(steps[:, 0], kind="stable")])


def _marked_cells(rows: AnyArray, columns: AnyArray, shape: tuple[int, int]) -> Csr:
    cells = rows.astype(np.int32), columns.astype(np.int32)  # scipy keeps the width of the indices
    return sparse.csr_array((np.ones(len(rows), bool), cells), shape=shape)


# ---- minimal graphs ------------------------------------------------------------------------------
# Sets of an instance's nodes are integers with one bit a node.

#: A true and a predicted graph; an edge, lower and upper node; and a side and a class of it.
Graphs: TypeAlias = tuple[int, int]
Edge: TypeAlias = tuple[int, int]
Owner: TypeAlias = tuple[int, int]

_STEPS = 200_000  # partial solutions that are looked at, by all classes of an instance
_COVERS = 2000  # sets of meeting nodes that are looked at
_WAYS = 64  # shortest paths of one leg that differ in a shared node


def minimal_graphs(instance: AnyArray, sides: list[Side], rows: int) -> AnyArray:
    """Sizes of the intersection and of both graphs, and whether the search was exhaustive, shape
    (4, rows): the fewest meeting nodes, among these the largest F1."""
    sizes = np.zeros((4, rows), int)
    sizes[3] = 1
    tables = []
    for size, side in zip(sizes[1:3], sides, strict=True):
        size[:] = np.bincount(side.alone[0], minlength=rows)
        mine = side.own >= 0
        tables.append(_by_instance(rows, instance[mine], side.own[mine], side.used[mine]))
        tables.append(_by_instance(rows, instance, side.used))
        tables.append(_by_instance(rows, *present(side.joins)))
    legs = []
    for side in sides:
        low, high, edge = side.legs.low, side.legs.high, side.legs.edge
        first = np.searchsorted(edge[:, 0], np.arange(len(low) + 1)).tolist()
        legs.append(_Legs(low.tolist(), high.tolist(), first, edge[:, 1:]))
    for i in np.unique(instance):
        parts = [table[start[i] : start[i + 1]].tolist() for start, table in tables]
        sizes[:, i] = _Instance(legs, parts[::3], parts[1::3], parts[2::3]).solve()
    return sizes


def _by_instance(rows: int, instance: AnyArray, *columns: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Where each instance's rows start in a table of these columns, and the table."""
    order = np.lexsort((columns[0], instance))
    table = np.stack([column[order] for column in columns], 1)
    table = table[:, 0] if len(columns) == 1 else table
    return np.searchsorted(instance[order], np.arange(rows + 1)), table


class _Legs(NamedTuple):
    """Ends of the legs of one side as lists, and edges: those of leg i from first[i] on."""

    low: list[int]
    high: list[int]
    first: list[int]
    edge: AnyArray


class _Instance:
    """The choices of an instance by side: legs `own`, legs `used`, and `joins` to all nodes."""

    def __init__(
        self,
        sides: list[_Legs],
        own: list[list[list[int]]],
        used: list[list[int]],
        joins: list[list[int]],
    ):
        self.exact = True
        self.sides = sides
        self.bit: dict[int, int] = defaultdict(lambda: 1 << len(self.bit))
        self.edges: list[dict[int, list[Edge]]] = []
        # nodes of several legs, the only ones for which it matters which path is taken
        self.shared = once = 0
        for side, own_used, own_joins in zip(sides, used, joins, strict=True):
            # the edges of all legs within the graph of those that are used
            ends = {leg: slice(*side.first[leg : leg + 2]) for leg in chain(own_used, own_joins)}
            whole = {leg: list(map(tuple, side.edge[at].tolist())) for leg, at in ends.items()}
            inside = set(chain.from_iterable(whole[leg] for leg in own_used))
            edges = {leg: [edge for edge in path if edge in inside] for leg, path in whole.items()}
            self.edges.append(edges)
            for leg, path in edges.items():
                nodes = (side.low[leg], side.high[leg], *chain(*path))
                mask = reduce(or_, (self.bit[node] for node in nodes))
                self.shared |= once & mask
                once |= mask
        ways = [
            {leg: self._ways(number, leg) for leg in edges}
            for number, edges in enumerate(self.edges)
        ]
        # the paths of each class to each of its own meeting nodes, and those of all of a side
        self.classes: dict[Owner, dict[int, list[int]]] = {}
        self.joins: list[dict[int, list[int]]] = [defaultdict(list), defaultdict(list)]
        for number, side in enumerate(sides):
            for owner, leg in own[number]:
                to_tops = self.classes.setdefault((number, owner), {})
                to_tops[self.bit[side.high[leg]]] = ways[number][leg]
            for leg in joins[number]:
                self.joins[number][self.bit[side.high[leg]]] += ways[number][leg]

    def _ways(self, number: int, leg: int) -> list[int]:
        """The shortest paths of a leg; of those alike in shared nodes one with the fewest."""
        side = self.sides[number]
        above: dict[int, list[int]] = {}
        for lower, upper in self.edges[number][leg]:
            above.setdefault(lower, []).append(upper)
        own = self.bit[side.high[leg]]
        ways: dict[int, dict[int, int]] = {side.high[leg]: {own & self.shared: own}}
        # numbers fall upwards, but the dummy node, which has the highest, is a top
        for node in sorted(above):
            own = self.bit[node]
            fewest: dict[int, int] = {}
            for way in chain.from_iterable(ways[v].values() for v in above[node] if v in ways):
                way |= own
                old = fewest.get(way & self.shared)
                if old is None or way.bit_count() < old.bit_count():
                    fewest[way & self.shared] = way
                if len(fewest) > _WAYS:
                    self.exact = False
                    break
            ways[node] = fewest
        return list(ways.get(side.low[leg], {}).values())[:_WAYS]

    def solve(self) -> tuple[int, int, int, bool]:
        """Sizes of the intersection and of both graphs, and whether the search was exhaustive."""
        # classes that share meeting nodes, directly or over others
        joined: list[tuple[int, list[Owner]]] = []
        for owner, own_tops in self.classes.items():
            mask, members, apart = reduce(or_, own_tops), [owner], []
            for other, group in joined:
                if other & mask:
                    mask, members = mask | other, group + members
                else:
                    apart.append((other, group))
            joined = [*apart, (mask, members)]
        groups = [members for _, members in joined]
        # live: nodes that the groups after each may still add
        later = 0
        live = []
        for group in reversed(groups):
            live.append(later)
            paths = chain.from_iterable(self.classes[owner].values() for owner in group)
            later |= reduce(or_, chain.from_iterable(paths))
            for top in set(chain.from_iterable(self.classes[owner] for owner in group)):
                later |= reduce(or_, chain(self.joins[0][top], self.joins[1][top]))
        n_ways = sum(map(len, chain.from_iterable(tops.values() for tops in self.classes.values())))
        most = max(1, _STEPS // n_ways)
        states = [(0, 0)]
        for group, after in zip(groups, reversed(live), strict=True):
            merged = _Frontier(after)
            covers = self._fewest([reduce(or_, self.classes[owner]) for owner in group])
            if len(covers) > most:
                covers = covers[:most]
                self.exact = False
            for cover in covers:
                for true, pred in self._joined(states, group, cover, after, most // len(covers)):
                    merged.add(true, pred)
            states = self._bounded(merged, most)
        true, pred = max(states, key=_merit)
        return (true & pred).bit_count(), true.bit_count(), pred.bit_count(), self.exact

    def _joined(
        self, states: list[Graphs], group: list[Owner], cover: int, after: int, most: int
    ) -> list[Graphs]:
        """The graphs with these classes joined to a cover, and each of its nodes to both sides."""
        steps = []
        tops: set[int] = set()
        for side, owner in group:
            own = {top: ways for top, ways in self.classes[side, owner].items() if top & cover}
            steps.append((side, 0, [*chain.from_iterable(own.values())]))
            tops |= own.keys()
        for top in sorted(tops):
            steps += [(side, top, self.joins[side][top]) for side in (0, 1)]
        lives = []
        for _, _, ways in reversed(steps):
            lives.append(after)
            after |= reduce(or_, ways)
        for (side, top, ways), live in zip(steps, reversed(lives), strict=True):
            frontier = _Frontier(live)
            for true, pred in states:
                joined = (pred if side else true) & top
                for nodes in {0, *ways} if joined else ways:
                    frontier.add(*((true, pred | nodes) if side else (true | nodes, pred)))
            states = self._bounded(frontier, most)
        return states

    def _bounded(self, frontier: _Frontier, most: int) -> list[Graphs]:
        states = [(rival[3], rival[4]) for rivals in frontier.best.values() for rival in rivals]
        if len(states) > most:
            states = nlargest(most, states, key=_merit)
            self.exact = False
        return states

    def _fewest(self, wanted: list[int]) -> list[int]:
        """All smallest sets of nodes that hold a node of each of these sets."""
        sure = reduce(or_, (tops for tops in wanted if tops.bit_count() == 1), 0)
        wanted = sorted({tops for tops in wanted if not tops & sure}, key=int.bit_count)

        def missed(chosen: int) -> int:
            return next((tops for tops in wanted if not tops & chosen), 0)

        found = [sure]
        while not (covers := [chosen for chosen in found if not missed(chosen)]):
            wider: dict[int, None] = {}
            for chosen in found:
                tops = missed(chosen)
                while tops:  # its nodes in turn
                    wider[chosen | (tops & -tops)] = None
                    tops &= tops - 1
            self.exact &= len(wider) <= _COVERS
            found = list(wider)[:_COVERS]
        return covers


@dataclass(eq=False)
class _Frontier:
    """Pairs of graphs none of which stays better than another whatever nodes are added."""

    live: int
    best: dict[Graphs, list[tuple[int, ...]]] = field(default_factory=dict)

    def add(self, true: int, pred: int) -> None:
        both = (true & pred).bit_count()
        size = pred.bit_count()
        nodes = true.bit_count() + size
        rivals = self.best.setdefault((true & self.live, pred & self.live), [])
        for other in rivals:
            is_better = other[0] > both or other[1] < nodes or other[2] <= size
            if other[0] >= both and other[1] <= nodes and is_better:
                return
        rivals[:] = [other for other in rivals if other[0] > both or other[1] < nodes]
        rivals.append((both, nodes, size, true, pred))


def _merit(graphs: Graphs) -> tuple[float, int, int]:
    true, pred = graphs
    nodes = true.bit_count() + pred.bit_count()
    return (true & pred).bit_count() / nodes, -nodes, -pred.bit_count()
