"""Graphs that join true and predicted classes over their lowest common ancestors, for the LCA
measures.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from mlflow_mleval.measures.class_pairs import Pairs, distinct, meetings
from mlflow_mleval.measures.closure import Parents, lookup, spans


@dataclass(frozen=True)
class Legs:
    """Ways from classes of one side up to nodes where they meet classes of the other side: all
    shortest paths.
    """

    low: np.ndarray  # the class where each leg starts
    high: np.ndarray  # the node where it ends
    nodes: (
        sparse.csr_array
    )  # bool, legs x (n + 1): the nodes on the paths of each leg; number n is the dummy node
    edge: np.ndarray  # edges x 3: leg, lower node, upper node; sorted by leg


@dataclass(frozen=True)
class Meetings:
    """How the classes of each instance meet: a row for every node where a class meets its nearest
    class on the other side.
    """

    instance: np.ndarray
    left: np.ndarray  # the leg of the true class
    right: np.ndarray  # the leg of the predicted one
    top: np.ndarray  # the node
    of_left: (
        np.ndarray
    )  # place of the true class in true.indices if the predicted one is nearest to it, else -1
    of_right: np.ndarray  # the other way round
    true: Legs
    pred: Legs
    alone: tuple[
        tuple[np.ndarray, np.ndarray], ...
    ]  # instance and leg (itself) of the classes without one to meet, by side
    # Instance and leg from every class to every node above it where classes of its instance meet,
    # by side; None if not asked for.
    joins: tuple[tuple[np.ndarray, np.ndarray], ...] | None


def meet(
    up: Parents,
    above: sparse.csr_array,
    true: sparse.csr_array,
    pred: sparse.csr_array,
    pairs: Pairs,
    kept: tuple[np.ndarray, np.ndarray],
    limit: float,
    join: bool,
) -> Meetings:
    """Find where the classes of each instance meet, given a hierarchy, its closure and the pairs of
    classes.

    The entries of `true` and `pred` that are not `kept` do not count: they have a descendant in
    their own set. A pair farther apart than the limit meets at the dummy node. With `join`, legs
    lead from every class to every meeting node of its instance that is above it, whichever classes
    meet there.
    """
    n = len(up.level)
    both = kept[0][pairs.left] & kept[1][pairs.right]
    instance = np.repeat(np.arange(true.shape[0]), np.diff(pairs.start))[both]
    place, kind = (pairs.left[both], pairs.right[both]), pairs.kind[both]
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
    instance, of_left, of_right = (np.repeat(a[active], size) for a in (instance, *own))
    where, node, _ = distinct(instance, top[row], n + 1)  # the meeting nodes of each instance
    legs, used, alone, joins = [], [], [], []
    for classes, climb, labels, rest in zip(
        (pairs.a, pairs.b), climbs, (true, pred), kept, strict=True
    ):
        owner = np.repeat(np.arange(labels.shape[0]), np.diff(labels.indptr))
        lonely = rest & (np.diff(pairs.start)[owner] == 0)
        ways = [
            (classes[pair], top, climb),
            (labels.indices[lonely], labels.indices[lonely], np.zeros(lonely.sum())),
        ]
        if join:
            count = np.diff(labels.indptr)[where]
            place = spans(labels.indptr[where], count)
            start, end, at = labels.indices[place], np.repeat(node, count), np.repeat(where, count)
            far = np.where(end == n, limit / 2, lookup(above, start, np.minimum(end, n - 1)) - 1.0)
            way = rest[place] & (far >= 0)
            ways.append((start[way], end[way], far[way]))
        low, high, leg = distinct(
            np.concatenate([way[0] for way in ways]),
            np.concatenate([way[1] for way in ways]),
            n + 1,
        )
        length = np.empty(len(low))
        length[leg] = np.concatenate([way[2] for way in ways])
        legs.append(climb_legs(up, above, low, high, length, limit))
        used.append(leg[row])
        alone.append((owner[lonely], leg[len(pair) : len(pair) + lonely.sum()]))
        if join:
            joins.append((at[way], leg[len(pair) + lonely.sum() :]))
    return Meetings(
        instance,
        *used,
        top[row],
        of_left,
        of_right,
        *legs,
        tuple(alone),
        tuple(joins) if join else None,
    )


def extended_graphs(meetings: Meetings, rows: int) -> np.ndarray:
    """Sizes of the intersection, of the true and of the predicted extended graph of every instance:
    shape (3, rows).
    """
    graphs = []
    for use, legs, (instance, leg) in zip(
        (meetings.left, meetings.right), (meetings.true, meetings.pred), meetings.alone, strict=True
    ):
        uses = _marks(
            np.append(meetings.instance, instance), np.append(use, leg), (rows, legs.nodes.shape[0])
        )
        graphs.append(uses @ legs.nodes)
    return np.array([np.diff(graph.indptr) for graph in (graphs[0].multiply(graphs[1]), *graphs)])


def meeting_nodes(
    up: Parents, above: sparse.csr_array, pairs: Pairs, wanted: np.ndarray, limit: float
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """The nodes where shortest paths between the wanted distinct pairs meet.

    Returns distinct pairs (sorted) and a meeting node of each, the dummy node with number n; and
    how far the node lies above the left and above the right class.
    """
    far = wanted & (pairs.apart > limit + up.tolerance)
    near = np.flatnonzero(wanted & ~far)
    pair, top, climb = (
        [np.flatnonzero(far)],
        [np.full(far.sum(), len(up.level))],
        [np.full(far.sum(), limit / 2)],
    )
    for part, ancestors, length in meetings(above, pairs.a[near], pairs.b[near]):
        owner = np.repeat(near[part], np.diff(ancestors.indptr))
        meet = length <= pairs.apart[owner] + up.tolerance
        pair.append(owner[meet])
        top.append(ancestors.indices[meet])
        climb.append(ancestors.data[meet] - 1.0)
    pair_of = np.concatenate(pair)
    order = np.argsort(pair_of, kind="stable")
    pair_of, top_of = pair_of[order], np.concatenate(top)[order]
    climbed = np.concatenate(climb)[order]
    return pair_of, top_of, (np.minimum(pairs.apart, limit)[pair_of] - climbed, climbed)


def climb_legs(
    up: Parents,
    above: sparse.csr_array,
    low: np.ndarray,
    high: np.ndarray,
    length: np.ndarray,
    limit: float,
) -> Legs:
    """Walk all shortest paths from classes up to nodes at these distances.

    The way to the dummy node, number n, runs over the ancestors nearer than half the limit that lie
    on a shortest path to one that is not, or to the virtual root.
    """
    n = len(up.level)
    cut = limit / 2 - up.tolerance
    leg, node, whole, end = np.arange(len(low)), low, length, high
    dummy = high == n
    if dummy.any():
        size = np.diff(above.indptr)[low[dummy]]
        entry = spans(above.indptr[low[dummy]], size)
        far = above.data[entry] - 1.0
        exits = ((far >= cut) & (far < limit / 2 + up.length.max())) | (
            (far < cut) & (above.indices[entry] == 0)
        )
        owner = np.repeat(np.flatnonzero(dummy), size)[exits]
        leg, node = np.append(leg[~dummy], owner), np.append(node[~dummy], low[owner])
        whole, end = (
            np.append(whole[~dummy], far[exits]),
            np.append(end[~dummy], above.indices[entry][exits]),
        )
    reach = np.where(dummy[leg], cut, np.inf)
    walk, left = np.arange(len(leg)), whole  # left: what remains of the way
    rows, nodes, edges = [np.flatnonzero(dummy)], [np.full(dummy.sum(), n)], []
    while len(walk):
        rows.append(leg[walk])
        nodes.append(node)
        done = left <= up.tolerance
        last = walk[done & dummy[leg[walk]]]  # a way that ends at the virtual root
        edges.append(np.stack([leg[last], node[done & dummy[leg[walk]]], np.full(len(last), n)], 1))
        count = np.where(done, 0, up.start[node + 1] - up.start[node])
        edge = spans(up.start[node], count)
        walk, lower, left = (
            np.repeat(walk, count),
            np.repeat(node, count),
            np.repeat(left, count) - up.length[edge],
        )
        node = up.parent[edge]
        found = lookup(above, node, end[walk])
        tight = (found > 0) & (np.abs(found - 1 - left) <= up.tolerance)
        walk, lower, node, left = walk[tight], lower[tight], node[tight], left[tight]
        within = whole[walk] - left < reach[walk]
        edges.append(np.stack([leg[walk], lower, np.where(within, node, n)], 1))
        walk, node, left = walk[within], node[within], left[within]
        key = walk * n + node
        order = np.argsort(key)
        order = order[np.diff(key[order], prepend=-1) > 0]
        walk, node, left = walk[order], node[order], left[order]
    marks = _marks(np.concatenate(rows), np.concatenate(nodes), (len(low), n + 1))
    steps = np.concatenate(edges) if edges else np.zeros((0, 3), int)
    return Legs(low, high, marks, steps[np.argsort(steps[:, 0], kind="stable")])


def _marks(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> sparse.csr_array:
    cells = rows.astype(np.int32), columns.astype(np.int32)  # scipy keeps the width of the indices
    return sparse.csr_array((np.ones(len(rows), bool), cells), shape=shape)
