"""Folds: how they came about, what that means for a test over them, what those of one method say
together, and which ones two methods share.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations_with_replacement
from typing import Any, TypedDict

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from mlflow_mleval.analysis.folds.covariance import MardiaResult, checked_ratio, mardia
from mlflow_mleval.analysis.folds.hotelling import FoldTests
from mlflow_mleval.analysis.pairs import decided, mean_intervals, named_pairs
from mlflow_mleval.errors import IncomparableRunsError
from mlflow_mleval.sentences import some
from mlflow_mleval.study import Excluded
from mlflow_mleval.validation import AnyArray, Array, Bools, Ints, one_of, probability

# --------------------------------------------------------------------------------------------------
# How the folds of runs came about, what that means for a test over them, and whether those of two
# methods are the same.

PROTOCOLS = ("k-fold", "repeated", "resampled", "5x2", "independent")
#: More folds than this, and it may well be repeated cross-validation.
MANY_FOLDS = 10
UNPAIRED = "the folds of these two are not the same (their split digests differ)"


@dataclass(frozen=True)
class Protocol:
    """How R folds came about.

    Attributes
    ----------
    kind : "k-fold", one cross-validation; "repeated", several with new splits; "resampled", random splits (or training sets of
        other sizes); "5x2", five times twofold; or "independent", training sets without anything in
        common.
    ratio : n_test / n_train of a fold, which corrects the tests; None for independent folds.
    known : False where it was assumed, for nothing was recorded.
    reason : What it was recognised by, in a sentence.
    """  # noqa: E501

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
        """The ratio that corrects the headline tests: twice n_test / n_train where folds test the
        same instances again.
        """
        return (
            2 * self.ratio if self.ratio and self.kind in ("repeated", "resampled") else self.ratio
        )

    @property
    def caution(self) -> str:
        """How far even the corrected tests err in simulations, and what helps; empty where they do
        not.
        """
        if self.kind in ("k-fold", "independent"):
            return ""
        if self.kind == "5x2":
            return (
                "The F test takes the five repetitions for independent, though they test the "
                "same instances: at α = .05 it told equal learners apart in up to 11% of "
                "simulations (4% with two measures together)."
            )
        return (
            "The folds test the same instances again, so the tests are corrected by twice n_test "
            "/ n_train: with the plain ratio they told equal learners apart in up to 11% of "
            "simulations with nearest neighbours at α = .05, and with twice the ratio in less "
            "than 5%."
        )


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
    """Recognise how folds came about from the sizes of their parts (of each fold, or of all alike),
    or take what is declared.

    ValueError for an unknown kind, one whose ratio is not known, or sizes that do not fit the
    number of folds.

    >>> protocol_of(10, 90, 10).kind, protocol_of(30, 90, 10).kind, protocol_of(10, 50, 50).kind, protocol_of(10, 70, 30).kind
    ('k-fold', 'repeated', '5x2', 'resampled')
    >>> protocol_of(10).known
    False
    """  # noqa: E501
    if kind is not None:
        one_of(kind, "protocol", PROTOCOLS)
    given = checked_ratio(ratio)
    known_ratio: float | None
    if is_known := n_train is not None and n_test is not None:
        recognised, known_ratio, reason = _recognise(*_sizes(n_folds, n_train, n_test))
    else:
        recognised = "k-fold"
        known_ratio = 1 / (n_folds - 1) if n_folds > 1 else None
        reason = (
            f"The sizes of the folds are not recorded: taken as one {n_folds}-fold "
            "cross-validation."
        )
        if (
            kind is None
            and given is not None
            and not np.isclose(given, known_ratio or 0, rtol=0.05)
        ):
            recognised = "resampled"
            is_known = True
            reason = f"Taken as resampled for the ratio that was given, {given:.3g}."
        if kind in ("repeated", "resampled") and given is None:
            raise ValueError(
                f"`ratio` must be given for {kind} cross-validation of which no sizes are "
                "recorded, got None. It is n_test / n_train: 1/9 for repeated 10-fold "
                "cross-validation."
            )
        known_ratio = 1.0 if kind == "5x2" else known_ratio
    if kind is not None:
        recognised = kind
        is_known = True
        reason = f"Declared as {kind}."
    ratio = None if recognised == "independent" else known_ratio if given is None else given
    return Protocol(recognised, n_folds, ratio, is_known, reason)


def _sizes(
    n_folds: int,
    n_train: ArrayLike,
    n_test: ArrayLike,
) -> tuple[AnyArray, AnyArray, bool]:
    parts = []
    for name, value in (("n_train", n_train), ("n_test", n_test)):
        sizes = np.atleast_1d(np.asarray(value, dtype=float))
        if sizes.size not in (1, n_folds) or not (sizes > 0).all():
            raise ValueError(
                f"`{name}` must hold one positive number, or one for each of the {n_folds} "
                f"folds, got {value!r}."
            )
        parts.append(np.broadcast_to(sizes, n_folds))
    return parts[0], parts[1], np.size(n_train) == np.size(n_test) == n_folds


def _recognise(train: AnyArray, test: AnyArray, exact: bool) -> tuple[str, float, str]:
    """Kind, n_test / n_train and the reason; `exact`: the sizes of every fold are known, not only
    rounded ones.
    """
    n_folds = len(test)
    total = (train + test).mean()
    ratio = float(test.sum() / train.sum())
    covered = float(test.sum() / total)
    repeats = round(covered)
    whole = repeats >= 1 and abs(test.sum() - repeats * total) <= (0.5 if exact else 0.5 * n_folds)
    whole &= n_folds % max(repeats, 1) == 0 and np.ptp(train + test) < 1 + (not exact)
    looks = f"{n_folds} folds that test {covered:.3g} times as many instances as there are"
    if not whole:
        return "resampled", ratio, f"Recognised as resampled: {looks}."
    if repeats == 1:
        return (
            "k-fold",
            ratio,
            f"Recognised as {n_folds}-fold cross-validation: every instance is tested once.",
        )
    if repeats == 5 and n_folds == 10:
        return (
            "5x2",
            ratio,
            "Recognised as five times twofold cross-validation (if ten random halves: declare "
            "'resampled').",
        )
    return (
        "repeated",
        ratio,
        f"Recognised as repeated {n_folds // repeats}-fold cross-validation: {looks}.",
    )


def widest(protocols: Sequence[Protocol]) -> Protocol:
    """The protocol that asks for most caution: the one with the largest ratio, repeated before
    single.
    """
    return max(protocols, key=lambda p: (bool(p.naive_refused), p.ratio or 0.0))


def runs_of(runs: pd.DataFrame, dataset: str, methods: Sequence[str]) -> pd.DataFrame:
    """The rows of `Study.runs` of some methods on a dataset, by method; without rows where nothing
    is known.
    """
    if not {"dataset", "method"} <= {*runs.columns}:
        return pd.DataFrame()
    runs = runs[(runs["dataset"] == dataset) & runs["method"].isin(methods)]
    return runs.drop_duplicates("method", keep="last").set_index("method")


def recorded_protocol(
    runs: pd.DataFrame,
    n_folds: int,
    kind: str | None = None,
    ratio: float | None = None,
) -> tuple[Protocol, list[str]]:
    """How the folds came about: the most cautious of what the runs say, or what was declared; and
    notes.

    `runs` are as `runs_of` returns them, `kind` and `ratio` as in `protocol_of`. The notes tell
    what is not known, and where methods differ.

    >>> runs = pd.DataFrame({"n_train": [90, 80], "n_test": [10, 20]}, index=["BR", "CC"])
    >>> how, notes = recorded_protocol(runs, 10)
    >>> how.ratio, notes[-1]
    (0.25, 'The methods were trained on parts of different sizes; the widest correction is used (0.25).')
    """  # noqa: E501
    sizes: set[tuple[Any, ...]] = {(None, None)}
    if {"n_train", "n_test"} <= {*runs.columns}:
        recorded = {
            tuple(_frozen(v) for v in row)
            for row in runs[["n_train", "n_test"]].itertuples(index=False)
        }
        sizes = {pair for pair in recorded if None not in pair} or sizes
    ways = [protocol_of(n_folds, *pair, kind=kind, ratio=ratio) for pair in sizes]
    how = widest(ways)
    notes = [] if how.known else [f"{how.reason} Say protocol and ratio if it was another."]
    notes += [how.caution] if how.caution else []
    if len({(p.kind, p.ratio) for p in ways}) > 1:
        notes.append(
            "The methods were trained on parts of different sizes; the widest correction is used "
            f"({how.ratio:.3g})."
        )
    return how, notes


def unpaired(
    runs: pd.DataFrame,
    methods: Sequence[str],
) -> tuple[Bools | None, list[str]]:
    """Which pairs of methods have folds that are known to differ, for their split digests do; and
    of how many it is not known.

    `runs` are as `runs_of` returns them; pairs are in the order of
    ``numpy.triu_indices(len(methods), 1)``, None where none differs.

    >>> runs = pd.DataFrame({"split_digest": ["x", "x", "y"]}, index=["BR", "CC", "LP"])
    >>> unpaired(runs, ["BR", "CC", "LP"])[0].tolist()
    [False, True, True]
    """
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


def _frozen(sizes: object) -> object:
    """Sizes as something that can be compared: a number, a tuple, or None for what is missing or
    empty.
    """
    if isinstance(sizes, (list, tuple, np.ndarray)):
        return tuple(sizes) or None
    return None if pd.isna(sizes) else sizes


# --------------------------------------------------------------------------------------------------
# Whether the models of the folds disagree more than their test instances explain, as those of
# learners that choose do.
#
# A test on folds sees how results vary between training sets that share most of their instances. A
# learner that chooses one feature or threshold may be tilted the same way in all of them, and no
# test on the folds of one dataset can see that. Where the choice differs between folds, it shows:
# the number of instances predicted positive, or a mean over instances, scatters more than it does
# for one fixed model. That is what is tested here; see
# examples/studies/simulation_study.md for how often it notices.

COUNTS = ("tp", "fp", "fn", "tn")
#: Means over instances of values in [0, 1]: their variance over folds of one fixed model is at most
#: mean (1 - mean) / n_test.
MEANS = (
    "accuracy",
    "precision",
    "recall",
    "f1",
    "subset_accuracy",
    "hamming_loss",
    "one_error",
    "top1_accuracy",
)
#: Less likely scatter than this, under one fixed model, is told.
LEVEL = 0.01


def disagreement(folds: pd.DataFrame, n_test: float | None) -> tuple[str, float] | None:
    """What scatters most between folds (index: method, fold), and how likely that is under fixed
    models; None where unknown.

    With tp, fp, fn and tn the number of predicted positives, given how many are positive; of
    several labels, decisions of an instance count as one, which errs towards silence. Else means
    over instances.
    """
    if not n_test:
        return None
    if {*COUNTS} <= {*folds.columns}:
        tp, fp, fn, tn = (folds[name].unstack().to_numpy() for name in COUNTS)
        positive = tp + fn
        negative = fp + tn
        rates = [_share(hit, of) for hit, of in ((tp, positive), (fp, negative))]
        expected = rates[0] * positive + rates[1] * negative
        labels = max((positive + negative).mean() / n_test, 1.0)
        variance = labels * (
            rates[0] * (1 - rates[0]) * positive + rates[1] * (1 - rates[1]) * negative
        )
        return "the number of predicted positives", _tail(tp + fp - expected, variance)
    by_measure = {}
    for name in (name for name in MEANS if name in folds):
        values = folds[name].unstack().to_numpy()
        mean = values.mean(axis=1, keepdims=True)
        by_measure[name] = _tail(
            values - mean, np.broadcast_to(mean * (1 - mean) / n_test, values.shape)
        )
    if not by_measure:
        return None
    least = min(by_measure, key=by_measure.__getitem__)
    return least, min(1.0, by_measure[least] * len(by_measure))


def _share(hits: Array, of: Array) -> Array:
    total = of.sum(axis=1, keepdims=True)
    return np.divide(
        hits.sum(axis=1, keepdims=True),
        total,
        out=np.zeros_like(total, dtype=float),
        where=total > 0,
    )


def _tail(residual: Array, variance: Array) -> float:
    """The p-value of squares in units of their variance, methods x folds."""
    squares = np.divide(residual**2, variance, out=np.zeros(residual.shape), where=variance > 0)
    return float(special.chdtrc(residual.shape[0] * (residual.shape[1] - 1), squares.sum()))


# --------------------------------------------------------------------------------------------------
# What the values of one method by fold say together: means with intervals, covariance, correlation.

#: Measures whose joint distribution is tested: with more of them, or with each other's harmonic
#: mean, few folds tell nothing.
_PAIRS = (
    ("micro_precision", "micro_recall"),
    ("h_precision", "h_recall"),
    ("lca_precision", "lca_recall"),
)


@dataclass(frozen=True)
class FoldStatistics:
    """Several measures of one method over R folds.

    Attributes
    ----------
    table : One row a measure: ``mean``, ``std`` (R - 1 in the denominator), ``low`` and ``high`` of the interval of the mean, and
        ``corrected_low`` and ``corrected_high``, which allow for training data that the folds
        share; ``low`` and ``high`` do not, and are too narrow for cross-validation.
    covariance, correlation : Of the measures over folds; the correlation is NaN where a measure is constant.
    n_folds : R.
    confidence : Of the intervals.
    test_to_train : Ratio of the sizes of test and training part that the corrected intervals use.
    left_out : Measures without a value in some fold.
    warnings : What a reader of the intervals must know.
    mardia : Test of multivariate normality of two measures, as many as a few folds can bear; its warnings say how little that
        tells.
    no_mardia : Why there is none.
    """  # noqa: E501

    table: pd.DataFrame
    covariance: pd.DataFrame
    correlation: pd.DataFrame
    n_folds: int
    confidence: float
    test_to_train: float
    left_out: tuple[str, ...]
    warnings: tuple[str, ...]
    mardia: MardiaResult | None
    no_mardia: str

    def to_dict(self) -> dict[str, Any]:
        """The same in lists and numbers for JSON; None where a number is not defined."""
        measures = list(self.table.index)
        return {
            "n_folds": self.n_folds,
            "confidence": self.confidence,
            "test_to_train": self.test_to_train,
            "measures": measures,
            **{name: _list(self.table[name]) for name in self.table},
            "covariance": [_list(row) for row in self.covariance.to_numpy()],
            "correlation": [_list(row) for row in self.correlation.to_numpy()],
            "left_out": list(self.left_out),
            "warnings": list(self.warnings),
            "mardia": {"not_made": self.no_mardia}
            if self.mardia is None
            else _plain(asdict(self.mardia)),
        }


def fold_statistics(
    folds: pd.DataFrame,
    *,
    test_to_train: float | None = None,
    confidence: float = 0.95,
) -> FoldStatistics:
    """Mean vector, covariance, correlation and intervals of the measures of one method over folds
    (R x measures, R >= 2).

    The intervals are those of Student's t with R - 1 degrees of freedom. The corrected ones
    multiply the variance of the mean by 1 + R * test_to_train (Nadeau & Bengio 2003), because
    training parts overlap; by default that is 1 / (R - 1), which is right for one R-fold
    cross-validation.
    """
    probability(confidence, "confidence")
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
    whole = folds.loc[:, folds.notna().all()].astype(float)
    left_out = tuple(str(m) for m in folds.columns if m not in whole)
    table = mean_intervals(whole, 1 - confidence)
    table.insert(1, "std", whole.std())
    table[["corrected_low", "corrected_high"]] = mean_intervals(
        whole, 1 - confidence, test_to_train
    )[["low", "high"]]
    varying = table["std"] > 0
    correlation = whole.corr().where(np.outer(varying, varying))
    return FoldStatistics(
        table,
        whole.cov(),
        correlation,
        n,
        confidence,
        float(test_to_train),
        left_out,
        tuple(warnings),
        *_mardia(whole),
    )


def _mardia(folds: pd.DataFrame) -> tuple[MardiaResult | None, str]:
    """Mardia's test of the first pair of measures that the folds have, or why it was not made."""
    pair = next((list(pair) for pair in _PAIRS if set(pair) <= set(folds)), list(folds.columns[:2]))
    try:
        return mardia(folds[pair].to_numpy(), measures=pair), ""
    except ValueError as error:
        return None, str(error)


def _plain(value: Any) -> Any:
    """Numbers that JSON lacks as None, tuples as lists."""
    if isinstance(value, dict):
        return {str(key): _plain(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, (float, np.floating)):
        return _list([value])[0]
    return int(value) if isinstance(value, np.integer) else value


def _list(values: Any) -> list[float | None]:
    return [float(v) if np.isfinite(v) else None for v in np.asarray(values, dtype=float)]


# --------------------------------------------------------------------------------------------------
# Which folds two methods share: each pair is compared on those that both have, and no method is
# lost for lacking some.

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
