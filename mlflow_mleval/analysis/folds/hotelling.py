"""Two methods over folds on several measures at once: Hotelling's paired T-squared and the combined
5x2 cv test, for one pair or all pairs of many methods.

Yıldız & Alpaydın (2014), "Multivariate comparison of classification algorithms"; Rencher (1995),
"Methods of multivariate analysis"; Nadeau & Bengio (2003), "Inference for the generalization
error", for folds that share training data; Alpaydın (1999), "Combined 5x2 cv F test for comparing
supervised classification learning classifiers", and Dietterich (1998).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from mlflow_mleval.analysis.folds import covariance as cov
from mlflow_mleval.analysis.folds.covariance import NOISE
from mlflow_mleval.analysis.pairs import decided, holm, named_pairs
from mlflow_mleval.analysis.resampling import length_pvalue
from mlflow_mleval.sentences import count
from mlflow_mleval.validation import Array, one_of, probability, same_axes

METHODS = ("f", "permutation")
#: Random swaps of the permutation test, which goes through all of them up to 17 folds.
SWAPS = 100_000
#: Pairs of methods that are handled together: their folds fit the cache.
BLOCK = 2048
#: Of twofold cross-validation in the combined 5x2 cv test.
REPEATS = 5


@dataclass(frozen=True)
class HotellingResult:
    """Hotelling's T-squared test of two methods.

    Attributes
    ----------
    statistic : T-squared; with `ratio` divided by 1 + folds · ratio.
    f_statistic, df : The same as an F, and its degrees of freedom.
    mean_difference : By measure: mean of the first method minus that of the second.
    direction : Weights of the combination of measures on which the methods differ most, per unit of each measure.
    scaled_direction : The same per standard deviation of each measure's differences: comparable between measures.
    posthoc : By measure: mean_difference, low and high (its interval at 1 - alpha, not corrected), statistic (Student's t),
        pvalue, pvalue_corrected (Holm, over measures), significant.
    measures : That were tested; `dropped` maps those that were left out to the reason.
    n_folds : Of either method.
    ratio : n_test / n_train that corrects for shared training data; None: not corrected.
    method : "f" or "permutation".
    """  # noqa: E501

    statistic: float
    f_statistic: float
    df: tuple[int, int]
    pvalue: float
    mean_difference: pd.Series
    direction: pd.Series
    scaled_direction: pd.Series
    posthoc: pd.DataFrame
    measures: list[Hashable]
    dropped: dict[Hashable, str]
    n_folds: tuple[int, int]
    paired: bool
    ratio: float | None
    method: str
    alpha: float
    warnings: tuple[str, ...] = ()


def hotelling(
    x1: ArrayLike | pd.DataFrame,
    x2: ArrayLike | pd.DataFrame,
    *,
    measures: Sequence[Hashable] | None = None,
    ratio: float | None = None,
    paired: bool = True,
    dependent: str = "error",
    method: str = "f",
    alpha: float = 0.05,
    seed: int = 0,
) -> HotellingResult:
    r"""Test whether two methods differ in the mean of any measure or combination of measures over
    folds.

    With the differences :math:`d_j = x_{1j} - x_{2j}` on folds j = 1 .. R, their mean :math:`\bar
    d` and covariance :math:`S_d`, :math:`T^2 = R\,\bar d^T S_d^{-1} \bar d` and
    :math:`\frac{R-p}{p(R-1)} T^2 \sim F(p, R-p)` (Yıldız & Alpaydın 2014, eq. 1). With one measure
    this is the paired t test, :math:`T^2 = t^2`. The direction of the largest difference is
    :math:`S_d^{-1}\bar d` (eq. 2).

    Folds of cross-validation share training data, so that this test rejects too often. Nadeau &
    Bengio's (2003) variance of the mean, :math:`(1/R + n_{test}/n_{train}) S_d` in place of
    :math:`S_d / R`, divides :math:`T^2` by :math:`1 + R \cdot ratio`; it is exact where all folds
    correlate by n_test / (n_test + n_train).

    Parameters
    ----------
    x1, x2 : array_like or pandas.DataFrame, shape (folds, measures)
        Values of either method, in the same order of folds.
    measures : sequence, optional
        Names; those of the columns of a DataFrame by default.
    ratio : float, optional
        n_test / n_train of a fold: 1/9 in 10-fold cross-validation, also when repeated. None or 0:
        folds are independent.
    paired : bool
        False: the folds of both methods are not the same; two-sample test with the pooled
        covariance. Less powerful.
    dependent : {"error", "drop"}
        What to do about measures that follow linearly from those before them (tp + fn is fixed,
        say).
    method : {"f", "permutation"}
        "permutation": p-value by swapping the methods fold by fold (paired only), all 2^R swaps up
        to 17 folds, 100,000 random ones beyond. It needs no normal distribution, but cannot be
        combined with `ratio`.
    alpha : float
        Level for the post hoc tests and `significant`.
    seed : int
        Of random swaps.

    Raises
    ------
    ValueError
        Shapes differ, values are missing, folds are too few (it takes more folds than measures), or
        measures are linearly dependent: they are named.

    Examples
    --------
    >>> a = pd.DataFrame({"precision": [0.80, 0.82, 0.79, 0.85, 0.81, 0.83], "recall": [0.60, 0.59, 0.62, 0.63, 0.58, 0.61]})
    >>> b = pd.DataFrame({"precision": [0.78, 0.79, 0.78, 0.81, 0.80, 0.79], "recall": [0.61, 0.62, 0.63, 0.63, 0.61, 0.63]})
    >>> result = hotelling(a, b, ratio=1 / 5)
    >>> round(result.statistic, 3), result.df, round(result.pvalue, 4)
    (18.459, (2, 4), 0.0454)
    >>> result.posthoc["pvalue_corrected"].round(4).tolist()
    [0.0605, 0.0722]
    """  # noqa: E501
    one_of(dependent, "dependent", cov.DEPENDENT)
    one_of(method, "method", METHODS)
    probability(alpha, "alpha")
    ratio = cov.checked_ratio(ratio)
    first = cov.table_of(x1, "x1", 2)
    second = cov.table_of(x2, "x2", 2)
    same_axes(x1, "x1", x2, "x2") if paired else None
    names = cov.names_of(measures, x1, "measures", first.shape[1])
    _check_shapes(first, second, paired)
    if method == "permutation" and (ratio or not paired):
        raise ValueError(
            "`method` must be 'f' with `ratio` or unpaired folds, got 'permutation'. Swapping "
            "the methods within folds needs the same folds, and these independent."
        )
    size = np.maximum(np.abs(first).max(axis=0), np.abs(second).max(axis=0))
    mean, residuals, df, spread = _differences(first, second, paired, ratio)
    warnings: list[str] = []
    dropped: dict[Hashable, str] = {}
    what = "differences" if paired else "values"
    if (mean != 0).any() or (np.abs(residuals) > NOISE * size).any():
        independent, dropped = cov.independent_columns(
            residuals,
            names,
            size,
            df,
            dependent,
            f"their {what} over folds",
            mean,
        )
        warnings += cov.left_out(dropped)
    else:
        independent = list(range(len(names)))
        warnings.append(
            "Both methods have the same values in every fold: there is nothing to test, and p is "
            "1 by convention."
        )
    p = len(independent)
    names = [names[k] for k in independent]
    if df < p:
        raise ValueError(_too_few("x1", len(first), p, df, paired))
    mean = mean[independent]
    residuals = residuals[:, independent]
    size = size[independent]
    quadratic, direction, _ = cov.solve_pairs(
        residuals.T[..., None].copy(), mean[:, None].copy(), size[:, None]
    )
    t2 = quadratic.item() * df / spread
    direction = direction[:, 0] * df
    f, pvalue = t2_pvalue(t2, p, df)
    if method == "permutation":
        pvalue = _swap_pvalue(first[:, independent] - second[:, independent], seed)
    deviation = np.sqrt((residuals**2).sum(axis=0) / df)
    if len(warnings) == 0 and df - p < 2:
        warnings.append(
            f"{p} measures on {len(first)} folds: the test sees hardly anything. Use fewer "
            "measures or more folds."
        )
    return HotellingResult(
        statistic=t2,
        f_statistic=f,
        df=(p, df - p + 1),
        pvalue=float(pvalue),
        mean_difference=pd.Series(mean, names, name="mean_difference"),
        direction=pd.Series(direction, names, name="direction"),
        scaled_direction=pd.Series(direction * deviation, names, name="scaled_direction"),
        posthoc=_posthoc(mean, deviation * np.sqrt(spread), df, names, alpha),
        measures=names,
        dropped=dropped,
        n_folds=(len(first), len(second)),
        paired=paired,
        ratio=ratio,
        method=method,
        alpha=alpha,
        warnings=tuple(warnings),
    )


@dataclass(frozen=True)
class FoldTests:
    """Tests of every pair of methods over folds, on several measures together.

    Attributes
    ----------
    test : "T²" (Hotelling's) or "5x2" (the combined 5x2 cv test).
    table : One row a pair: method_a, method_b, statistic (T²; 5x2: Wilks' lambda), f_statistic, pvalue, pvalue_corrected (Holm,
        over the pairs that could be tested), significant, problem (why the pair could not be
        tested, else empty; its numbers are then NaN).
    differences, directions : Pairs x measures, rows as in `table`: mean of a minus mean of b; weights of the combination on which
        they differ most.
    posthoc_pvalues : Pairs x measures: Student's t tests (5x2: Alpaydın's F test) of each measure, not corrected; NaN where
        neither value varies but the means differ.
    errors : Pairs x measures: standard errors of the mean differences; NaN for 5x2.
    df, residual_df : Degrees of freedom of the F; of the covariances, and of Student's t. Where pairs were tested on different
        folds, `df` is that of the pairs with most folds, and `residual_df` has one a pair.
    methods, measures : That were tested; `dropped` maps measures that were left out to the reason.
    """  # noqa: E501

    test: str
    table: pd.DataFrame
    differences: pd.DataFrame
    directions: pd.DataFrame
    posthoc_pvalues: pd.DataFrame
    errors: pd.DataFrame
    df: tuple[float, float]
    residual_df: float | Array
    methods: list[Hashable]
    measures: list[Hashable]
    alpha: float
    dropped: dict[Hashable, str] = field(default_factory=dict)
    paired: bool = True
    ratio: float | None = None
    warnings: tuple[str, ...] = ()

    @property
    def posthoc_corrected(self) -> pd.DataFrame:
        """`posthoc_pvalues` with Holm's correction over the measures of a pair: where a difference
        sits.
        """
        return pd.DataFrame(holm(self.posthoc_pvalues.to_numpy()), columns=self.measures)


def hotelling_pairs(
    x: ArrayLike,
    *,
    methods: Sequence[Hashable] | None = None,
    measures: Sequence[Hashable] | None = None,
    ratio: float | None = None,
    paired: bool = True,
    dependent: str = "error",
    alpha: float = 0.05,
) -> FoldTests:
    """`hotelling` for every pair of methods, all at once.

    Parameters
    ----------
    x : array_like, shape (methods, folds, measures)
    methods, measures : sequence, optional
        Names; numbers by default.
    ratio, paired, dependent, alpha
        As in `hotelling`. All pairs are tested on the same measures: one is dependent if it is so
        over all methods. A pair of which the differences alone are singular cannot be tested, and
        its row says so.

    Raises
    ------
    ValueError
        As `hotelling`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(3, 10, 2)) + np.array([[0, 0], [0, 0], [3, -3]])[:, None]
    >>> pairs = hotelling_pairs(x, methods=["a", "b", "c"], ratio=1 / 9)
    >>> pairs.table["significant"].tolist()
    [False, True, True]
    """
    one_of(dependent, "dependent", cov.DEPENDENT)
    probability(alpha, "alpha")
    ratio = cov.checked_ratio(ratio)
    values = cov.table_of(x, "x", 3)
    of = cov.names_of(methods, None, "methods", len(values))
    names = cov.names_of(measures, None, "measures", values.shape[-1])
    n_folds = values.shape[1]
    if len(values) < 2:
        raise ValueError(f"`x` must hold at least two methods, got {len(values)}.")
    if n_folds < 2:
        raise ValueError(_too_few("x", n_folds, len(names), 0, paired))
    centred = values - values.mean(axis=1, keepdims=True)
    means = values.mean(axis=1)
    samples = 1 if paired else 2
    df = samples * (n_folds - 1)
    spread = samples * cov.variance_factor(n_folds, ratio)
    pooled = (centred - centred.mean(axis=0) if paired else centred).reshape(-1, len(names))
    pooled_df = (len(values) - paired) * (n_folds - 1)
    independent, dropped = cov.independent_columns(
        pooled,
        names,
        np.abs(values).max(axis=(0, 1)),
        pooled_df,
        dependent,
        cov.LEFT,
        means - means.mean(axis=0),
    )
    names = [names[k] for k in independent]
    p = len(independent)
    if df < p:
        raise ValueError(_too_few("x", n_folds, p, df, paired))
    folds = np.ascontiguousarray(centred[..., independent].transpose(2, 1, 0))
    means = np.ascontiguousarray(means[:, independent].T)
    size = np.abs(values[..., independent]).max(axis=1).T
    first, second = np.triu_indices(len(values), 1)
    n = len(first)
    difference = np.empty((p, n))
    direction = np.empty((p, n))
    error = np.empty((p, n))
    quadratic = np.empty(n)
    singular = np.empty(n, dtype=np.int64)
    for start in range(0, n, BLOCK):
        at = slice(start, start + BLOCK)
        a = first[at]
        b = second[at]
        one = folds.take(a, axis=2)
        other = folds.take(b, axis=2)
        residuals = one - other if paired else np.concatenate([one, other], axis=1)
        difference[:, at] = means[:, a] - means[:, b]
        error[:, at] = np.einsum("krn,krn->kn", residuals, residuals)
        largest = np.maximum(size[:, a], size[:, b])
        quadratic[at], direction[:, at], singular[at] = cov.solve_pairs(
            residuals, difference[:, at].copy(), largest
        )
    error = np.sqrt(error * (spread / df))
    t2 = quadratic * (df / spread)
    bad = singular >= 0
    if bad.any():
        scale = np.maximum(size[:, first], size[:, second])
        constant = error <= NOISE * scale
        error[constant] = 0.0
        difference[constant & (np.abs(difference) <= NOISE * scale)] = 0.0
        same = (constant & (difference == 0)).all(axis=0)
        bad &= ~same
        t2[same] = 0.0
        direction[:, same] = 0.0
        t2[bad] = np.nan
        direction[:, bad] = np.nan
    f, pvalue = t2_pvalue(t2, p, df)
    t = np.divide(difference, error, out=np.where(difference == 0, 0.0, np.nan), where=error > 0)
    warnings = cov.left_out(dropped)
    if untested := int(np.isnan(pvalue).sum()):
        warnings.append(
            f"{untested} of {n} pairs could not be tested: their differences are linearly "
            "dependent or do not vary."
        )
    table = {
        **named_pairs(of, first, second),
        "statistic": t2,
        "f_statistic": f,
        **decided(pvalue, alpha),
        "problem": cov.problems(names, singular, bad),
    }
    return FoldTests(
        test="T²",
        table=pd.DataFrame(table),
        differences=pd.DataFrame(difference.T, columns=names),
        directions=pd.DataFrame(direction.T * df, columns=names),
        posthoc_pvalues=pd.DataFrame(2 * special.stdtr(df, -np.abs(t)).T, columns=names),
        errors=pd.DataFrame(error.T, columns=names),
        df=(p, df - p + 1),
        residual_df=df,
        methods=of,
        measures=names,
        alpha=alpha,
        dropped=dropped,
        paired=paired,
        ratio=ratio,
        warnings=tuple(warnings),
    )


def five_by_two(
    x: ArrayLike,
    *,
    methods: Sequence[Hashable] | None = None,
    measures: Sequence[Hashable] | None = None,
    alpha: float = 0.05,
) -> FoldTests:
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
    values = cov.table_of(x, "x", 3)
    n_methods, n_folds, p = values.shape
    of = cov.names_of(methods, None, "methods", n_methods)
    names = cov.names_of(measures, None, "measures", p)
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
        solved = cov.solve_pairs(spread.transpose(2, 1, 0).copy(), mean[at].T.copy(), largest.T)
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
        "problem": cov.problems(names, singular, bad),
    }
    posthoc = special.fdtrc(2 * REPEATS, REPEATS, f)
    return FoldTests(
        test="5x2",
        table=pd.DataFrame(table),
        differences=pd.DataFrame(mean, columns=names),
        directions=pd.DataFrame(direction, columns=names),
        posthoc_pvalues=pd.DataFrame(posthoc, columns=names),
        errors=pd.DataFrame(np.nan, range(n), names),
        df=(float(df1), float(df2)),
        residual_df=REPEATS,
        methods=of,
        measures=names,
        alpha=alpha,
    )


def rao_f(wilks: ArrayLike, p: float, q: float, v: float) -> tuple[Any, float, float, Any]:
    """F, its two degrees of freedom and p-value of Wilks' lambda with p measures, q and v degrees
    of freedom (Rao 1951).
    """
    square = p * p + q * q - 5
    t = np.sqrt((p * p * q * q - 4) / square) if square > 0 else 1.0
    df1 = p * q
    df2 = (v - (p - q + 1) / 2) * t - (p * q - 2) / 2
    root = np.power(wilks, 1 / t)
    f = (1 - root) / root * df2 / df1
    return f, df1, df2, special.fdtrc(df1, df2, f)


def t2_pvalue(t2: Any, p: int, df: Any) -> tuple[Any, Any]:
    """T-squared of p measures, on so many residual degrees of freedom, as an F, and its p-value."""
    f = (df - p + 1) / (p * df) * t2
    return f, special.fdtrc(p, df - p + 1, f)


def _check_shapes(first: Array, second: Array, paired: bool) -> None:
    """ValueError for tables of two methods that do not fit, or hold too few folds."""
    if first.shape[1] != second.shape[1] or (paired and len(first) != len(second)):
        hint = "Columns are the same measures"
        if paired:
            hint = "Rows are the same folds and columns the same measures in both"
        raise ValueError(
            f"`x2` must have the shape {first.shape} of `x1`, got {second.shape}. {hint}."
        )
    if min(len(first), len(second)) < 2:
        raise ValueError(_too_few("x1", len(first), first.shape[1], 0, paired))


def _posthoc(
    mean: Array,
    error: Array,
    df: int,
    names: list[Hashable],
    alpha: float,
) -> pd.DataFrame:
    """Student's t tests of one pair, measure by measure; `error` is the standard error of the mean
    difference.
    """
    t = np.divide(mean, error, out=np.zeros_like(mean), where=error > 0)
    margin = special.stdtrit(df, 1 - alpha / 2) * error
    columns = {
        "mean_difference": mean,
        "low": mean - margin,
        "high": mean + margin,
        "statistic": t,
        **decided(2 * special.stdtr(df, -np.abs(t)), alpha),
    }
    return pd.DataFrame(columns, index=pd.Index(names, name="measure", tupleize_cols=False))


def _swap_pvalue(difference: Array, seed: int) -> float:
    """Share of the swaps of methods within folds with a T-squared at least as large.

    The sum of squares and products about zero is the same for all swaps, and T-squared grows with
    the mean's length in its terms.
    """
    if not difference.any():
        return 1.0
    base = np.linalg.svd(difference / np.abs(difference).max(axis=0), full_matrices=False)[0]
    return length_pvalue(base, SWAPS, seed)


def _differences(
    first: Array,
    second: Array,
    paired: bool,
    ratio: float | None,
) -> tuple[Array, Array, int, float]:
    """Mean difference, residuals about the means, their degrees of freedom, and the variance of the
    mean in units of theirs.
    """
    if paired:
        difference = first - second
        mean = difference.mean(axis=0)
        return mean, difference - mean, len(first) - 1, cov.variance_factor(len(first), ratio)
    means = first.mean(axis=0), second.mean(axis=0)
    residuals = np.concatenate([first - means[0], second - means[1]])
    spread = cov.variance_factor(len(first), ratio) + cov.variance_factor(len(second), ratio)
    return means[0] - means[1], residuals, len(residuals) - 2, spread


def _too_few(name: str, folds: int, p: int, df: int, paired: bool) -> str:
    need = (
        f"at least {p + 1} folds" if paired else f"at least {p + 2} folds of both methods together"
    )
    fewer = f" or at most {df} measure{'s' * (df > 1)}" if df > 0 else ""
    got = f"{count(folds, 'fold')} for {count(p, 'measure')}"
    return f"`{name}` must have more folds than measures, got {got}. It takes {need}{fewer}."
