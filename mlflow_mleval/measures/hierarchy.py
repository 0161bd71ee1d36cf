"""The class hierarchy: a directed acyclic graph of classes, edges from parent to child."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import chain, pairwise
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse

from mlflow_mleval.measures.inputs import Csr, compressed, listed, listing, matrix_of, row_sizes
from mlflow_mleval.sentences import count
from mlflow_mleval.validation import AnyArray, binary_matrix, of_kind

if TYPE_CHECKING:
    import networkx as nx

# ---- the ancestor closure ------------------------------------------------------------------------
# Classes are numbered so that parents come before their children; 0 is the virtual root above all.


def spans(starts: AnyArray, lengths: AnyArray) -> AnyArray:
    """The indices ``starts[i], ..., starts[i] + lengths[i] - 1`` of all i in turn."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + lengths, lengths)


def offsets(lengths: AnyArray) -> AnyArray:
    """Where each of the consecutive stretches starts, and where the last one ends."""
    return np.append(0, np.cumsum(lengths))


def stretches(costs: AnyArray, limit: float) -> Iterator[tuple[int, int]]:
    """Cut a sequence into stretches whose costs sum to at most the limit, or that are one item."""
    total = np.cumsum(costs)
    lo = 0
    while lo < len(total):
        hi = max(lo + 1, int(np.searchsorted(total, limit + (total[lo - 1] if lo else 0), "right")))
        yield lo, hi
        lo = hi


@dataclass(frozen=True)
class Parents:
    """The edges from child to parent in CSR form; classes are numbered by level, 0 is the root."""

    start: AnyArray  # the parents of class c are parent[start[c]:start[c + 1]]
    parent: AnyArray
    length: AnyArray  # of each edge: integers where all lengths are whole numbers, else float64
    level: AnyArray  # most edges on a path from the virtual root, of each class

    @classmethod
    def arrange(cls, child, parent, length, level) -> tuple[Parents, AnyArray]:
        """Number the classes as the order demands; the numbers are returned beside the edges."""
        count = np.bincount(child, minlength=len(level))
        order = np.lexsort((-count, level))
        number = np.empty(len(level), np.int64)
        number[order] = np.arange(len(level))
        edge = np.lexsort((number[parent], number[child]))
        return cls(offsets(count[order]), number[parent[edge]], length[edge], level[order]), number

    def part(self, kept: AnyArray) -> tuple[Parents, AnyArray]:
        """The hierarchy of the kept classes (a mask), and their new numbers, else -1."""
        ids = np.flatnonzero(kept)
        old = np.full(len(kept), -1)
        old[ids] = np.arange(len(ids))
        child = old[np.repeat(np.arange(len(kept)), self.count)]
        parent = old[self.parent]
        edge = (child >= 0) & (parent >= 0)
        kept_edges = child[edge], parent[edge], self.length[edge]
        found, number = Parents.arrange(*kept_edges, self.level[ids])
        old[ids] = number
        return found, old

    @property
    def count(self) -> AnyArray:
        """Parents of each class."""
        return np.diff(self.start)

    @property
    def tolerance(self) -> float:
        """Distances that differ by no more are equal; 0 where lengths are whole numbers."""
        return 0 if self.length.dtype.kind == "i" else 1e-9 * self.length.max(initial=0)

    def above(self, classes: AnyArray) -> AnyArray:
        """Mask of the classes and all their ancestors, the virtual root included."""
        seen = np.zeros(len(self.level), bool)
        while len(classes):
            seen[classes] = True
            count = self.start[classes + 1] - self.start[classes]
            reached = self.parent[spans(self.start[classes], count)]
            classes = np.flatnonzero(np.bincount(reached[~seen[reached]], minlength=1))
        return seen

    def below(self, classes: AnyArray) -> AnyArray:
        """Mask of the classes and all their descendants."""
        seen = np.zeros(len(self.level), bool)
        seen[classes] = True
        child = np.repeat(np.arange(len(self.level)), self.count)
        for a, b in pairwise(np.searchsorted(self.level[child], np.arange(1, self.level[-1] + 2))):
            seen[child[a:b][seen[self.parent[a:b]]]] = True
        return seen


def closure(up: Parents, columns: AnyArray | None = None) -> Csr:
    """1 + the shortest distance from class c up to a in entry (c, a), for a = c and every ancestor
    a, of those that `columns` masks; each row is the union of its parents' rows and the class."""
    n = len(up.level)
    count = up.count
    own = np.ones(n, bool) if columns is None else columns
    # Nearness falls as distance grows and is 0 where there is no path, so the union of rows is an
    # elementwise maximum. Sums of three distances, of which this bounds each, must fit the type.
    farthest = up.level.max(initial=0) * up.length.max(initial=0)
    top = 2 ** int(np.ceil(np.log2(farthest + 2)))
    kind = np.float64 if up.length.dtype.kind == "f" else np.int16 if top <= 2**13 else np.int32
    length = up.length.astype(kind)
    start = np.zeros(n + 1, np.int64)
    column = np.empty(4 * n, np.int32)
    near = np.empty(4 * n, kind)

    for lo, hi in pairwise(
        np.flatnonzero(np.diff(up.level, prepend=-1, append=up.level.max(initial=0) + 1)).tolist()
    ):
        union = sparse.csr_array((hi - lo, n), dtype=kind)
        above = compressed(near[: start[lo]], column[: start[lo]], start[: lo + 1], n)
        for slot in range(count[lo] - 1, -1, -1):
            several = lo + np.searchsorted(-count[lo:hi], -slot)
            edges = up.start[lo:several] + slot
            part = above[up.parent[edges]]
            part.data -= np.repeat(length[edges], row_sizes(part))
            if slot < count[lo] - 1:
                union.resize(part.shape)
                part = union.maximum(part)
            union = part
        union.resize((hi - lo, n))
        size = row_sizes(union) + own[lo:hi]
        start[lo + 1 : hi + 1] = start[lo] + np.cumsum(size)
        if start[hi] > len(column):
            column.resize(start[hi] * 5 // 4, refcheck=False)
            near.resize(start[hi] * 5 // 4, refcheck=False)
        last = np.zeros(size.sum(), bool)  # a class has the highest number of its row
        last[start[lo + 1 : hi + 1][own[lo:hi]] - start[lo] - 1] = True
        for array, inherited, self in (
            (column, union.indices, lo + np.flatnonzero(own[lo:hi])),
            (near, union.data, top),
        ):
            level = array[start[lo] : start[hi]]
            level[last] = self
            level[~last] = inherited
    column.resize(start[-1], refcheck=False)
    near.resize(start[-1], refcheck=False)
    np.subtract(top + 1, near, out=near)
    return compressed(near, column, start, n)


def lookup(above: Csr, rows: AnyArray, columns: AnyArray) -> AnyArray:
    """The entries of a closure at these places, 0 where there is none."""
    if not len(rows):
        return np.zeros(0, above.dtype)
    found: Any = above[rows, columns]
    return (found.toarray() if sparse.issparse(found) else np.asarray(found)).ravel()


class Hierarchy:
    """A hierarchy of classes: a tree or a directed acyclic graph, with one root or several.

    Parameters
    ----------
    edges : iterable of (parent, child), or networkx.DiGraph
        Class names are any hashable values. Isolated nodes of a graph are classes too.
    weights : sequence of float, optional
        Length of each edge, in the order of `edges`; positive. Every edge has length 1 without it.
    nodes : iterable, optional
        Classes to name first, in this order: those without edges, or to fix the order of
        `Hierarchy.nodes`.

    Attributes
    ----------
    nodes : list
        The classes in the order in which `nodes`, then `edges` name them first (of a graph: its own
        order). The columns of an indicator matrix N x C stand in this order.

    Raises
    ------
    ValueError
        No class, a self-loop, a duplicate edge, a cycle, a weight that is not positive; the
        offenders are named and counted.
    TypeError
        An edge that is not a pair, an undirected graph.

    Notes
    -----
    A virtual root stands above all roots, at distance 1. It joins the parts of a forest for
    distances and lowest common ancestors; it is no class and never among `nodes`.

    Examples
    --------
    >>> h = Hierarchy([("animal", "cat"), ("animal", "dog"), ("pet", "dog")])
    >>> h
    Hierarchy(4 classes, 3 edges, 2 roots)
    >>> sorted(h.ancestors("dog"))
    ['animal', 'pet']
    """

    def __init__(
        self,
        edges: Iterable[tuple[Hashable, Hashable]] | nx.DiGraph,
        weights: Sequence[float] | None = None,
        nodes: Iterable[Hashable] = (),
    ):
        graph: Any = edges
        if hasattr(graph, "is_directed"):  # of networkx
            if not graph.is_directed():
                raise TypeError(
                    "`edges` must be a directed graph, from parent to child, got an undirected one."
                )
            nodes = [*nodes, *graph.nodes]
            edges = graph.edges()
        of_kind(edges, "edges", Iterable, "a directed graph or pairs (parent, child)")
        edges = edges.tolist() if isinstance(edges, np.ndarray) else list(edges)
        for i, edge in enumerate(edges):
            if isinstance(edge, (str, Set)) or not hasattr(edge, "__len__") or len(edge) != 2:
                raise TypeError(f"`edges[{i}]` must be a pair (parent, child), got {edge!r}.")
        ends = list(chain.from_iterable(edges))
        self.nodes: list[Hashable] = list(dict.fromkeys(chain(nodes, ends)))
        if not self.nodes:
            raise ValueError("`edges` must name at least one class, got none. Give pairs.")
        self._position = {name: i for i, name in enumerate(self.nodes)}
        places = np.fromiter(map(self._position.__getitem__, ends), np.int64, len(ends))
        pairs = places.reshape(-1, 2)
        lengths = np.ones(len(pairs)) if weights is None else np.asarray(weights, float)
        level = self._levels(pairs, lengths)
        if (lengths == np.rint(lengths)).all() and lengths.max(initial=1) * level.max() < 2**28:
            lengths = lengths.astype(np.int64)
        # below the virtual root, which stands first, with length 1
        roots = np.flatnonzero(level == 1) + 1
        child = np.concatenate([roots, pairs[:, 1] + 1])
        parent = np.concatenate([np.zeros_like(roots), pairs[:, 0] + 1])
        lengths = np.concatenate([np.ones(len(roots), lengths.dtype), lengths])
        self._up, number = Parents.arrange(child, parent, lengths, np.concatenate([[0], level]))
        self._number = number[1:]

    def _levels(self, pairs: AnyArray, lengths: AnyArray) -> AnyArray:
        """Most edges from the virtual root to each class, wave by wave; a ValueError names edges
        that are wrong."""
        if lengths.shape != (len(pairs),):
            raise ValueError(f"`weights` must hold {len(pairs)} lengths, got {lengths.shape}.")
        order = np.lexsort(pairs.T)
        repeated = order[1:][(pairs[order[1:]] == pairs[order[:-1]]).all(1)]
        broken = ~(np.isfinite(lengths) & (lengths > 0))
        for wrong, text in (
            (pairs[:, 0] == pairs[:, 1], "`edges` must not join a class to itself, got {}."),
            (np.sort(repeated), "`edges` must not repeat an edge, got again {}."),
            (broken, "`weights` must be positive and finite, got others on {}."),
        ):
            if len(named := [tuple(self.nodes[i] for i in pair) for pair in pairs[wrong]]):
                raise ValueError(text.format(listing(named, "edge")))
        pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
        start = np.searchsorted(pairs[:, 0], np.arange(len(self) + 1))
        missing = np.bincount(pairs[:, 1], minlength=len(self))
        level = np.zeros(len(self), np.int64)
        wave = np.flatnonzero(missing == 0)
        number = 0
        while len(wave):
            level[wave] = number = number + 1
            below = pairs[spans(start[wave], start[wave + 1] - start[wave]), 1]
            np.subtract.at(missing, below, 1)
            wave = np.unique(below[missing[below] == 0])
        if level.all():
            return level
        import networkx as nx

        graph = nx.DiGraph(pairs[(level[pairs] == 0).all(1)].tolist())
        cycle = nx.find_cycle(graph)
        path = " -> ".join(repr(self.nodes[i]) for i in [*(low for low, _ in cycle), cycle[0][0]])
        raise ValueError(f"`edges` must not run in a cycle, got {path}. Take one of these away.")

    @classmethod
    def from_paths(cls, paths: Iterable[str]) -> Hierarchy:
        """The tree or forest of paths such as ``01/01/03``; every prefix of a path is a class,
        named by its whole path.

        >>> Hierarchy.from_paths(["01/01/03", "01/02", "02"]).nodes
        ['01', '01/01', '01/01/03', '01/02', '02']
        """
        nodes: dict[str, None] = {}
        edges: dict[tuple[str, str], None] = {}
        for path in paths:
            parts = path.split("/")
            if not all(parts):
                want = "non-empty parts joined by '/'"
                raise ValueError(f"`paths` must hold {want}, got {path!r}. Mend the path.")
            names = ["/".join(parts[:i]) for i in range(1, len(parts) + 1)]
            nodes |= dict.fromkeys(names)
            edges |= dict.fromkeys(pairwise(names))
        return cls(edges, nodes=nodes)

    @classmethod
    def from_csv(cls, path: str | PathLike[str]) -> Hierarchy:
        """The hierarchy of a CSV file of one edge a row: the columns parent, child and, if there is
        one, weight, the length of the edge.
        """
        table = pd.read_csv(
            path, dtype=str, keep_default_na=False, index_col=False, encoding="utf-8-sig"
        ).fillna("")
        if not {"parent", "child"} <= {*table}:
            got = table.columns.tolist()
            raise ValueError(f"`path` must have the columns parent and child, got {got}.")
        wrong = (table[["parent", "child"]] == "").any(axis=1)
        lengths = None
        if "weight" in table:
            lengths = pd.to_numeric(table["weight"], errors="coerce").to_numpy(float)
            wrong |= np.isnan(lengths)
        if lines := (np.flatnonzero(wrong) + 2).tolist():
            want = "a parent and a child, and a number as weight, on every row"
            raise ValueError(f"`path` must name {want}, got others on {listing(lines, 'line')}.")
        return cls(table[["parent", "child"]].to_numpy().tolist(), lengths)

    def __repr__(self) -> str:
        roots = int((self._up.parent == 0).sum())
        edges = count(len(self._up.parent) - roots, "edge")
        return f"Hierarchy({count(len(self), 'class')}, {edges}, {count(roots, 'root')})"

    def __len__(self) -> int:
        return len(self.nodes)

    def __contains__(self, name: object) -> bool:
        return name in self._position

    def parents(self, name: Hashable) -> set[Hashable]:
        """The classes right above a class."""
        (c,) = self._number[self._positions([name], "name")]
        return self._names(self._up.parent[self._up.start[c] : self._up.start[c + 1]])

    def ancestors(self, name: Hashable) -> set[Hashable]:
        """The classes above a class, itself left out."""
        own = self._number[self._positions([name], "name")]
        return self._names(np.flatnonzero(self._up.above(own))) - {name}

    def indicator(self, sets: Any, name: str = "sets") -> Csr:
        """Class sets as a csr_array of bool, shape (N, C), with the columns `nodes`; `name` is what
        messages call the argument.

        The sets are N collections of class names, where a class that is given twice counts once, or
        scipy.sparse of 0 and 1. A ValueError is raised for unknown classes, no instance, a matrix
        of another width or with other numbers than 0 and 1, a TypeError for an instance whose
        classes are not in a collection.

        >>> Hierarchy([("a", "b"), ("a", "c")]).indicator([["c", "a"], [], {"b"}]).toarray().astype(int)
        array([[1, 0, 1],
               [0, 0, 0],
               [0, 1, 0]])
        """  # noqa: E501
        if sparse.issparse(sets):
            matrix = sparse.csr_array(binary_matrix(sets, name))
            if matrix.shape[1] != len(self):
                raise ValueError(f"`{name}` must have {len(self)} columns, got {matrix.shape}.")
            return matrix
        if isinstance(sets, np.ndarray) and sets.ndim == 2 and sets.dtype.kind in "buif":
            raise TypeError(
                f"`{name}` must be a list of sets of classes or a scipy.sparse matrix, got a "
                "dense array of numbers. Pass scipy.sparse.csr_array(x) if it marks classes, "
                "x.tolist() if it holds their names."
            )
        what = "a collection of classes"
        rows = listed(of_kind(sets, name, Iterable, f"{what} for each instance"), name, what)
        if not rows:
            hint = "There is nothing to evaluate."
            raise ValueError(f"`{name}` must hold at least one instance, got none. {hint}")
        return matrix_of(rows, self._positions(chain.from_iterable(rows), name), len(self))

    @cached_property
    def digest(self) -> str:
        """What tells this hierarchy from others: its classes in order, edges and lengths."""
        arrays = self._number, self._up.start, self._up.parent, self._up.length.astype(float)
        return sha256(
            repr(self.nodes).encode() + b"".join(array.tobytes() for array in arrays)
        ).hexdigest()[:16]

    def _positions(self, names: Iterable[Hashable], argument: str) -> AnyArray:
        """Places of the classes in `nodes`, or a ValueError that names the unknown ones."""
        names = list(names)
        try:
            return np.fromiter(map(self._position.__getitem__, names), np.int64, len(names))
        except KeyError:
            unknown = dict.fromkeys(name for name in names if name not in self._position)
        got = listing(unknown, "unknown class")
        raise ValueError(f"`{argument}` must hold classes of the hierarchy, got {got}.")

    def _names(self, numbers: AnyArray) -> set[Hashable]:
        return {self.nodes[i] for i in np.flatnonzero(np.isin(self._number, numbers))}


# ---- class sets and their pairs ------------------------------------------------------------------

_TABLE = 1 << 23  # cells of the dense table into which rows of the closure are spread


@dataclass(frozen=True)
class Pairs:
    """All pairs of a true and a predicted class of an instance, and how far apart they are."""

    # the pairs of instance i, its matrix true x predicted, stand at start[i] to start[i + 1]
    start: AnyArray
    left: AnyArray  # places of the classes in true.indices
    right: AnyArray  # and in pred.indices
    a: AnyArray  # the distinct pairs of classes, sorted: the true class
    b: AnyArray  # and the predicted one
    kind: AnyArray  # which of the distinct pairs each pair is
    apart: AnyArray  # shortest distance of each distinct pair through a common ancestor

    @classmethod
    def of(cls, true: Csr, pred: Csr, above: Csr) -> Pairs:
        """The pairs of class sets, given as indicators, in a hierarchy, given as its closure."""
        start, left, right = instance_pairs(true, pred)
        a, b, kind = distinct(true.indices[left], pred.indices[right], above.shape[1])
        apart = np.empty(len(a), above.dtype)
        for part, ancestors, length in meetings(above, a, b):
            apart[part] = np.minimum.reduceat(length, ancestors.indptr[:-1])
        return cls(start, left, right, a, b, kind, apart)


def instance_pairs(true: Csr, pred: Csr) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Start, left and right of `Pairs`."""
    m = row_sizes(true)
    k = row_sizes(pred)
    left = np.repeat(np.arange(true.nnz), np.repeat(k, m))
    right = spans(np.repeat(pred.indptr[:-1], m), np.repeat(k, m))
    return offsets(m * k), left, right


def distinct(left: AnyArray, right: AnyArray, width: int) -> tuple[AnyArray, AnyArray, AnyArray]:
    """The distinct pairs, sorted, and the place of every given pair among them."""
    key, place = np.unique(left.astype(np.int64) * width + right, return_inverse=True)
    return *np.divmod(key, width), place


def meetings(above: Csr, left: AnyArray, right: AnyArray) -> Iterator[tuple[slice, Csr, AnyArray]]:
    """Some pairs at a time (`left` ascends): a slice, the rows of the closure of their right
    classes, and by entry the length of the path over this ancestor, beyond all if it is none."""
    width = above.shape[1]
    size = row_sizes(above)
    far = 2 * above.data.max(initial=1)
    head = np.diff(left, prepend=-1) > 0
    # A stretch of pairs that starts within those of a class needs a row for it, too.
    table = np.full(min(_TABLE, head.sum() * width) + width, far, above.dtype)
    for lo, hi in stretches(head * width + 4 * size[right], _TABLE):
        head[lo] = True
        first = left[lo:hi][head[lo:hi]]
        row = (np.cumsum(head[lo:hi]) - 1) * width
        own = spans(above.indptr[first], size[first])
        cell = above.indices[own] + np.repeat(np.arange(len(first)) * width, size[first])
        table[cell] = above.data[own]
        ancestors = above[right[lo:hi]]
        length = table[np.repeat(row, row_sizes(ancestors)) + ancestors.indices]
        length += ancestors.data
        length -= 2
        yield slice(lo, hi), ancestors, length
        table[cell] = far


def renumbered(labels: Csr, number: AnyArray, width: int) -> Csr:
    """The same class sets where class c has another number, ``number[c]``."""
    moved = compressed(labels.data, number[labels.indices], labels.indptr, width)
    moved.sort_indices()
    return moved


def without(labels: Csr, dropped: AnyArray) -> Csr:
    """The class sets without the marked entries."""
    at = np.flatnonzero(~dropped)
    start = np.searchsorted(at, labels.indptr)
    return compressed(labels.data[at], labels.indices[at], start, labels.shape[1])


def sizes_of(true: Csr, pred: Csr) -> AnyArray:
    """How many classes both sets of each instance have, the true and the predicted, (3, N)."""
    return np.array([row_sizes(side) for side in (true.multiply(pred).tocsr(), true, pred)])


def pattern(above: Csr, height: float = np.inf, count_root: bool = True) -> Csr:
    """Which entries a closure has, up to a height; without one the virtual root, 0, stays."""
    entries = np.ones(above.nnz, bool), above.indices, above.indptr
    whole = sparse.csr_array(entries, shape=above.shape)
    if height == np.inf:
        return whole
    near = (above.data <= height + 1) & ((above.indices > 0) | count_root)
    return without(whole, ~near)


def kept_classes(number: AnyArray) -> AnyArray:
    """The classes of a part, in its order, by the numbers that all classes have in it, else -1."""
    there = np.flatnonzero(number >= 0)
    return there[np.argsort(number[there])]


def part_above(h: Hierarchy, *sides: Any) -> tuple[Parents, AnyArray, list[Csr]]:
    """The part above some class sets, the numbers of all classes in it, and the sets by these."""
    by_number = [renumbered(sparse.csr_array(side), h._number, len(h) + 1) for side in sides]
    used = np.unique(np.concatenate([[0], *(side.indices for side in by_number)]))
    up, number = h._up.part(h._up.above(used))
    return up, number, [renumbered(side, number, len(up.level)) for side in by_number]
