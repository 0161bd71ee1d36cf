"""Which folds two methods share: each pair is compared on those that both have, and no method is
lost for lacking some.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.folds.hotelling import FoldTests
from mlflow_mleval.analysis.folds.protocol import Protocol, recorded_protocol, widest
from mlflow_mleval.analysis.pairs import decided, named_pairs
from mlflow_mleval.errors import IncomparableRunsError
from mlflow_mleval.sentences import some
from mlflow_mleval.study import Excluded
from mlflow_mleval.validation import Array, Bools, Ints

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
    make: Callable[[Array, Protocol, list[str]], FoldTests],
    n_measures: int,
    least: int,
) -> FoldTests:
    """The tests of all pairs, each on the folds that its two methods share.

    `make` tests the pairs of some methods on some folds: the values, how these came about, and the
    methods. Its ValueError is raised for the pairs that share most folds; for others it is why they
    were not tested, as is sharing fewer than `least` folds.
    """

    def tests_of(s: Sharing) -> FoldTests:
        part = np.ascontiguousarray(values[s.members][:, s.folds])
        return make(part, s.how, [methods[i] for i in s.members])

    def tests_or_reason(s: Sharing) -> FoldTests | str:
        n_folds = int(s.folds.sum())
        if n_folds < 2:
            return FEW_SHARED
        if n_folds < least:
            together = f"{n_measures} measures together"
            return f"they have only {n_folds} folds in common, too few to test {together}"
        try:
            made = tests_of(s)
        except ValueError as error:
            return str(error).rstrip(".")
        return made if made.test == main.test else _OTHER_PROTOCOL

    first, *others = sharings
    main = make(values, first.how, list(methods)) if not others else tests_of(first)
    if not others:
        return main
    n = len(methods) * (len(methods) - 1) // 2
    a, b = np.triu_indices(len(methods), 1)
    numbers = {name: np.full(n, np.nan) for name in ("statistic", "f_statistic", "pvalue")}
    problem = np.full(n, "", dtype=object)
    tables = {
        name: np.full((n, len(main.measures)), np.nan)
        for name in ("differences", "directions", "posthoc_pvalues", "errors")
    }
    residual_df = np.full((n, 1), np.nan)
    for s in sharings:
        made: FoldTests | str = main if s is first else tests_or_reason(s)
        if isinstance(made, str):
            problem[s.rows] = made
            continue
        rows = made.table.iloc[s.inner]
        problem[s.rows] = rows["problem"]
        residual_df[s.rows] = made.residual_df
        for name, column in numbers.items():
            column[s.rows] = rows[name]
        for name, table in tables.items():
            table[s.rows] = getattr(made, name).to_numpy()[s.inner]
    whole = {
        **named_pairs(methods, a, b),
        **numbers,
        **decided(numbers["pvalue"], main.alpha),
        "problem": problem,
    }
    return replace(
        main,
        table=pd.DataFrame(whole),
        methods=list(methods),
        residual_df=residual_df,
        warnings=tuple(text for text in main.warnings if text.startswith("Left out")),
        **{name: pd.DataFrame(table, columns=main.measures) for name, table in tables.items()},
    )
