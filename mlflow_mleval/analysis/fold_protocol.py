"""Folds: how they came about, what that means for a test, and which ones two methods share."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from mlflow_mleval.analysis.pairs import checked_ratio, variance_factor
from mlflow_mleval.errors import IncomparableRunsError
from mlflow_mleval.sentences import some
from mlflow_mleval.study import Excluded
from mlflow_mleval.validation import Bools, Ints, one_of

# --------------------------------------------------------------------------------------------------
# How folds came about, what that means for a test, and whether two methods have the same.

PROTOCOLS = ("k-fold", "repeated", "resampled", "5x2", "independent")
#: More folds than this, and it may well be repeated cross-validation.
MANY_FOLDS = 10
UNPAIRED = "the folds of these two are not the same (their split digests differ)"


@dataclass(frozen=True)
class Protocol:
    """How R folds came about: "k-fold", "repeated", "resampled", "5x2" or "independent"; n_test /
    n_train of a fold; whether that is known, and by what."""

    kind: str
    n_folds: int
    ratio: float | None
    known: bool
    reason: str

    @property
    def naive_refused(self) -> str:
        """Why a test that ignores shared training data may not be made; empty where it may."""
        if self.kind in ("k-fold", "independent"):
            return ""
        return (
            f"{self.kind} cross-validation tests the same instances again: the uncorrected test "
            "finds differences where there are none in most cases, and is not made"
        )

    @property
    def headline_ratio(self) -> float | None:
        """What corrects the headline: twice the ratio where folds test the same instances again."""
        return (
            2 * self.ratio if self.ratio and self.kind in ("repeated", "resampled") else self.ratio
        )

    @property
    def caution(self) -> str:
        """How far even the corrected tests err in simulations; empty where they do not."""
        twice = (
            "The folds test the same instances again, so the tests are corrected by twice n_test "
            "/ n_train."
        )
        five = (
            "The F test takes the five repetitions for independent, though they test the same "
            "instances: at α = .05 it told equal learners apart in up to 12% of simulations."
        )
        return {"5x2": five, "repeated": twice, "resampled": twice}.get(self.kind, "")


class Declared(TypedDict, total=False):
    """How folds came about, where that is not recorded: a protocol, and n_test / n_train."""

    protocol: str | None
    ratio: float | None


def protocol_of(
    n_folds: int,
    n_train: ArrayLike | None = None,
    n_test: ArrayLike | None = None,
    *,
    kind: str | None = None,
    ratio: float | None = None,
) -> Protocol:
    """Recognise how folds came about from the sizes of their parts (of each, or of all alike), or
    take what is declared; ValueError where these do not fit."""
    if kind is not None:
        one_of(kind, "protocol", PROTOCOLS)
    given = checked_ratio(ratio)
    if n_train is not None and n_test is not None:
        found = _recognised(n_folds, n_train, n_test)
    else:
        usual = 1 / (n_folds - 1) if n_folds > 1 else None
        reason = f"The sizes of the folds are not recorded: taken as one {n_folds}-fold "
        found = Protocol("k-fold", n_folds, usual, False, f"{reason}cross-validation.")
        if kind is None and given is not None and not np.isclose(given, usual or 0, rtol=0.05):
            reason = f"Taken as resampled for the ratio that was given, {given:.3g}."
            found = Protocol("resampled", n_folds, given, True, reason)
        elif kind in ("repeated", "resampled") and given is None:
            raise ValueError(
                f"`ratio` must be given for {kind} cross-validation of which no sizes are "
                "recorded, got None. It is n_test / n_train: 1/9 for repeated 10-fold "
                "cross-validation."
            )
        found = replace(found, ratio=1.0) if kind == "5x2" else found
    if kind is not None:
        found = replace(found, kind=kind, known=True, reason=f"Declared as {kind}.")
    ratio = found.ratio if given is None else given
    return replace(found, ratio=None if found.kind == "independent" else ratio)


def _recognised(n_folds: int, n_train: ArrayLike, n_test: ArrayLike) -> Protocol:
    """How folds with parts of these sizes came about."""
    sizes = []
    for name, value in (("n_train", n_train), ("n_test", n_test)):
        of_folds = np.atleast_1d(np.asarray(value, dtype=float))
        if of_folds.size not in (1, n_folds) or not (of_folds > 0).all():
            raise ValueError(
                f"`{name}` must hold one positive number, or one for each of the {n_folds} folds, "
                f"got {value!r}."
            )
        sizes.append(np.broadcast_to(of_folds, n_folds))
    train, test = sizes
    exact = np.size(n_train) == np.size(n_test) == n_folds  # else they may be rounded
    total = (train + test).mean()
    covered = float(test.sum() / total)
    repeats = round(covered)
    whole = repeats >= 1 and abs(test.sum() - repeats * total) <= (0.5 if exact else 0.5 * n_folds)
    whole &= n_folds % max(repeats, 1) == 0 and np.ptp(train + test) < 1 + (not exact)
    kind = "resampled"
    if whole and repeats == 1:
        kind = "k-fold"
    elif whole:
        kind = "5x2" if repeats == 5 and n_folds == 10 else "repeated"
    ratio = float(test.sum() / train.sum())
    reason = (
        f"Recognised as {kind}: the folds test {covered:.3g} times as many instances as there are."
    )
    return Protocol(kind, n_folds, ratio, True, reason)


def widest(protocols: Sequence[Protocol]) -> Protocol:
    """The protocol that asks for most caution: repeated before single, the largest ratio."""
    return max(protocols, key=lambda p: (bool(p.naive_refused), p.ratio or 0.0))


def runs_of(runs: pd.DataFrame, dataset: str, methods: Sequence[str]) -> pd.DataFrame:
    """The rows of `Study.runs` of some methods on a dataset, by method."""
    if not {"dataset", "method"} <= {*runs.columns}:
        return pd.DataFrame()
    runs = runs[(runs["dataset"] == dataset) & runs["method"].isin(methods)]
    return runs.drop_duplicates("method", keep="last").set_index("method")


def recorded_protocol(
    runs: pd.DataFrame, n_folds: int, declared: Mapping[str, Any]
) -> tuple[Protocol, list[str]]:
    """How folds came about: as declared, or the most cautious of what runs say; and notes."""
    recorded = runs.reindex(columns=["n_train", "n_test"]).map(
        lambda sizes: tuple(sizes) or None if np.ndim(sizes) else sizes
    )
    sizes = {*recorded.dropna().itertuples(index=False, name=None)} or {(None, None)}
    kind, ratio = declared.get("protocol"), declared.get("ratio")
    ways = [protocol_of(n_folds, *pair, kind=kind, ratio=ratio) for pair in sizes]
    how = widest(ways)
    notes = [] if how.known else [f"{how.reason} Say protocol and ratio if it was another."]
    if len({(p.kind, p.ratio) for p in ways}) > 1:
        notes.append(
            "The methods were trained on parts of different sizes; the widest correction is used "
            f"({how.ratio:.3g})."
        )
    return how, notes


def unpaired(runs: pd.DataFrame, methods: Sequence[str]) -> tuple[Bools | None, list[str]]:
    """Which pairs of methods have folds whose split digests differ (None where none does), in the
    order of ``numpy.triu_indices``; and of how many that is not known."""
    recorded = runs["split_digest"].fillna("").to_dict() if "split_digest" in runs else {}
    digests = np.array([recorded.get(name, "") for name in methods], dtype=object)
    first, second = np.triu_indices(len(methods), 1)
    has_one = digests != ""
    differ = (digests[first] != digests[second]) & has_one[first] & has_one[second]
    notes = []
    if unknown := int((~has_one).sum()):
        notes.append(
            f"How the data were split is unknown for {unknown} of {len(methods)} methods; their "
            "folds are taken as pairs because they have the same numbers."
        )
    return (differ if differ.any() else None), notes


# --------------------------------------------------------------------------------------------------
# Whether the models of the folds disagree more than their test instances explain.
#
# A test on folds sees how results vary between training sets that share most of their instances. A
# learner that chooses one feature or threshold may be tilted the same way in all of them, and no
# test on the folds of one dataset can see that. Where the choice differs between folds, it shows:
# the number of instances predicted positive scatters more than it does for one fixed model. That is
# what is tested here; see examples/studies/simulation_study.md for how often it notices.

COUNTS = ("tp", "fp", "fn", "tn")
#: Less likely scatter than this, under one fixed model, is told.
LEVEL = 0.01


def disagreement(folds: pd.DataFrame, n_test: float | None) -> float | None:
    """How likely it is that fixed models predict numbers of positives that scatter so much between
    folds (index: method, fold); None where counts or sizes are unknown."""
    if not n_test or not {*COUNTS} <= {*folds.columns}:
        return None
    tp, fp, fn, tn = (folds[name].unstack().to_numpy() for name in COUNTS)
    expected, variance = 0.0, 0.0
    for hits, total in ((tp, tp + fn), (fp, fp + tn)):
        of_all = np.maximum(total.sum(axis=1, keepdims=True), 1.0)
        share = hits.sum(axis=1, keepdims=True) / of_all
        expected = expected + share * total
        variance = variance + share * (1 - share) * total
    variance = variance * max((tp + fp + fn + tn).mean() / n_test, 1.0)
    residual = tp + fp - expected
    squares = np.divide(residual**2, variance, out=np.zeros(residual.shape), where=variance > 0)
    return float(special.chdtrc(residual.shape[0] * (residual.shape[1] - 1), squares.sum()))


# --------------------------------------------------------------------------------------------------
# What the values of one method by fold say together: means with intervals.


@dataclass(frozen=True)
class FoldStatistics:
    """Measures of one method over R folds; corrected_ allows for shared training data."""

    table: pd.DataFrame
    n_folds: int
    test_to_train: float
    left_out: list[str]
    warnings: list[str]

    def to_dict(self) -> dict[str, Any]:
        """The same in lists and numbers for JSON; None where a number is not defined."""
        return {
            "n_folds": self.n_folds,
            "test_to_train": self.test_to_train,
            "measures": list(self.table.index),
            **self.table.astype(object).where(np.isfinite(self.table), None).to_dict("list"),
            "left_out": self.left_out,
            "warnings": self.warnings,
        }


def fold_statistics(folds: pd.DataFrame, *, test_to_train: float | None = None) -> FoldStatistics:
    """Means and Student's intervals of one method over folds (R x measures), plain and corrected
    (Nadeau & Bengio 2003), by default for one R-fold cross-validation."""
    n = len(folds)
    if n < 2:
        raise ValueError(
            f"`folds` must have at least two rows, got {n}. One fold tells nothing about others."
        )
    warnings = []
    if test_to_train is None:
        test_to_train = 1 / (n - 1)
        warnings.append(
            f"the intervals take the folds for one {n}-fold cross-validation, for the sizes of "
            "their training parts are not known"
        )
    if not (np.isfinite(test_to_train) and test_to_train > 0):
        raise ValueError(f"`test_to_train` must be positive and finite, got {test_to_train!r}.")
    # by numpy: each run that is logged asks for it, and frames take twenty times as long
    values = folds.to_numpy(float)
    there = ~np.isnan(values).any(axis=0)
    mean, std = values[:, there].mean(axis=0), values[:, there].std(axis=0, ddof=1)
    error = special.stdtrit(n - 1, 1 - 0.05 / 2) * std
    plain, wide = (error * np.sqrt(variance_factor(n, r)) for r in (None, test_to_train))
    columns = {"mean": mean, "std": std, "low": mean - plain, "high": mean + plain}
    columns |= {"corrected_low": mean - wide, "corrected_high": mean + wide}
    table = pd.DataFrame(columns, folds.columns[there])
    left_out = [str(m) for m in folds.columns[~there]]
    return FoldStatistics(table, n, float(test_to_train), left_out, warnings)


# --------------------------------------------------------------------------------------------------
# Which folds two methods share: each pair is compared on those that both have.

#: Why two methods cannot be compared over folds.
FEW_SHARED = "they have fewer than two folds in common"


@dataclass(frozen=True)
class Sharing:
    """Pairs of methods that share the same folds, by their rows in ``numpy.triu_indices``."""

    rows: Ints
    first: Ints
    second: Ints
    folds: Bools
    n: int
    how: Protocol


@dataclass(frozen=True)
class SharedFolds:
    """The folds of some methods on a dataset; `whole` says where a method has every value."""

    methods: list[str]
    folds: list[Hashable]
    whole: Bools
    recorded: Ints
    excluded: tuple[Excluded, ...]
    notes: tuple[str, ...]

    def table(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The values by (method, fold), all folds of all methods; NaN where one is lacking."""
        index = pd.MultiIndex.from_product([self.methods, self.folds], names=["method", "fold"])
        table = frame[~frame.index.duplicated()].reindex(index).astype(float)
        table.loc[~self.whole.ravel()] = np.nan
        return table

    def blocks(
        self, runs: pd.DataFrame, declared: Mapping[str, Any]
    ) -> tuple[list[Protocol], list[Sharing], list[str]]:
        """How the folds of each method came about (all of the kind of who has most, each with its
        own ratio); the pairs by the folds that they share, those with most first; and notes."""
        keys = np.column_stack([self.whole, self.recorded])
        kinds, which = np.unique(keys, axis=0, return_inverse=True)
        which, wholes = which.ravel(), kinds[:, :-1].astype(bool)
        methods = np.array(self.methods, dtype=object)
        found = [
            recorded_protocol(runs[runs.index.isin(methods[which == k])], int(n), declared)
            for k, n in enumerate(kinds[:, -1])
        ]
        most = kinds[:, -1].max()
        main = widest([how for how, _ in found if how.n_folds == most])
        hows = [replace(main, ratio=how.ratio) for how, _ in found]
        notes = [text for _, texts in found for text in texts]
        if len({how.ratio for how in hows}) > 1:
            notes.append("Each pair takes the wider of its methods' two corrections.")
        first, second = np.triu_indices(len(self.methods), 1)
        sides = np.sort([which[first], which[second]], axis=0)
        sharings = []
        for (i, j), alike in pd.DataFrame(sides.T).groupby([0, 1]):
            rows, folds = alike.index.to_numpy(), wholes[i] & wholes[j]
            how = replace(widest([hows[i], hows[j]]), n_folds=int(folds.sum()))
            sharings.append(Sharing(rows, first[rows], second[rows], folds, how.n_folds, how))
        sharings.sort(key=lambda s: (-s.n, -len(s.rows)))
        return [hows[k] for k in which], sharings, list(dict.fromkeys(notes))


def shared_folds(frame: pd.DataFrame, dataset: str, asked: Iterable[str] = ()) -> SharedFolds:
    """What the methods of a frame (index: method, fold) share; `asked` should have folds, too.
    IncomparableRunsError where no two methods share two folds."""
    i, methods = pd.factorize(frame.index.get_level_values(0))
    j, folds = pd.factorize(frame.index.get_level_values(1), sort=True)
    whole = np.zeros((len(methods), len(folds)), dtype=bool)
    whole[i, j] = frame.notna().all(axis=1)
    recorded = np.bincount(i, minlength=len(methods))
    counts = whole.astype(int) @ whole.T
    np.fill_diagonal(counts, 0)
    sharing = counts.max(axis=1, initial=0) >= min(2, len(folds))
    excluded = {name: "has no values by fold" for name in asked if name not in methods}
    lacking = {}
    for k in np.flatnonzero(~whole.all(axis=1)):
        lacking[methods[k]] = f"has all values of {whole[k].sum()} of the {len(folds)} folds"
    if sharing.sum() < 2:
        who = some(f"{name} {reason}" for name, reason in (excluded | lacking).items())
        raise IncomparableRunsError(
            f"a test over folds needs two methods that share two folds on {dataset}, got "
            f"{some(methods)}{f' ({who})' if who else ''}."
        )
    for name in methods[~sharing]:
        reason = lacking.pop(name)
        excluded[name] = f"{reason}, and shares fewer than two with each other method"
    notes = []
    if lacking:
        notes.append(
            "Not all methods have the same folds, so each pair is compared on those that both "
            f"have: {some(f'{name} {reason}' for name, reason in lacking.items())}."
        )
    used = whole[sharing].any(axis=0)
    return SharedFolds(
        methods[sharing].tolist(),
        folds[used].tolist(),
        whole[sharing][:, used],
        recorded[sharing],
        tuple(Excluded("method", name, reason) for name, reason in excluded.items()),
        tuple(notes),
    )
