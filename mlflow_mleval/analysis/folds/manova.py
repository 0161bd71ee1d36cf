"""Many methods over folds on several measures at once: MANOVA blocked by fold, and the measures
that it learns.

Yıldız & Alpaydın (2014), "Multivariate comparison of classification algorithms"; Rencher (1995),
"Methods of multivariate analysis"; Rao (1951) for the F approximation of Wilks' lambda.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from mlflow_mleval.analysis.folds import covariance as cov
from mlflow_mleval.analysis.folds.hotelling import hotelling_pairs, rao_f, t2_pvalue
from mlflow_mleval.analysis.pairs import adjust, decided
from mlflow_mleval.validation import Array, one_of

DESIGNS = ("blocked", "one-way")
APPROXIMATIONS = ("rao", "chi2")
#: Methods of which one varies more than so many times as much as another (in variance) are told.
UNEQUAL = 9.0
_F = ["f_statistic", "df_numerator", "df_denominator", "pvalue"]


@dataclass(frozen=True)
class LearnedMeasures:
    """Linear combinations that tell the methods apart best: the eigenvectors of E⁻¹H, their shares,
    and of each with all after it Wilks' lambda."""

    weights: pd.DataFrame
    scaled_weights: pd.DataFrame
    eigenvalues: pd.Series
    shares: pd.Series
    dimensions: pd.DataFrame
    projections: pd.DataFrame
    ratio: float | None
    paired: bool

    def tests(self, alpha: float = 0.05) -> pd.DataFrame:
        """Tests of every pair on every learned measure. `pvalue` refers t² to T² with all measures,
        for the directions come from the same folds; `pvalue_naive` is the paper's."""
        methods = self.projections.index.unique(level=0)
        values = self.projections.to_numpy().reshape(len(methods), -1, self.weights.shape[1])
        parts = []
        for k, name in enumerate(self.weights):
            pairs = hotelling_pairs(
                values[..., [k]],
                methods=methods,
                measures=[name],
                ratio=self.ratio,
                paired=self.paired,
                alpha=alpha,
            )
            t2 = pairs.table["statistic"].to_numpy()
            difference = pairs.differences[name]
            # an F on 1 and df degrees of freedom
            df = pairs.df[1]
            pvalue = np.full(len(t2), np.nan)
            if df >= len(self.weights):
                pvalue = t2_pvalue(t2, len(self.weights), df)[1]
            part = pairs.table[["method_a", "method_b"]].assign(
                mean_difference=difference,
                statistic=np.sign(difference) * np.sqrt(t2),
                pvalue_naive=pairs.table["pvalue"],
                **decided(pvalue, alpha),
            )
            part.insert(0, "learned", name)
            parts.append(part)
        return pd.concat(parts, ignore_index=True)


@dataclass(frozen=True)
class ManovaResult:
    """Multivariate analysis of variance of methods over folds: four statistics, the matrices H and
    E, each measure alone, and what it learns. Roy's p is a lower bound."""

    statistic: float
    pvalue: float
    f_statistic: float
    df: tuple[float, float]
    table: pd.DataFrame
    between: pd.DataFrame
    within: pd.DataFrame
    univariate: pd.DataFrame
    learned: LearnedMeasures
    measures: list[Hashable]
    dropped: dict[Hashable, str]
    design: str
    warnings: tuple[str, ...] = ()


def manova(
    x: ArrayLike,
    *,
    methods: Sequence[Hashable] | None = None,
    measures: Sequence[Hashable] | None = None,
    design: str = "blocked",
    ratio: float | None = None,
    dependent: str = "error",
    approximation: str = "rao",
) -> ManovaResult:
    r"""Test whether any of several methods differs in the mean of any measure or combination of
    measures over folds.

    :math:`H = R \sum_i (\bar x_i - \bar x)(\bar x_i - \bar x)^T`, and E is the same of the
    residuals :math:`x_{ij} - \bar x_i - \bar x_j + \bar x` (blocked by fold: the folds pair the
    methods; for two methods this is the paired T²) or :math:`x_{ij} - \bar x_i` (one-way, Yıldız &
    Alpaydın 2014). :math:`\Lambda = |E| / |E + H|`; the table adds Pillai's trace, the
    Hotelling-Lawley trace and Roy's largest root with their usual F approximations.

    All methods are assumed to vary alike over folds; where one varies much more than another a
    warning says so, for the test then rejects too often (simulated: .10 at .05 for four methods
    with standard deviations .3, 1, 1, 2).

    Parameters
    ----------
    x : array_like, shape (methods, folds, measures)
    methods, measures : sequence, optional
        Names; numbers by default.
    design : {"blocked", "one-way"}
        "one-way" ignores that folds pair the methods; for unpaired folds, or to reproduce the
        paper.
    ratio : float, optional
        n_test / n_train of a fold: Nadeau & Bengio's correction for shared training data, as in
        `hotelling`, divides H by 1 + folds · ratio.
    dependent : {"error", "drop"}
        What to do about measures that follow linearly from those before them.
    approximation : {"rao", "chi2"}
        How `pvalue` follows from lambda: Rao's F (exact for up to two measures or three methods),
        or the paper's chi-square.

    Raises
    ------
    ValueError
        Fewer than two methods or folds, missing values, too many measures, or linearly dependent
        ones: they are named.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(3, 10, 2)) + np.array([[0, 0], [0, 0], [1.5, -1.5]])[:, None]
    >>> result = manova(x, measures=["tpr", "fpr"], ratio=1 / 9)
    >>> round(result.statistic, 4), result.df, round(result.pvalue, 4)
    (0.3312, (4.0, 34.0), 0.0007)
    """
    one_of(design, "design", DESIGNS)
    one_of(dependent, "dependent", cov.DEPENDENT)
    one_of(approximation, "approximation", APPROXIMATIONS)
    ratio = cov.checked_ratio(ratio)
    values = cov.table_of(x, "x", 3)
    n_methods, n_folds, p = values.shape
    names = cov.names_of(measures, x, "measures", p)
    of = cov.names_of(methods, None, "methods", n_methods)
    if n_methods < 2 or n_folds < 2:
        raise ValueError(
            f"`x` must hold at least two methods and two folds, got {n_methods} and {n_folds}."
        )
    blocked = design == "blocked"
    df_within = (n_methods - blocked) * (n_folds - 1)
    independent, dropped = cov.tested_measures(values, names, blocked, dependent)
    p = len(independent)
    names = [names[k] for k in independent]
    if df_within < p:
        raise ValueError(
            "`x` must have at least as many residual degrees of freedom as measures, got "
            f"{df_within} for {p} measures ({n_methods} methods on {n_folds} folds). Use more "
            f"folds or at most {df_within} measures."
        )
    values = values[..., independent]
    means = values.mean(axis=1) - values.mean(axis=(0, 1))
    residuals = cov.two_way(values, blocked)
    df_between = n_methods - 1
    shared = n_folds * cov.variance_factor(n_folds, ratio)
    between = n_folds / shared * means.T @ means
    within = residuals.T @ residuals
    eigenvalues, vectors = _eigen(residuals, means * np.sqrt(n_folds / shared))
    table = _statistics(eigenvalues, p, df_between, df_within)
    statistic, f, *df, pvalue = table.loc["wilks"].tolist()
    if approximation == "chi2":
        f = ((p - df_between + 1) / 2 - df_within) * np.log(statistic)
        df = [float(p * df_between), np.inf]
        pvalue = float(special.chdtrc(df[0], f))
    warnings = cov.left_out(dropped)
    warnings += _unequal(residuals, of, n_folds)
    if df_within < 2 * p:
        warnings.append(
            f"Only {df_within} residual degrees of freedom for {p} measures: the test can hardly "
            "see anything."
        )
    each_f = np.diag(between) / df_between / (np.diag(within) / df_within)
    each = special.fdtrc(df_between, df_within, each_f)
    univariate = {
        "f_statistic": each_f,
        "df_numerator": df_between,
        "df_denominator": df_within,
        "pvalue": each,
        "pvalue_corrected": adjust(each),
    }
    weights = _unit(vectors)
    learned = [f"M{k + 1}" for k in range(len(eigenvalues))]
    index = pd.MultiIndex.from_product([of, range(n_folds)], names=["method", "fold"])
    total = eigenvalues.sum()
    scaled = _unit(weights * np.sqrt(np.diag(within))[:, None])
    return ManovaResult(
        statistic=statistic,
        pvalue=pvalue,
        f_statistic=float(f),
        df=(df[0], df[1]),
        table=table,
        between=pd.DataFrame(between, names, names),
        within=pd.DataFrame(within, names, names),
        univariate=pd.DataFrame(univariate, pd.Index(names, name="measure", tupleize_cols=False)),
        learned=LearnedMeasures(
            weights=pd.DataFrame(weights, names, learned),
            scaled_weights=pd.DataFrame(scaled, names, learned),
            eigenvalues=pd.Series(eigenvalues, learned, name="eigenvalue"),
            shares=pd.Series(eigenvalues / (total or 1.0), learned, name="share"),
            dimensions=_dimensions(eigenvalues, p, df_between, df_within).set_axis(learned),
            projections=pd.DataFrame(values.reshape(-1, p) @ weights, index, learned),
            ratio=ratio,
            paired=blocked,
        ),
        measures=names,
        dropped=dropped,
        design=design,
        warnings=tuple(warnings),
    )


def _eigen(residuals: Array, means: Array) -> tuple[Array, Array]:
    """Eigenvalues of E⁻¹H, largest first, and its eigenvectors as columns, from the factors of E
    and H, so that nothing is squared."""
    scale = np.linalg.norm(residuals, axis=0)
    root = np.asarray(np.linalg.qr(residuals / scale, mode="r"))
    white = np.linalg.solve(root.T, (means / scale).T)
    left, singular, _ = np.linalg.svd(white, full_matrices=True)
    count = min(white.shape[0], white.shape[1] - 1)
    return singular[:count] ** 2, np.linalg.solve(root, left[:, :count]) / scale[:, None]


def _statistics(eigenvalues: Array, p: int, q: int, v: int) -> pd.DataFrame:
    """The four statistics with their F approximations, as in SAS and statsmodels."""
    s = min(p, q)
    m = (abs(p - q) - 1) / 2
    n = (v - p - 1) / 2
    wilks = float(np.exp(-np.log1p(eigenvalues).sum()))
    pillai = float((eigenvalues / (1 + eigenvalues)).sum())
    trace = float(eigenvalues.sum())
    roy = float(eigenvalues.max())
    rows = {"wilks": [wilks, *rao_f(wilks, p, q, v)]}
    df1 = s * (2 * m + s + 1)
    df2 = s * (2 * n + s + 1)
    f = df2 / df1 * pillai / (s - pillai)
    rows["pillai"] = [pillai, f, df1, df2, special.fdtrc(df1, df2, f)]
    if n > 0:  # McKeon (1974)
        b = (p + 2 * n) * (q + 2 * n) / (2 * (2 * n + 1) * (n - 1)) if n != 1 else np.inf
        df1 = p * q
        df2 = 4 + (p * q + 2) / (b - 1)
        f = df2 / df1 * trace * 2 * n / (df2 - 2)
    else:
        df2 = 2 * (s * n + 1)
        f = df2 / df1 / s * trace
    rows["hotelling_lawley"] = [trace, f, df1, df2, special.fdtrc(df1, df2, f)]
    df1 = max(p, q)
    df2 = v - df1 + q
    f = df2 / df1 * roy
    rows["roy"] = [roy, f, df1, df2, special.fdtrc(df1, df2, f)]
    return pd.DataFrame.from_dict(rows, orient="index", columns=["statistic", *_F]).astype(float)


def _unequal(residuals: Array, methods: Sequence[Hashable], n_folds: int) -> list[str]:
    """What to tell where one method scatters much more over folds than another."""
    n = len(methods)
    p = residuals.shape[1]
    by_method = (np.linalg.qr(residuals)[0].reshape(n, -1) ** 2).sum(axis=1)
    inequality = by_method.max() / max(by_method.min(), np.finfo(float).tiny)
    df = (n_folds - 1) * p
    by_chance = n * (n - 1) * special.fdtrc(df, df, inequality)
    if n < 3 or inequality <= UNEQUAL or by_chance > 0.05:
        return []
    most, least = (methods[int(i)] for i in (by_method.argmax(), by_method.argmin()))
    return [
        f"The results of {most} vary {np.sqrt(inequality):.2g} times as much over folds as "
        f"those of {least}. MANOVA assumes that all vary alike and rejects too often then; "
        "T-squared of pairs does not."
    ]


def _dimensions(eigenvalues: Array, p: int, q: int, v: int) -> pd.DataFrame:
    """Wilks' lambda, as an F, of each learned measure and all after it."""
    rows = []
    for k in range(len(eigenvalues)):
        wilks = float(np.exp(-np.log1p(eigenvalues[k:]).sum()))
        rows.append([wilks, *rao_f(wilks, p - k, q - k, v - k)])
    return pd.DataFrame(rows, columns=["wilks", *_F], dtype=float)


def _unit(vectors: Array) -> Array:
    """Columns of unit length whose largest entry is positive."""
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])]
    return vectors / (np.linalg.norm(vectors, axis=0) * np.sign(largest))
