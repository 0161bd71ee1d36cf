"""Measures of hierarchical classification, one row an instance (Kosmopoulos et al. 2015)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from mlflow_mleval.measures.hierarchy import (
    Hierarchy,
    Pairs,
    Parents,
    closure,
    instance_pairs,
    kept_classes,
    lookup,
    part_above,
    pattern,
    renumbered,
    sizes_of,
    spans,
    stretches,
    without,
)
from mlflow_mleval.measures.inputs import Csr, found_among, row_digests, row_sizes, rows_of
from mlflow_mleval.measures.label_ranking import top_labels
from mlflow_mleval.measures.lca import extended_graphs, meet, minimal_graphs
from mlflow_mleval.measures.registry import (
    DISTANCE_NAME,
    LEVEL_NAME,
    MEASURES,
    SET_SIZES,
    Counts,
    f1,
    known_measures,
    numbers,
    precision,
    ratio,
    recall,
)
from mlflow_mleval.sentences import some
from mlflow_mleval.validation import AnyArray, Columns, of_kind, one_of, present

#: The measures of each family, and the counts that their micro averages need.
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "set": (
        *("h_precision", "h_recall", "h_f1", "symmetric_difference_loss", "h_loss"),
        *("descendant_precision", "descendant_recall", "descendant_f1", "exact_match"),
        *("h_intersection", "h_true_size", "h_pred_size"),
        *("descendant_intersection", "descendant_true_size", "descendant_pred_size"),
    ),
    "pair": ("tree_induced_error", "gie", "mgia", "all_pairs_error", "mgia_error", "mgia_bound"),
    "lca": (
        *("lca_precision", "lca_recall", "lca_f1"),
        *("lca_intersection", "lca_true_size", "lca_pred_size"),
    ),
}

_BLOCK = 1 << 21  # ancestors and pairs of the instances that are looked at together


@dataclass(frozen=True)
class Options:
    """The options of `instance_measures`; distances are in units of edge lengths."""

    #: Cost of a class that is not paired, D, for ``gie`` and ``mgia``.
    max_distance: float = 5
    #: "extended": all shortest paths to all lowest common ancestors; "minimal": the fewest common
    #: ancestors, each joined to a class of either side, with the largest F1.
    lca: str = "extended"
    #: Two classes farther apart meet at a dummy node half this distance above each of them, which
    #: is one node for all; the way to it runs over their nearer ancestors. No limit without it.
    lca_max_distance: float | None = None
    #: Count the virtual root in the sets extended by ancestors, as HEMKit does.
    count_root: bool = False
    #: Whether ``gie`` and ``mgia`` may pair classes farther apart than `max_distance`: "forbid",
    #: "allow", or "clip", by which they count as this far apart.
    far_pairs: str = "forbid"
    #: Extend sets by the ancestors up to this distance only, 0 by none. No limit without it.
    max_ancestors: float | None = None
    #: What an error at each class costs in ``h_loss`` (Cesa-Bianchi et al. 2006); 1 without it.
    class_costs: Mapping[Hashable, float] | None = None
    #: The families to compute, "set", "pair" and "lca"; all without it.
    measures: Iterable[str] | str | None = None

    def checked(self) -> Options:
        """The same with distances as floats, infinite without a limit, and a list of families."""
        one_of(self.lca, "lca", ("extended", "minimal"))
        one_of(self.far_pairs, "far_pairs", ("forbid", "allow", "clip"))
        names = FAMILIES if self.measures is None else self.measures
        names = [names] if isinstance(names, str) else names
        families = [one_of(name, "measures", FAMILIES) for name in names]
        limits: dict[str, Any] = {}
        for name in ("max_distance", "lca_max_distance", "max_ancestors"):
            value = getattr(self, name)
            least = 0 if name == "max_ancestors" else 5e-324
            if (value is not None or name == "max_distance") and not least <= value < np.inf:
                what = "a positive distance" if least else "a distance of at least 0"
                raise ValueError(f"`{name}` must be {what}, got {value!r}. Count edges or lengths.")
            limits[name] = np.inf if value is None else float(value)
        return replace(self, measures=families, **limits)

    def costs(self, h: Hierarchy) -> AnyArray | None:
        """What an error at each class costs, by its number; 1 at the virtual root."""
        given = self.class_costs
        if given is None:
            return None
        of_kind(given, "class_costs", Mapping, "a cost by class")
        if missing := [name for name in h.nodes if name not in given]:
            got = some(map(repr, missing))
            raise ValueError(f"`class_costs` must name all classes, got no {got}.")
        by_number = np.ones(len(h) + 1)
        by_number[h._number] = costs = np.array([given[name] for name in h.nodes], float)
        if (wrong := np.flatnonzero(~(np.isfinite(costs) & (costs >= 0)))).size:
            name = h.nodes[wrong[0]]
            raise ValueError(f"`class_costs` must be at least 0, got {given[name]!r} for {name!r}.")
        return by_number


def instance_measures(true: Any, pred: Any, h: Hierarchy, **options: Any) -> pd.DataFrame:
    """The columns of `FAMILIES` of each instance, with the options of `Options`."""
    checked = Options(**options).checked()
    families = list(checked.measures or ())
    y, p = h.indicator(true, "true"), h.indicator(pred, "pred")
    costs = checked.costs(h)
    first, place = distinct_rows(y, p)
    up, number, (y, p) = part_above(h, y[first], p[first])
    costs = None if costs is None else costs[kept_classes(number)]
    above = closure(up)
    near = pattern(above, present(checked.max_ancestors) + up.tolerance, checked.count_root)
    y_lower, y_upper = nested(y, above)
    p_lower, p_upper = nested(p, above)
    size = row_sizes(above)
    cost = y @ size + p @ size + row_sizes(y) * row_sizes(p)
    parts = []
    for lo, hi in stretches(cost, _BLOCK):
        t, q = y[lo:hi], p[lo:hi]
        columns: Columns = {}
        if "set" in families:
            columns |= set_measures(up, near, t, q, checked.count_root, costs)
        if families != ["set"]:
            pairs = Pairs.of(t, q, above)
        if "pair" in families:
            columns |= pair_based_measures(
                t, q, pairs, checked.max_distance, checked.far_pairs, up.tolerance
            )
        if "lca" in families:
            lowest = ~y_upper[y.indptr[lo] : y.indptr[hi]], ~p_upper[p.indptr[lo] : p.indptr[hi]]
            minimal = checked.lca == "minimal"
            limit = present(checked.lca_max_distance)
            met = meet(up, above, t, q, pairs, lowest, limit, join=minimal)
            sizes = (minimal_graphs if minimal else extended_graphs)(*met, hi - lo)
            columns |= rates("lca", *sizes[:3])
            if minimal:
                columns["lca_exact"] = sizes[3]
        parts.append(pd.DataFrame(columns))
    table = pd.concat(parts, ignore_index=True).astype(float)
    del above, near, parts  # the closure may be large, and the next one as large
    if "set" in families:
        lowest = without(y, y_lower), without(p, p_lower)
        table = table.assign(**descendant_measures(h._up, number, *lowest))
    names = [name for family in families for name in FAMILIES[family]]
    names += table.columns.intersection(["lca_exact"]).tolist()
    return table[names].iloc[place].reset_index(drop=True)


#: The options of the hierarchical measures, with their defaults.
OPTIONS: Mapping[str, Any] = {part.name: part.default for part in fields(Options)}


# ---- pairs of classes, extended sets, levels -----------------------------------------------------

_PIECE = 1 << 20  # pairs of classes, or members of extended sets, that are looked at together
_SUBSETS = 4  # classes of the smaller side up to which all its subsets are tabulated


def best_matching(weight: AnyArray) -> AnyArray:
    """Largest sums of weights of one-to-one matchings, of a stack of matrices without negatives."""
    if weight.shape[1] < weight.shape[2]:
        weight = weight.transpose(0, 2, 1)
    count, rows, columns = weight.shape
    if columns > _SUBSETS:
        from scipy.optimize import linear_sum_assignment

        return np.array([w[linear_sum_assignment(w, maximize=True)].sum() for w in weight])
    # the best use of a subset of the columns by the rows so far
    best = np.zeros((1 << columns, count), weight.dtype)
    for i in range(rows):
        for subset in range(len(best) - 1, 0, -1):
            for j in range(columns):
                if subset >> j & 1:
                    joined = best[subset ^ 1 << j] + weight[:, i, j]
                    np.maximum(best[subset], joined, out=best[subset])
    return best[-1]


def pair_based_measures(
    true: Csr, pred: Csr, pairs: Pairs, limit: float, far: str, tolerance: float
) -> Columns:
    """The pair-based measures of each instance; an unpaired class costs `limit`."""
    start = pairs.start
    distance = pairs.apart[pairs.kind]
    common, m, k = sizes_of(true, pred)
    gie = limit * (m + k)  # nothing paired
    cover = gie.copy()
    shape = m * (k.max(initial=0) + 1) + k
    order = np.argsort(shape, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(shape[order])) + 1):
        rows, columns = m[group[:1]].sum(), k[group[:1]].sum()
        if not rows * columns:
            continue
        cells = start[group, None] + np.arange(rows * columns)
        kappa = distance[cells].reshape(-1, rows, columns).astype(float)
        near = (kappa <= limit + tolerance) | (far != "forbid")
        if far == "clip":
            kappa = np.minimum(kappa, limit)
        gie[group] -= best_matching(np.where(near, np.maximum(2 * limit - kappa, 0), 0))
        n, p = (np.minimum(kappa.min(axis, keepdims=True), limit) for axis in (2, 1))
        saved = best_matching(np.where(near, np.maximum(n + p - kappa, 0), 0))
        cover[group] = n.sum((1, 2)) + p.sum((1, 2)) - saved
    bound = limit * (m + k - 2 * common)
    single = np.full(len(m), np.nan)
    single[(m == 1) & (k == 1)] = distance[start[:-1][(m == 1) & (k == 1)]]
    total = np.bincount(np.repeat(np.arange(len(m)), np.diff(start)), distance, len(m))
    return {
        "tree_induced_error": single,
        "gie": gie,
        "mgia": 1 - ratio(cover, bound),
        "all_pairs_error": np.where(m * k > 0, total, np.nan),
        "mgia_error": cover,
        "mgia_bound": bound,
    }


def distinct_rows(true: Csr, pred: Csr) -> tuple[AnyArray, AnyArray]:
    """An instance of each different pair of sets, and of every instance the place of its pair."""
    told = row_digests(sparse.hstack([true, pred], format="csr"))
    _, first, place = np.unique(told, return_index=True, return_inverse=True)
    return first, place


def nested(labels: Csr, above: Csr) -> tuple[AnyArray, AnyArray]:
    """Which classes have an ancestor, and which a descendant, in the set of their instance."""
    lower, upper = np.zeros((2, labels.nnz), bool)
    for lo, hi in stretches(row_sizes(labels) ** 2, _PIECE):
        _, left, right = instance_pairs(labels[lo:hi], labels[lo:hi])
        left, right = (side[left != right] + labels.indptr[lo] for side in (left, right))
        under = lookup(above, labels.indices[left], labels.indices[right]) > 0
        lower[left[under]] = upper[right[under]] = True
    return lower, upper


def rates(name: str, both: AnyArray, true: AnyArray, pred: AnyArray) -> Columns:
    """Precision, recall and F1 of sizes of sets, and the sizes; two empty sets count 1."""
    counts = Counts(both, pred, true, cells=0, empty=1.0)
    values = {"precision": precision(counts), "recall": recall(counts), "f1": f1(counts)}
    values |= dict(zip(SET_SIZES, (both, true, pred), strict=True))
    return {f"{name}_{key}": value for key, value in values.items()}


def set_measures(
    up: Parents, known: Csr, true: Csr, pred: Csr, count_root: bool, costs: AnyArray | None = None
) -> Columns:
    """Set measures of classes extended by their ancestors `known`; `costs` are for h_loss."""
    exact = np.ptp(sizes_of(true, pred), axis=0) == 0
    sides = true @ known, pred @ known
    for side in sides:
        side.sort_indices()
    sizes = [*map(row_sizes, sides)]
    both = np.zeros(true.shape[0], np.int64)
    loss = np.zeros(true.shape[0])
    width = known.shape[1]
    cells = [rows_of(side) * width + side.indices for side in sides]
    for own, other in (cells, cells[::-1]):
        # Where the virtual root does not count it is as if both sets had it.
        shared = found_among(other, own)[0] | (not count_root) & (own % width == 0)
        both = np.bincount(own[shared] // width, minlength=len(both))
        row, node = np.divmod(own[~shared], width)
        parents = up.count[node]
        parent = up.parent[spans(up.start[node], parents)]
        child = np.repeat(np.arange(len(node)), parents)
        met = found_among(other, row[child] * width + parent)[0]
        met |= (not count_root) & (parent == 0)
        # of errors those that have no parents, or one that both sets have
        first = parents == 0
        first[child[met]] = True
        loss += np.bincount(row[first], None if costs is None else costs[node[first]], len(loss))
    # the virtual root is in every set but the empty ones, and was taken for shared by all
    if not count_root and known.indptr[1]:
        both -= sizes[1] > 0
        sizes = [size - (size > 0) for size in sizes]
    difference = sizes[0] + sizes[1] - 2 * both
    losses = {"symmetric_difference_loss": difference, "h_loss": loss, "exact_match": exact}
    return rates("h", both, *sizes) | losses


def descendant_measures(up: Parents, number: AnyArray, true: Csr, pred: Csr) -> Columns:
    """Set measures of classes extended by their descendants in the whole hierarchy."""
    # few sets remain of instances that list all their ancestors
    first, place = distinct_rows(true, pred)
    old = kept_classes(number)
    used = np.zeros(len(number), bool)
    used[old[np.concatenate([true.indices, pred.indices])]] = True
    part, new = up.part(up.below(np.flatnonzero(used)))
    columns = np.zeros(len(part.level), bool)
    columns[new[used]] = True
    below = pattern(closure(part, columns)).T.tocsr()
    true, pred = (renumbered(side[first], new[old], len(columns)) for side in (true, pred))
    counts = np.empty((3, len(first)), np.int64)
    size = row_sizes(below)
    for lo, hi in stretches(true @ size + pred @ size, _PIECE):
        counts[:, lo:hi] = sizes_of(true[lo:hi] @ below, pred[lo:hi] @ below)
    return rates("descendant", *counts[:, place])


def level_columns(true: Any, pred: Any, h: Hierarchy, names: Iterable[str]) -> Columns:
    """Sizes by level of the extended sets of each instance, and the ancestors they lacked."""
    names = set(names)
    levels = sorted(numbers(LEVEL_NAME, names))
    of_violations = names & {"violation_rate", "missing_ancestors"}
    if not levels and not of_violations:
        return {}
    up, _, (y, p) = part_above(h, true, pred)
    extended = pattern(closure(up))[:, 1:]  # without the virtual root
    sides = y @ extended, p @ extended
    columns = {}
    for level in levels:
        of_level = (side[:, np.flatnonzero(up.level[1:] == level)] for side in sides)
        for part, size in zip(SET_SIZES, sizes_of(*of_level), strict=True):
            columns[f"level_{level}_{part}"] = size.astype(float)
    missing = row_sizes(sides[1]) - row_sizes(p)
    violations = {"violation_rate": missing > 0, "missing_ancestors": missing}
    return columns | {m: violations[m].astype(float) for m in violations if m in of_violations}


# ---- columns of each instance, and their identity ------------------------------------------------


def refuse_without(h: Hierarchy | None, options: Iterable[str]) -> None:
    """Raise TypeError for options of hierarchical measures without a hierarchy."""
    if h is None and (listed := ", ".join(map(repr, options))):
        raise TypeError(f"`hierarchy` must be given with {listed}. Leave these out without it.")


def of_label_matrices(
    true: Any,
    pred: Any,
    score: Any,
    names: Sequence[Hashable],
    h: Hierarchy | None,
    options: Mapping[str, Any],
    asked: Sequence[str],
    zeros: bool = False,
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """`of_class_sets` of label matrices and scores, of which 0 counts with `zeros`."""
    if h is not None:
        true = _indicator(true, names, h)
        columns, identity = of_class_sets(true, _indicator(pred, names, h), h, options, asked)
        for k in numbers(DISTANCE_NAME, asked) if score is not None else ():
            # of each instance the shortest path between a class of one set and one of the other
            up, _, (t, p) = part_above(h, true, _indicator(top_labels(score, k, zeros), names, h))
            pairs = Pairs.of(t, p, closure(up))
            some = np.flatnonzero(np.diff(pairs.start))
            nearest = np.full(true.shape[0], np.nan)
            if len(some):
                ends = pairs.start[some]
                nearest[some] = np.minimum.reduceat(pairs.apart[pairs.kind], ends)
            columns[f"distance_at_{k}"] = nearest
        return columns, identity
    refuse_without(h, options)
    return {}, None


def of_class_sets(
    true: Any, pred: Any, h: Hierarchy, options: Mapping[str, Any], asked: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The hierarchical columns of each instance, and what identifies hierarchy and options."""
    options = {**OPTIONS, **options}
    table = instance_measures(true, pred, h, **options)
    if (costs := options["class_costs"]) is not None:
        text = repr([float(costs[name]) for name in h.nodes])
        options["class_costs"] = f"SHA-256 {sha256(text.encode()).hexdigest()[:16]}"
    columns = {name: table[name].to_numpy() for name in table} | level_columns(true, pred, h, asked)
    return columns, {"hierarchy": h.digest, **options}


def _indicator(matrix: Any, names: Sequence[Hashable], h: Hierarchy) -> Csr:
    """A label matrix over all classes of the hierarchy."""
    if unknown := [name for name in names if name not in h]:
        got = f"{len(unknown)} others: {', '.join(map(repr, unknown[:8]))}"
        raise ValueError(f"`label_names` must be classes of `hierarchy`, got {got}.")
    return renumbered(sparse.csr_array(matrix), h._positions(names, "label_names"), len(h.nodes))


# ---- what was asked for --------------------------------------------------------------------------


def requested(
    measures: Iterable[str] | str | None, kind: str, has_hierarchy: bool
) -> tuple[tuple[str, ...], dict[str, list[str]]]:
    """The measures beside the usual ones, and the option that keeps to hierarchical families."""
    names = [] if measures is None else [measures] if isinstance(measures, str) else list(measures)
    if not names and measures is not None:
        raise ValueError("`measures` must name at least one measure or set, got none.")
    families = [name for name in names if name in FAMILIES]
    if families and not has_hierarchy:
        raise TypeError(f"`hierarchy` must be given with {families[0]!r} in `measures`.")
    rest = [name for name in known_measures(names, further=FAMILIES) if name not in families]
    asked = tuple(name for name in rest if kind in MEASURES[name].asked)
    return asked, {"measures": families} if families else {}
