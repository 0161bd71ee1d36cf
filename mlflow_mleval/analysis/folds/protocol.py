"""Folds: how they came about, what that means for a test over them, and what those of one method
say together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypedDict

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from mlflow_mleval.analysis.folds.covariance import MardiaResult, checked_ratio, mardia
from mlflow_mleval.analysis.pairs import mean_intervals
from mlflow_mleval.validation import AnyArray, Array, Bools, one_of, probability

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
