"""Measures of hierarchical classification, one row an instance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from ..validation import one_of
from .hierarchy import Hierarchy, _listing

FAMILIES: dict[str, tuple[str, ...]] = {
    "set": (
        "h_precision", "h_recall", "h_f1", "symmetric_difference_loss", "h_loss",
        "descendant_precision", "descendant_recall", "descendant_f1", "exact_match",
        "h_intersection", "h_true_size", "h_pred_size",
        "descendant_intersection", "descendant_true_size", "descendant_pred_size",
    ),
    "pair": ("tree_induced_error", "gie", "mgia", "all_pairs_error", "mgia_error", "mgia_bound"),
    "lca": ("lca_precision", "lca_recall", "lca_f1", "lca_intersection", "lca_true_size", "lca_pred_size"),
}  # fmt: skip


def instance_measures(
    true: Any,
    pred: Any,
    h: Hierarchy,
    *,
    max_distance: float = 5,
    lca: str = "extended",
    lca_max_distance: float | None = None,
    count_root: bool = False,
    far_pairs: str = "forbid",
    measures: Iterable[str] | None = None,
) -> pd.DataFrame:
    """Every hierarchical measure of every instance."""
    one_of(lca, "lca", ("extended", "minimal"))
    one_of(far_pairs, "far_pairs", ("forbid", "allow"))
    families = list(FAMILIES) if measures is None else [one_of(m, "measures", FAMILIES) for m in measures]
    if lca_max_distance is not None:
        raise NotImplementedError("lca_max_distance")
    y, p = _sets(true, "true", h), _sets(pred, "pred", h)
    if len(y) != len(p):
        raise ValueError(f"`pred` must hold as many instances as `true` ({len(y)}), got {len(p)}.")
    down: dict[int, set[int]] = {}
    for i in range(len(h)):
        for v in h._upward(i):
            down.setdefault(v, set()).add(i)
    rows = []
    for a, b in zip(y, p, strict=True):
        up = {c: h._upward(c) for c in a | b}
        row: dict[str, float] = {}
        if "set" in families:
            row |= _set_row(h, a, b, up, down, count_root)
        if "pair" in families:
            row |= _pair_row(a, b, up, max_distance, far_pairs)
        if "lca" in families:
            row |= _lca_row(h, a, b, lca)
        rows.append(row)
    return pd.DataFrame(rows, columns=[c for f in families for c in FAMILIES[f]], dtype=float)


def micro(sums: Mapping[str, float]) -> dict[str, float]:
    """The micro averages: precision, recall and F1 of counts summed over instances."""
    found = {}
    for family in ("h", "descendant", "lca"):
        if f"{family}_intersection" in sums:
            values = _prf(*(float(sums[f"{family}_{part}"]) for part in ("intersection", "true_size", "pred_size")))
            found |= dict(zip((f"micro_{family}_{m}" for m in ("precision", "recall", "f1")), values, strict=True))
    if "mgia_error" in sums:
        found["micro_mgia"] = 1.0 - float(sums["mgia_error"]) / float(sums["mgia_bound"]) if sums["mgia_bound"] else 1.0
    return found


def _sets(labels: Any, name: str, h: Hierarchy) -> list[set[int]]:
    if sparse.issparse(labels):
        labels = sparse.csr_array(labels)
        if labels.shape[1] != len(h):
            raise ValueError(f"`{name}` must have one column for each of the {len(h)} classes, got shape {labels.shape}.")
        return [set(labels.indices[a:b][labels.data[a:b] != 0].tolist()) for a, b in zip(labels.indptr[:-1], labels.indptr[1:], strict=True)]
    unknown = [c for row in labels for c in row if c not in h]
    if unknown:
        raise ValueError(f"`{name}` must hold classes of the hierarchy, got unknown {_listing(dict.fromkeys(unknown))}.")
    return [{h._position[c] for c in row} for row in labels]


def _prf(both: float, true: float, pred: float) -> tuple[float, float, float]:
    if not true and not pred:
        return 1.0, 1.0, 1.0
    return both / pred if pred else 0.0, both / true if true else 0.0, 2 * both / (true + pred)


def _counts(prefix: str, y: set[Any], p: set[Any]) -> dict[str, float]:
    sizes = len(y & p), len(y), len(p)
    names = [f"{prefix}_{m}" for m in ("intersection", "true_size", "pred_size", "precision", "recall", "f1")]
    return dict(zip(names, (*sizes, *_prf(*sizes)), strict=True))


def _set_row(h, y, p, up, down, count_root):
    ya, pa = ({v for c in s for v in up[c] if count_root or v >= 0} for s in (y, p))

    def kept(a, b):
        return sum(1 for v in a - b if v >= 0 and (not (q := [u for u, _ in h._parents[v]] or [-1] * count_root) or b & set(q)))

    row = _counts("h", ya, pa) | _counts("descendant", *({d for c in s for d in down[c]} for s in (y, p)))
    row |= {"symmetric_difference_loss": len(ya ^ pa), "exact_match": y == p}
    row["h_loss"] = kept(ya, pa) + kept(pa, ya) + (count_root and bool(y) != bool(p))
    return row


def _kappa(up, a, b):
    return min(d + up[b][v] for v, d in up[a].items() if v in up[b])


def _pair_row(y, p, up, limit, far_pairs):
    k = np.array([[_kappa(up, a, b) for b in sorted(p)] for a in sorted(y)]).reshape(len(y), len(p))
    near = (k <= limit) | (far_pairs == "allow")

    def matched(weight):
        weight = np.where(near, np.maximum(weight, 0), 0)
        return weight[linear_sum_assignment(weight, maximize=True)].sum()

    n, m = np.minimum(k.min(1, initial=limit), limit), np.minimum(k.min(0, initial=limit), limit)
    error, bound = n.sum() + m.sum() - matched(n[:, None] + m - k), len(y ^ p) * limit
    return {
        "tree_induced_error": k[0, 0] if k.shape == (1, 1) else np.nan,
        "gie": limit * sum(k.shape) - matched(2 * limit - k),
        "mgia": 1 - error / bound if bound else 1.0,
        "all_pairs_error": k.sum(), "mgia_error": error, "mgia_bound": bound,
    }  # fmt: skip


def _lca_row(h, y, p, variant):
    up = {c: h._upward(c) for c in y | p}
    y, p = ({c for c in s if not any(c != z and c in up[z] for z in s)} for s in (y, p))
    if not y or not p:
        return _counts("lca", y, p)
    below: dict[Any, Any] = {}

    def dist(v):
        if v not in below:
            below[v] = h._upward(v) if v >= 0 else {-1: 0.0}
        return below[v]

    def paths(c, a):
        if c == a:
            return [frozenset([a])]
        steps = [(u, w) for u, w in h._parents[c] or [(-1, 1.0)] if a in dist(u) and dist(u)[a] + w == dist(c)[a]]
        return [q | {c} for u, _ in steps for q in paths(u, a)]

    own: dict[Any, dict[Any, set[Any]]] = {}
    for side, these, those in ((0, y, p), (1, p, y)):
        for n in these:
            near = min(_kappa(up, n, z) for z in those)
            for z in those:
                if _kappa(up, n, z) == near:
                    for a in up[n]:
                        if a in up[z] and up[n][a] + up[z][a] == near:
                            own.setdefault((side, n), {}).setdefault(a, set()).add(z)
    if variant == "extended":
        graphs: tuple[set[Any], set[Any]] = (set(), set())
        for (side, n), met in own.items():
            for a, partners in met.items():
                graphs[side].update(*paths(n, a))
                for z in partners:
                    graphs[1 - side].update(*paths(z, a))
        return _counts("lca", *graphs)
    universe = sorted({a for met in own.values() for a in met})
    for size in range(1, len(universe) + 1):
        chosen = [set(c) for c in combinations(universe, size) if all(set(c) & set(met) for met in own.values())]
        if chosen:
            break
    best = (-1.0, 0, 0), ()
    for keep in chosen:
        states = {(frozenset(), frozenset())}
        for (side, n), met in own.items():
            found = set()
            for a in keep & set(met):
                for q in paths(n, a):
                    found |= {(q, r)[:: 1 - 2 * side] for z in met[a] for r in paths(z, a)}
            states = {(s | a, t | b) for s, t in states for a, b in found}
        for s, t in states:
            merit = 2 * len(s & t) / (len(s) + len(t)), -len(s) - len(t), -abs(len(s) - len(t))
            best = max(best, (merit, (s, t)), key=lambda x: x[0])
    return _counts("lca", *best[1])
