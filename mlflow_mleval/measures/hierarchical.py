"""Measures of hierarchical classification, one row an instance (Kosmopoulos et al. 2015)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from mlflow_mleval.measures.class_sets import (
    Pairs,
    descendant_measures,
    distinct_rows,
    level_columns,
    nested,
    pair_measures,
    part_above,
    pattern,
    rates,
    renumbered,
    row_sums,
    set_measures,
    without,
)
from mlflow_mleval.measures.hierarchy import Hierarchy, closure, stretches
from mlflow_mleval.measures.label_ranking import top_labels
from mlflow_mleval.measures.lca import extended_graphs, meet, minimal_graphs
from mlflow_mleval.measures.registry import DISTANCE_NAME, MEASURES, known_measures, numbers
from mlflow_mleval.sentences import some
from mlflow_mleval.validation import AnyArray, Array, one_of, present, same_axes

#: The measures of each family, and the counts that their micro averages need.
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "set": (
        "h_precision",
        "h_recall",
        "h_f1",
        "symmetric_difference_loss",
        "h_loss",
        "descendant_precision",
        "descendant_recall",
        "descendant_f1",
        "exact_match",
        "h_intersection",
        "h_true_size",
        "h_pred_size",
        "descendant_intersection",
        "descendant_true_size",
        "descendant_pred_size",
    ),
    "pair": ("tree_induced_error", "gie", "mgia", "all_pairs_error", "mgia_error", "mgia_bound"),
    "lca": (
        "lca_precision",
        "lca_recall",
        "lca_f1",
        "lca_intersection",
        "lca_true_size",
        "lca_pred_size",
    ),
}

_BLOCK = 1 << 21  # ancestors and pairs of the instances that are looked at together


@dataclass(frozen=True)
class Options:
    """The options of `instance_measures`.

    Parameters
    ----------
    max_distance : float
        Cost of a class that is not paired, D; in units of edge lengths. For ``gie`` and ``mgia``.
    lca : {"extended", "minimal"}
        All shortest paths to all lowest common ancestors, or the fewest common ancestors, each
        joined to a class of either side, with the largest F1.
    lca_max_distance : float, optional
        Two classes farther apart meet at a dummy node half this distance above each of them, which
        is one node for all; the way to it runs over their nearer ancestors. No limit without it.
    count_root : bool
        Count the virtual root in the sets extended by ancestors, as HEMKit does.
    far_pairs : {"forbid", "allow", "clip"}
        Whether classes farther apart than `max_distance` may be paired; with "clip", they count as
        this far apart. For ``gie`` and ``mgia``.
    max_ancestors : float, optional
        Extend sets by the ancestors up to this distance only, 0 by none. No limit without it.
    class_costs : mapping of class to float, or "siblings", optional
        What an error at each class costs in ``h_loss``; 1 without it. With "siblings" the roots
        share a cost of 1, and the children of a class its cost (Cesa-Bianchi et al. 2006); a class
        with several parents has a share of each.
    measures : {"set", "pair", "lca"} or iterable of these, optional
        The families to compute; all without it.
    """

    max_distance: float = 5
    lca: str = "extended"
    lca_max_distance: float | None = None
    count_root: bool = False
    far_pairs: str = "forbid"
    max_ancestors: float | None = None
    class_costs: Mapping[Hashable, float] | str | None = None
    measures: Iterable[str] | str | None = None

    def checked(self) -> Options:
        """The same with distances as floats, infinite where there is no limit, and a list of
        families.
        """
        one_of(self.lca, "lca", ("extended", "minimal"))
        one_of(self.far_pairs, "far_pairs", ("forbid", "allow", "clip"))
        names = FAMILIES if self.measures is None else self.measures
        families = [
            one_of(name, "measures", FAMILIES)
            for name in ([names] if isinstance(names, str) else names)
        ]
        if not families:
            raise ValueError(
                f"`measures` must name at least one of {', '.join(map(repr, FAMILIES))}, got "
                "none. Omit it for all."
            )
        return replace(
            self,
            max_distance=_distance(self.max_distance, "max_distance"),
            lca_max_distance=_limit(self.lca_max_distance, "lca_max_distance"),
            max_ancestors=_limit(self.max_ancestors, "max_ancestors", least=0),
            measures=families,
        )


def instance_measures(true: Any, pred: Any, h: Hierarchy, **options: Any) -> pd.DataFrame:
    """Compare the true and the predicted classes of every instance in a hierarchy.

    Parameters
    ----------
    true, pred : sequence of N collections of class names, or scipy.sparse of 0 and 1, shape (N, C)
        The classes of each instance, inner ones too; ancestors need not be listed. The columns of a
        matrix are ``h.nodes``.
    h : Hierarchy
    **options
        Of `Options`.

    Returns
    -------
    DataFrame, N rows
        ``set``
            h_precision, h_recall, h_f1: |A∩B|/|B|, |A∩B|/|A| and their harmonic mean for the true
            set A and the predicted set B, each with all ancestors. symmetric_difference_loss: |A∪B|
            − |A∩B|, 0 is best. h_loss (Cesa-Bianchi et al. 2006): the same without the classes all
            of whose parents are also in only one of the two sets, or what the others cost, 0 is
            best. descendant_precision, ...: as h_precision, with all descendants instead (Ipeirotis
            et al. 2001). exact_match: 1 where the true and the predicted set, as given, are equal.
        ``pair``
            With the length κ of the shortest path between a true and a predicted class through a
            common ancestor: tree_induced_error (Dekel et al. 2004): κ; NaN unless there is one true
            and one predicted class. gie: least cost of pairing the classes one to one, D for each
            that is left over; 0 is best. mgia: 1 − cost/(D·|YΔŶ|) where each class may be paired
            more than once; 1 is best. all_pairs_error (Sun & Lim 2001): sum of all κ; NaN where
            nothing is true or nothing is predicted.
        ``lca``
            lca_precision, lca_recall, lca_f1: as h_precision, on the nodes of the graphs that join
            the classes to their lowest common ancestors. With ``lca="minimal"`` also lca_exact, 0
            where the search was cut short and a larger F1 may exist.

        The other columns are the sizes and sums that `micro` needs. A precision or recall whose set
        is empty is 0; of instances where nothing is true and nothing predicted all scores are 1,
        and all losses 0 that are defined.

    Notes
    -----
    Work and memory grow with the number of ancestors of the different classes that occur, not with
    the number of paths; a hierarchy in which classes have thousands of ancestors is best evaluated
    in batches of instances.

    >>> h = Hierarchy([("animal", "pet"), ("animal", "cow"), ("pet", "cat"), ("pet", "dog")])
    >>> table = instance_measures([["cat"], ["cow", "dog"]], [["dog"], ["dog"]], h)
    >>> table[["h_precision", "h_recall", "h_loss", "gie", "mgia", "lca_f1"]].round(3)
       h_precision  h_recall  h_loss  gie  mgia  lca_f1
    0        0.667     0.667     2.0  2.0   0.8   0.500
    1        1.000     0.750     1.0  5.0   0.4   0.667
    """
    checked = Options(**options).checked()
    families = list(checked.measures or ())
    same_axes(pred, "pred", true, "true")
    y = h.indicator(true, "true")
    p = h.indicator(pred, "pred")
    if y.shape[0] != p.shape[0]:
        raise ValueError(
            f"`pred` must hold as many instances as `true`, {y.shape[0]}, got {p.shape[0]}. Pass "
            "a set for each."
        )

    costs = None if checked.class_costs is None else _costs(checked.class_costs, h)
    first, place = distinct_rows(y, p)
    up, number, (y, p) = part_above(h, y[first], p[first])
    if costs is not None:
        old = costs
        costs = np.empty(len(up.level))
        costs[number[number >= 0]] = old[number >= 0]
    above = closure(up)
    near = pattern(above, present(checked.max_ancestors) + up.tolerance, checked.count_root)
    (y_lower, y_upper) = nested(y, above)
    (p_lower, p_upper) = nested(p, above)
    size = np.diff(above.indptr)
    n_pairs = np.diff(y.indptr).astype(np.int64) * np.diff(p.indptr)
    cost = row_sums(size, y) + row_sums(size, p) + n_pairs
    parts = []
    for lo, hi in stretches(cost, _BLOCK):
        t = y[lo:hi]
        q = p[lo:hi]
        columns: dict[str, AnyArray] = {}
        if "set" in families:
            columns |= set_measures(up, near, t, q, checked.count_root, costs)
        if families != ["set"]:
            pairs = Pairs.of(t, q, above)
        if "pair" in families:
            columns |= pair_measures(
                t, q, pairs, checked.max_distance, checked.far_pairs, up.tolerance
            )
        if "lca" in families:
            lowest = ~y_upper[y.indptr[lo] : y.indptr[hi]], ~p_upper[p.indptr[lo] : p.indptr[hi]]
            minimal = checked.lca == "minimal"
            limit = present(checked.lca_max_distance)
            met = meet(up, above, t, q, pairs, lowest, limit, join=minimal)
            sizes = (minimal_graphs if minimal else extended_graphs)(met, hi - lo)
            columns |= rates("lca", *sizes[:3])
            if minimal:
                columns["lca_exact"] = sizes[3]
        parts.append(pd.DataFrame(columns))
    table = pd.concat(parts, ignore_index=True).astype(float)
    del above, near, parts  # the closure may be large, and the next one as large
    if "set" in families:
        descendants = descendant_measures(h._up, number, without(y, y_lower), without(p, p_lower))
        table = table.assign(**descendants)
    names = [name for family in families for name in FAMILIES[family]]
    names += table.columns.intersection(["lca_exact"]).tolist()
    return table[names].iloc[place].reset_index(drop=True)


#: The options of the hierarchical measures, with their defaults.
OPTIONS: Mapping[str, Any] = {part.name: part.default for part in fields(Options)}


def _costs(given: Mapping[Hashable, float] | str, h: Hierarchy) -> AnyArray:
    """The cost of each class by its number; that of the virtual root is 1."""
    if not isinstance(given, Mapping):
        one_of(given, "class_costs", ("siblings",))
        child = np.repeat(np.arange(len(h) + 1), h._up.count)
        children = np.bincount(h._up.parent, minlength=len(h) + 1)
        by_number = np.ones(len(h) + 1)
        for level in range(1, int(h._up.level[-1]) + 1):
            edge = np.flatnonzero(h._up.level[child] == level)
            parent = h._up.parent[edge]
            here = np.flatnonzero(h._up.level == level)
            by_number[here] = np.bincount(
                child[edge] - here[0], by_number[parent] / children[parent], len(here)
            )
        return by_number
    if missing := [name for name in h.nodes if name not in given]:
        raise ValueError(
            "`class_costs` must have a cost for each class, got none for "
            f"{some(map(repr, missing))}. Add it."
        )
    by_number = np.ones(len(h) + 1)
    by_number[h._number] = costs = np.array([given[name] for name in h.nodes], float)
    if (wrong := np.flatnonzero(~(np.isfinite(costs) & (costs >= 0)))).size:
        name = h.nodes[wrong[0]]
        raise ValueError(
            f"`class_costs` must be finite and at least 0, got {given[name]!r} for {name!r}. "
            "Correct it."
        )
    return by_number


def _limit(value: float | None, name: str, least: float = 5e-324) -> float:
    return np.inf if value is None else _distance(value, name, least)


def _distance(value: float, name: str, least: float = 5e-324) -> float:
    if not least <= value < np.inf:
        what = "a positive distance" if least else "a distance of at least 0"
        raise ValueError(
            f"`{name}` must be {what}, got {value!r}. Count edges, or sum their lengths."
        )
    return float(value)


# --------------------------------------------------------------------------------------------------
# What hierarchical measures take from each instance, and what tells a hierarchy and its options
# from others.


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
    """`of_class_sets` of label matrices, and what takes a score for each label; nothing without a
    hierarchy.

    Labels that score 0 are among the highest only with `zeros`.
    """
    if h is not None:
        true = _indicator(true, names, h)
        columns, identity = of_class_sets(true, _indicator(pred, names, h), h, options, asked)
        for k in numbers(DISTANCE_NAME, asked) if score is not None else ():
            columns[f"distance_at_{k}"] = _nearest(
                true, _indicator(top_labels(score, k, zeros), names, h), h
            )
        return columns, identity
    refuse_without(h, options)
    return {}, None


def of_class_sets(
    true: Any, pred: Any, h: Hierarchy, options: Mapping[str, Any], asked: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The hierarchical columns of each instance, and what tells the hierarchy and its options from
    others.
    """
    options = {**OPTIONS, **options}
    families = options["measures"]
    if families is not None:
        options["measures"] = [families] if isinstance(families, str) else list(families)
    table = instance_measures(true, pred, h, **options)
    for name in ("max_ancestors", "class_costs"):
        if options[name] is None:  # so that results of versions without it go on agreeing
            del options[name]
    if isinstance(costs := options.get("class_costs"), Mapping):
        text = repr([float(costs[name]) for name in h.nodes])
        options["class_costs"] = f"SHA-256 {sha256(text.encode()).hexdigest()[:16]}"
    columns = {name: table[name].to_numpy() for name in table} | level_columns(true, pred, h, asked)
    return columns, {"hierarchy": h.digest, **options}


def _nearest(true: sparse.csr_array, top: sparse.csr_array, h: Hierarchy) -> Array:
    """Of each instance the shortest path between a class of one set and a class of the other; NaN
    where one is empty.
    """
    up, _, (true, top) = part_above(h, true, top)
    pairs = Pairs.of(true, top, closure(up))
    some = np.flatnonzero(np.diff(pairs.start))
    nearest = np.full(true.shape[0], np.nan)
    if len(some):
        nearest[some] = np.minimum.reduceat(pairs.apart[pairs.kind], pairs.start[some])
    return nearest


def _indicator(matrix: Any, names: Sequence[Hashable], h: Hierarchy) -> sparse.csr_array:
    """A label matrix over all classes of the hierarchy."""
    if unknown := [name for name in names if name not in h]:
        raise ValueError(
            f"`label_names` must be classes of `hierarchy`, got {len(unknown)} others: "
            f"{', '.join(map(repr, unknown[:8]))}."
        )
    width = len(h.nodes)
    return renumbered(sparse.csr_array(matrix), h._positions(names, "label_names"), width)


# --------------------------------------------------------------------------------------------------
# Which measures were asked for beside the usual ones.


def requested(
    measures: Iterable[str] | str | None, kind: str, has_hierarchy: bool
) -> tuple[tuple[str, ...], list[str]]:
    """The measures to compute beside those that are usual for the kind, and the families of
    hierarchical ones to keep to.

    A ValueError or TypeError names what is no measure, set or family, or is a family without a
    hierarchy.
    """
    names = [] if measures is None else [measures] if isinstance(measures, str) else list(measures)
    if not names and measures is not None:
        raise ValueError(
            "`measures` must name at least one measure or set, got none. Omit it for the usual "
            "ones."
        )
    families = [name for name in names if name in FAMILIES]
    if families and not has_hierarchy:
        raise TypeError(
            f"`hierarchy` must be given with {families[0]!r} in `measures`. Leave it out without "
            "one."
        )
    rest = [name for name in known_measures(names, further=FAMILIES) if name not in families]
    return tuple(name for name in rest if kind in MEASURES[name].asked), families
