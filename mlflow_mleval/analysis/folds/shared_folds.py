"""Which folds two methods share: each pair is compared on those that both have, and no method is
lost for lacking some.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, combinations_with_replacement
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from mlflow_mleval.analysis.folds.covariance import (
    NOISE,
    names_of,
    problems,
    solve_pairs,
    table_of,
)
from mlflow_mleval.analysis.folds.hotelling import BLOCK, HotellingPairs
from mlflow_mleval.analysis.folds.manova import rao_f
from mlflow_mleval.analysis.folds.protocol import Protocol, recorded_protocol, widest
from mlflow_mleval.analysis.pairs import decided, holm, named_pairs
from mlflow_mleval.errors import IncomparableRunsError
from mlflow_mleval.study import Excluded
from mlflow_mleval.validation import Array, Bools, Ints, probability
from mlflow_mleval.words import some

# --------------------------------------------------------------------------------------------------
# Two methods over five repetitions of twofold cross-validation: the combined F test, on one measure
# or several.
#
# Alpaydın (1999), "Combined 5x2 cv F test for comparing supervised classification learning
# classifiers"; Dietterich (1998).

REPEATS = 5


@dataclass(frozen=True)
class FiveByTwoPairs:
    """The combined 5x2 cv test of every pair of methods.

    Attributes
    ----------
    table : One row a pair: method_a, method_b, statistic (Wilks' lambda), f_statistic, pvalue, pvalue_corrected (Holm, over the
        pairs that could be tested), significant, problem (why the pair could not be tested, else
        empty).
    differences, directions : Pairs x measures: mean of a minus mean of b; weights of the combination on which they differ most.
    posthoc_pvalues, posthoc_corrected : Pairs x measures: Alpaydın's F test of each measure; with Holm's correction over the
        measures of a pair.
    df : Degrees of freedom of the F; 10 and 5 for one measure.
    """  # noqa: E501

    table: pd.DataFrame
    differences: pd.DataFrame
    directions: pd.DataFrame
    posthoc_pvalues: pd.DataFrame
    posthoc_corrected: pd.DataFrame
    df: tuple[float, float]
    methods: list[Hashable]
    measures: list[Hashable]
    alpha: float


def five_by_two(
    x: ArrayLike,
    *,
    methods: Sequence[Hashable] | None = None,
    measures: Sequence[Hashable] | None = None,
    alpha: float = 0.05,
) -> FiveByTwoPairs:
    r"""Test every pair of methods on five repetitions of twofold cross-validation.

    With the differences :math:`d_{rj}` on half j of repetition r and :math:`s_r^2 = \sum_j (d_{rj}
    - \bar d_r)^2`, one measure is tested by :math:`\sum_{rj} d_{rj}^2 / (2 \sum_r s_r^2) \sim F(10,
    5)` (Alpaydın 1999). For several measures the sums of squares become matrices, :math:`H = \sum
    d_{rj} d_{rj}^T` and :math:`E = \sum_r S_r`, and Wilks' lambda :math:`|E| / |E + H|` with 10 and
    5 degrees of freedom takes the place of the F, which it equals for one measure. That
    generalisation is ours; in simulations its level is that of the F: .015 for independent folds,
    .03 and .06 where they correlate by .1 and .3, with one to four measures.

    `x` is methods x 10 folds x at most five measures (else a ValueError); folds 2r and 2r + 1 are
    the two halves of repetition r.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(2, 10, 1))
    >>> found = five_by_two(x)
    >>> d = (x[0] - x[1]).reshape(5, 2)
    >>> f = (d**2).sum() / (d[:, 0] - d[:, 1]).dot(d[:, 0] - d[:, 1])
    >>> bool(np.isclose(found.table["f_statistic"].item(), f)), found.df
    (True, (10.0, 5.0))
    """
    probability(alpha, "alpha")
    values = table_of(x, "x", 3)
    n_methods, n_folds, p = values.shape
    of = names_of(methods, None, "methods", n_methods)
    names = names_of(measures, None, "measures", p)
    if n_methods < 2 or n_folds != 2 * REPEATS or p > REPEATS:
        raise ValueError(
            f"`x` must hold at least two methods on ten folds and at most {REPEATS} measures, "
            f"got {n_methods} methods, {n_folds} folds and {p} measures. Five repetitions of "
            "twofold cross-validation give five degrees of freedom."
        )
    first, second = np.triu_indices(n_methods, 1)
    n = len(first)
    size = np.abs(values).max(axis=1)
    determinants = np.empty(n)
    f = np.empty((n, p))
    mean = np.empty((n, p))
    direction = np.empty((n, p))
    singular = np.empty(n, dtype=np.int64)
    for start in range(0, n, BLOCK):
        at = slice(start, start + BLOCK)
        d = values[first[at]] - values[second[at]]
        largest = np.maximum(size[first[at]], size[second[at]])
        d[np.abs(d) <= NOISE * largest[:, None]] = 0.0
        spread = (d[:, ::2] - d[:, 1::2]) / np.sqrt(2)
        spread[np.abs(spread) <= NOISE * largest[:, None]] = 0.0
        within = (spread**2).sum(axis=1)
        between = (d**2).sum(axis=1)
        f[at] = np.divide(
            between,
            2 * within,
            out=np.where(between == 0, 0.0, np.nan),
            where=within > 0,
        )
        mean[at] = d.mean(axis=1)
        solved = solve_pairs(spread.transpose(2, 1, 0).copy(), mean[at].T.copy(), largest.T)
        direction[at] = solved[1].T
        singular[at] = solved[2]
        unit = np.sqrt(np.where(within > 0, within, 1.0))[:, None]
        e = spread / unit
        t = np.concatenate([spread, d], axis=1) / unit
        logs = [np.linalg.slogdet(np.swapaxes(m, 1, 2) @ m)[1] for m in (e, t)]
        determinants[at] = np.subtract(logs[0], logs[1], out=np.zeros(len(d)), where=solved[2] < 0)
    wilks = np.exp(determinants)
    same = (mean == 0).all(axis=1) & (f == 0).all(axis=1)
    bad = (singular >= 0) & ~same
    wilks[same] = 1.0
    wilks[bad] = np.nan
    direction[same] = 0.0
    direction[bad] = np.nan
    statistic, df1, df2, pvalue = rao_f(wilks, p, 2 * REPEATS, REPEATS)
    table = {
        **named_pairs(of, first, second),
        "statistic": wilks,
        "f_statistic": statistic,
        **decided(pvalue, alpha),
        "problem": problems(names, singular, bad),
    }
    posthoc = special.fdtrc(2 * REPEATS, REPEATS, f)
    means, directions, pvalues, corrected = (
        pd.DataFrame(x, columns=names) for x in (mean, direction, posthoc, holm(posthoc))
    )
    return FiveByTwoPairs(
        pd.DataFrame(table),
        means,
        directions,
        pvalues,
        corrected,
        (float(df1), float(df2)),
        of,
        names,
        alpha,
    )


Tests = HotellingPairs | FiveByTwoPairs
#: Why two methods cannot be compared over folds.
FEW_SHARED = "they have fewer than two folds in common"
_OTHER_PROTOCOL = (
    "the folds that they have in common came about in another way than those of the other pairs"
)


@dataclass(frozen=True)
class Sharing:
    """Pairs of methods that share the same folds.

    Attributes
    ----------
    members : Positions of the methods that they are made of.
    rows : Positions of the pairs among those of all methods, as ``numpy.triu_indices`` orders them; `inner`: among those of the
        members.
    folds : Which folds both have.
    how : How these came about.
    """  # noqa: E501

    members: Ints
    rows: Ints
    inner: Ints
    folds: Bools
    how: Protocol


@dataclass(frozen=True)
class SharedFolds:
    """The folds of some methods on a dataset.

    Attributes
    ----------
    methods : Those that share at least two folds with another one; `excluded` has the others, and why.
    folds : All folds that any of them has; `whole`, methods x folds: where a method has every value.
    notes : What a reader must know of them.
    """  # noqa: E501

    dataset: str
    methods: list[str]
    folds: list[Hashable]
    whole: Bools
    recorded: Ints
    excluded: tuple[Excluded, ...]
    notes: tuple[str, ...]

    @property
    def by_all(self) -> Bools:
        """Which folds all methods have."""
        return np.asarray(self.whole.all(axis=0))

    @property
    def in_common(self) -> Ints:
        """Pairs: how many folds the two share."""
        first, second = np.triu_indices(len(self.methods), 1)
        counts = self.whole.astype(np.int64) @ self.whole.T.astype(np.int64)
        return counts[first, second]

    def cube(self, frame: pd.DataFrame) -> Array:
        """The values as methods x folds x columns, NaN in the folds where a method lacks one."""
        frame = frame[~frame.index.duplicated()].reindex(
            pd.MultiIndex.from_product([self.methods, self.folds])
        )
        values = frame.to_numpy(dtype=float).reshape(*self.whole.shape, -1)
        return values if self.whole.all() else np.where(self.whole[..., None], values, np.nan)

    def frame(self, values: Array, columns: Sequence[str]) -> pd.DataFrame:
        """Such values as rows by (method, fold), of the folds that a method has."""
        rows = self.whole.ravel()
        index = pd.MultiIndex.from_product([self.methods, self.folds], names=["method", "fold"])
        return pd.DataFrame(values.reshape(len(index), -1), index, list(columns))[rows]

    def sharings(
        self,
        runs: pd.DataFrame,
        kind: str | None = None,
        ratio: float | None = None,
    ) -> tuple[list[Sharing], list[Protocol], list[str]]:
        """The pairs by the folds that they share, those with most folds first; how the folds of
        each method came about; notes.

        `runs`, `kind` and `ratio` are as in `recorded_protocol`. Where no sizes are recorded, folds
        count as a cross-validation of as many folds as the method with fewer has: the wider
        correction.
        """
        keys = np.column_stack([self.whole, self.recorded])
        _, which = np.unique(keys, axis=0, return_inverse=True)
        which = which.ravel()
        classes = [np.flatnonzero(which == k) for k in range(which.max() + 1)]
        hows, notes = self._protocols(classes, runs, kind, ratio)
        row = np.zeros((len(self.methods),) * 2, dtype=np.int64)
        first, second = np.triu_indices(len(self.methods), 1)
        row[first, second] = np.arange(len(first))
        sharings = []
        for i, j in combinations_with_replacement(range(len(classes)), 2):
            members = np.unique(np.concatenate([classes[i], classes[j]]))
            a, b = np.triu_indices(len(members), 1)
            apart = which[members[a]] != which[members[b]]
            inner = np.flatnonzero(apart | (i == j))
            if len(inner):
                folds = self.whole[classes[i][0]] & self.whole[classes[j][0]]
                how = replace(widest([hows[i], hows[j]]), n_folds=int(folds.sum()))
                rows = row[members[a[inner]], members[b[inner]]]
                sharings.append(Sharing(members, rows, inner, folds, how))
        sharings.sort(key=lambda s: (-int(s.folds.sum()), -len(s.rows)))
        return sharings, [hows[k] for k in which], list(dict.fromkeys(notes))

    def _protocols(
        self,
        classes: Sequence[Ints],
        runs: pd.DataFrame,
        kind: str | None,
        ratio: float | None,
    ) -> tuple[list[Protocol], list[str]]:
        """How the folds of each class of methods came about, and notes."""
        recorded = []
        for members in classes:
            here = runs[runs.index.isin(np.array(self.methods, dtype=object)[members])]
            recorded.append(recorded_protocol(here, int(self.recorded[members[0]]), kind, ratio))
        hows = alone = [how for how, _ in recorded]
        if kind is None:
            hows = [self._of_the_whole(k, classes, alone) for k in range(len(classes))]
        notes = []
        for (was, texts), how in zip(recorded, hows, strict=True):
            notes += [text for text in texts if how == was or text != was.caution]
        return hows, _in_different_ways(hows, notes)

    def _of_the_whole(
        self,
        k: int,
        classes: Sequence[Ints],
        hows: Sequence[Protocol],
    ) -> Protocol:
        """How folds came about that look resampled, but are part of another method's
        cross-validation.
        """
        mine = self.whole[classes[k][0]]
        for members, how in zip(classes, hows, strict=True):
            part = (
                (self.whole[members[0]] >= mine).all()
                and hows[k].known
                and hows[k].kind == "resampled"
            )
            if (
                part
                and how.kind == "k-fold"
                and how.known
                and np.isclose(how.ratio or 0.0, hows[k].ratio or 0.0, rtol=0.05)
            ):
                return how
        return hows[k]


def _in_different_ways(hows: Sequence[Protocol], notes: list[str]) -> list[str]:
    """The notes, and that methods differ in how their folds came about, if they do."""
    if len({how.ratio for how in hows}) < 2:
        return notes
    guessed = tuple({how.reason for how in hows if not how.known})
    what = "folds came about in different ways"
    if len(guessed) > 1:
        notes = [text for text in notes if not text.startswith(guessed)]
        what = (
            "sizes of the folds are not recorded: those of each method are taken as one "
            "cross-validation"
        )
    return [*notes, f"The {what}. Each pair takes the wider of its two corrections."]


def shared_folds(frame: pd.DataFrame, dataset: str, asked: Iterable[str] = ()) -> SharedFolds:
    """What the methods of a frame (index: method, fold) share; `asked` are methods that should have
    folds, too.

    Raises
    ------
    IncomparableRunsError
        No two methods share two folds.
    """
    labels = frame.index.get_level_values(1)
    complete = frame.notna().all(axis=1).to_numpy()
    methods = list(dict.fromkeys(frame.index.get_level_values(0)))
    folds = sorted(dict.fromkeys(labels))
    at = pd.Index(methods, tupleize_cols=False)
    where = pd.Index(folds, tupleize_cols=False)
    i = at.get_indexer(frame.index.get_level_values(0))
    j = where.get_indexer(labels)
    whole = np.zeros((len(methods), len(folds)), dtype=bool)
    whole[i, j] = complete
    recorded = np.bincount(i, minlength=len(methods))
    counts = whole.astype(np.int64) @ whole.T.astype(np.int64)
    np.fill_diagonal(counts, 0)
    sharing = counts.max(axis=1, initial=0) >= min(2, len(folds))
    gone = [name for name in asked if name not in set(methods)]
    excluded = [Excluded("method", name, "has no values by fold") for name in gone]
    lacking = {
        methods[k]: _lacks(frame, methods[k], folds, whole[k])
        for k in np.flatnonzero(~whole.all(axis=1))
    }
    if sharing.sum() < 2:
        reasons = {e.name: e.reason for e in excluded} | lacking
        why = "; ".join(f"{name} {reason}" for name, reason in reasons.items())
        got = "1 method" if len(methods) == 1 else "none"
        raise IncomparableRunsError(
            "a test over folds needs two methods that share two folds, got "
            f"{got} on {': '.join(filter(None, [dataset, why]))}."
        )
    few = "and shares fewer than two with each other method"
    for k in np.flatnonzero(~sharing):
        excluded.append(Excluded("method", methods[k], f"{lacking.pop(methods[k])}, {few}"))
    rows = np.flatnonzero(sharing)
    used = np.atleast_1d(whole[rows].any(axis=0))
    notes = []
    if lacking:
        notes.append(
            "Not all methods have the same folds, so each pair is compared on those that both "
            f"have: {some(f'{name} {reason}' for name, reason in lacking.items())}."
        )
    return SharedFolds(
        dataset,
        [methods[k] for k in rows],
        [fold for fold, has in zip(folds, used, strict=True) if has],
        whole[rows][:, used],
        recorded[rows],
        tuple(excluded),
        tuple(notes),
    )


def _lacks(
    frame: pd.DataFrame,
    name: str,
    folds: Sequence[Hashable],
    whole: Bools,
) -> str:
    """Which folds or values a method lacks."""
    rows = frame.loc[name]
    empty = [f"{m} in fold {f}" for (f, m), gap in rows.isna().stack().items() if gap]
    parts = [f"has {len(rows)} of the {len(folds)} folds"] if len(rows) < len(folds) else []
    return " and ".join([*parts, *([f"has no value of {some(empty)}"] if empty else [])])


def over_sharings(
    values: Array,
    sharings: Sequence[Sharing],
    methods: Sequence[str],
    make: Callable[[Array, Protocol, list[str]], Tests | None],
    n_measures: int,
    least: int,
) -> Tests | None:
    """The tests of all pairs, each on the folds that its two methods share.

    `make` tests the pairs of some methods on some folds: the values, how these came about, and the
    methods; None where that test may not be made. Its ValueError is raised for the pairs that share
    most folds; for others it is why they were not tested, as is sharing fewer than `least` folds.
    """
    first, *others = sharings
    if not others:
        return make(values, first.how, list(methods))
    main = make(_part(values, first), first.how, [methods[i] for i in first.members])
    parts: list[tuple[Sharing, Tests | str | None]] = [(first, main)]
    for s in others:
        n = int(s.folds.sum())
        if n < 2:
            parts.append((s, FEW_SHARED))
        elif n < least:
            parts.append(
                (
                    s,
                    f"they have only {n} folds in common, too few to test {n_measures} measures "
                    "together",
                )
            )
        else:
            try:
                tests = make(_part(values, s), s.how, [methods[i] for i in s.members])
            except ValueError as error:
                parts.append((s, str(error).rstrip(".")))
            else:
                parts.append(
                    (
                        s,
                        _OTHER_PROTOCOL
                        if main is not None and tests is not None and type(tests) is not type(main)
                        else tests,
                    )
                )
    return _merged([(s, t) for s, t in parts if t is not None], methods, n_measures)


def _part(values: Array, of: Sharing) -> Array:
    return np.ascontiguousarray(values[of.members][:, of.folds])


def _merged(
    parts: Sequence[tuple[Sharing, Tests | str]],
    methods: Sequence[str],
    p: int,
) -> Tests | None:
    made = [tests for _, tests in parts if not isinstance(tests, str)]
    if not made:
        return None
    like = made[0]
    n = len(methods) * (len(methods) - 1) // 2
    a, b = (np.array(side, dtype=object) for side in zip(*combinations(methods, 2), strict=True))
    columns = {name: np.full(n, np.nan) for name in ("statistic", "f_statistic", "pvalue")}
    problem = np.full(n, "", dtype=object)
    further = ["posthoc_pvalues", "posthoc_corrected"]
    further = ["errors"] if isinstance(like, HotellingPairs) else further
    by_measure = ["differences", "directions", *further]
    tables = dict(zip(by_measure, np.full((len(by_measure), n, p), np.nan), strict=True))
    df = np.full((n, 1), np.nan)
    for s, t in parts:
        if isinstance(t, str):
            problem[s.rows] = t
            continue
        rows = t.table.iloc[s.inner]
        for name, column in (*columns.items(), ("problem", problem)):
            column[s.rows] = rows[name]
        for name, table in tables.items():
            table[s.rows] = getattr(t, name).to_numpy()[s.inner]
        df[s.rows] = getattr(t, "residual_df", np.nan)
    pvalues = decided(columns.pop("pvalue"), like.alpha)
    whole = {"method_a": a, "method_b": b, **columns, **pvalues, "problem": problem}
    changed: dict[str, Any] = {
        name: pd.DataFrame(values, columns=like.measures) for name, values in tables.items()
    }
    if isinstance(like, HotellingPairs):
        left_out = [text for text in like.warnings if text.startswith("Left out")]
        changed |= {"residual_df": df, "warnings": tuple(left_out)}
    return replace(like, table=pd.DataFrame(whole), methods=list(methods), **changed)
