r"""Who is better where along loss profiles, and how sure: ratios, crossings, claims with an error rate, awareness of dependence.

Hüllermeier et al. (2022, section 5) for the reading of profiles. Along the parameter of one dataset: the paired t test over folds
with the variance of Nadeau & Bengio (2003) at each parameter; how often this t process crosses a level (Worsley 1994, "Local
maxima and the expected Euler characteristic of excursion sets of chi2, F and t fields") bounds its largest value over all of
them; then step-down over pairs (Holm 1979). Over datasets: common changes of sign with the largest statistic over positions and
pairs (Westfall & Young 1993), and Wilcoxon's signed ranks for the summaries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import special

from mlflow_mleval.analysis.folds.fold_runs import UNPAIRED, recorded_protocol, runs_of, unpaired
from mlflow_mleval.analysis.folds.protocol import Protocol
from mlflow_mleval.analysis.loss_profiles import Array, Profiles
from mlflow_mleval.analysis.paired import PairwiseResult, feasibility, wilcoxon_pairs
from mlflow_mleval.analysis.resampling import sign_flips
from mlflow_mleval.measures.awareness import SUMMARIES
from mlflow_mleval.measures.dependence import FAMILIES
from mlflow_mleval.naming import some
from mlflow_mleval.validation import one_of, probability

#: The summaries that are tested over datasets.
TESTED = ("area", "slope", "relative_gain")
#: Of more methods than these, only pairs of those with the least mean area are compared.
TOP = 50
#: Positions between Hamming and subset 0/1 at which profiles are compared over datasets.
POSITIONS = np.linspace(0, 1, 11)
#: Sign changes over datasets.
_FLIPS = 9_999
#: Differences of losses below this are float noise.
_NOISE = 1e-12
#: Numbers in memory at once.
_BLOCK = 1 << 22
_CORRECTION = "largest t over the parameters, then Holm over all pairs of all datasets"


@dataclass(frozen=True)
class ProfileComparison:
    """What `compare_profiles` found; 0 is the best loss.

    Attributes
    ----------
    curves : pandas.DataFrame
        Index (dataset, method, parameter): position (0 Hamming, 1 subset 0/1), loss (mean over folds), low, high (bootstrap over
        folds at 1 - alpha, pointwise; NaN without folds).
    ratios : pandas.DataFrame
        Index (dataset, method_a, method_b, parameter): position; ratio (loss of b over that of a: above 1 a is better); low, high
        (simultaneous over parameters and pairs, in a single step); pvalue (two-sided, corrected along the parameter and over all
        pairs of all datasets); significant. NaN where not tested, or where both losses are 0.
    crossings : pandas.DataFrame
        One row a crossing of two mean profiles: dataset, method_a, method_b; parameter and position (interpolated); below, above
        (who is better on either side, up to the next crossing); certain (a significant parameter on both sides).
    claims : pandas.DataFrame
        One row a stretch of significant parameters: dataset, better, worse, first, last (parameters), n_labels. The chance that
        any row of the whole table is wrong is at most alpha.
    awareness : pandas.DataFrame
        Index (dataset, method): hamming, subset, area, slope, relative_gain; see `mlflow_mleval.measures.awareness.awareness`.
    awareness_tests : mapping of str to PairwiseResult or None
        By summary (area, slope, relative_gain): signed ranks of every pair over datasets; None where `absent` says why.
    across : pandas.DataFrame or None
        Index (method_a, method_b, position): ratio (median over datasets), wins, losses (datasets on which a, b is better),
        pvalue (corrected for all pairs and positions), significant; None where `absent` says why.
    protocols : mapping of str to Protocol
        By dataset: how the folds came about.
    n_labels : mapping of str to int
    absent : mapping of str to str
        Profiles, tests and pairs that there are not, with the reason.
    warnings : tuple of str
        What a reader must know before believing it.
    options : mapping
        Every choice: kind, family, alpha, n_resamples, seed, correction, protocol, ratio.
    """

    curves: pd.DataFrame
    ratios: pd.DataFrame
    crossings: pd.DataFrame
    claims: pd.DataFrame
    awareness: pd.DataFrame
    awareness_tests: Mapping[str, PairwiseResult | None]
    across: pd.DataFrame | None
    protocols: Mapping[str, Protocol]
    n_labels: Mapping[str, int]
    absent: Mapping[str, str]
    warnings: tuple[str, ...]
    options: Mapping[str, Any]


def compare_profiles(
    profiles: Profiles,
    *,
    family: str = "binomial",
    parameters: ArrayLike | None = None,
    alpha: float = 0.05,
    n_resamples: int = 1_000,
    seed: int = 0,
    protocol: str | None = None,
    ratio: float | None = None,
    top: int = TOP,
) -> ProfileComparison:
    r"""Compare the loss profiles of methods: where they cross, where one is better for certain, who is aware of dependence.

    Parameters
    ----------
    profiles : Profiles
    family : {"binomial", "polynomial"}
    parameters : array, optional
        Increasing, the same for all datasets; by default k = 1..K (at most 100 of them), or alpha from 1 to 1000.
    alpha : float
        Chance of any false claim along any profile of any pair on any dataset; 1 - alpha is the level of intervals.
    n_resamples, seed : int
        Bootstrap samples of the folds for the bands of the curves.
    protocol, ratio : optional
        How the folds came about, and n_test / n_train, where the runs do not say; see `compare_folds`.
    top : int
        Of more methods, only the pairs of so many are compared, those with the least mean area. The correction is for all pairs.

    Returns
    -------
    ProfileComparison

    Raises
    ------
    ValueError
        No profile; an unknown family, parameters out of range.

    Notes
    -----
    With fold differences :math:`d_j` of two methods at a parameter,
    :math:`t = \bar d / (s_d \sqrt{1/R + n_{test}/n_{train}})` on :math:`\nu = R - 1` degrees of freedom. The chance that
    :math:`|t|` of normal differences reaches a level :math:`u` anywhere is at most that at one parameter and the expected number
    of crossings,

    .. math:: P(|T_\nu| \ge u) + \sum_i \min\{\theta_i/\pi \, (1 + u^2/\nu)^{-(\nu-1)/2}, P(|T_\nu| \ge u)\},

    where :math:`\theta_i` is the angle between the fold differences at neighbouring parameters, the arc cosine of their
    correlation: profiles are smooth, and testing everywhere costs little. A pair stops counting in Holm's step-down only
    when it is separated at every parameter; that keeps claims about stretches right where a pair differs along a part only.

    Examples
    --------
    >>> a, b = [[64, 48, 12, 1], [60, 50, 14, 1], [66, 47, 11, 1]], [[90, 5, 0, 30], [85, 9, 1, 30], [92, 4, 0, 29]]
    >>> found = compare_profiles(Profiles.from_counts({("d", "A"): a, ("d", "B"): b}))
    >>> found.crossings[["parameter", "below", "above", "certain"]].round(2).values.tolist()
    [[1.36, 'A', 'B', True]]
    >>> found.claims[["better", "worse", "first", "last"]].values.tolist()
    [['A', 'B', 1, 1], ['B', 'A', 2, 3]]
    """
    one_of(family, "family", FAMILIES)
    probability(alpha, "alpha")
    if n_resamples < 1:
        raise ValueError(f"`n_resamples` must be at least 1, got {n_resamples!r}.")
    if not profiles.errors:
        raise ValueError("`profiles` must hold at least one profile, got none. Log runs with labels or scores first.")
    summaries = profiles.awareness(family)
    chosen = _chosen(summaries, profiles.methods, top)
    absent, warnings = dict(profiles.absent), list(profiles.notes)
    if len(chosen) < len(profiles.methods):
        warnings.append(
            f"Of {len(profiles.methods)} methods only the {len(chosen)} with the least mean area are compared in pairs; the "
            "p-values are corrected for all pairs."
        )
    found = [
        _on_dataset(profiles, d, family, parameters, alpha, n_resamples, seed, protocol, ratio, chosen, absent, warnings)
        for d in profiles.datasets
    ]
    _correct(found, alpha)
    across = None
    if len(chosen) == len(profiles.methods):
        across = _across(found, profiles, seed, alpha, absent)
    else:
        absent["across"] = f"only the pairs of {len(chosen)} of {len(profiles.methods)} methods are compared"
    tests = _awareness_tests(summaries, alpha, absent)
    lacking = [m for m in profiles.methods if any((d, m) not in profiles.errors for d in profiles.datasets)]
    if lacking and (across is not None or any(tests.values())):
        warnings.append(f"Tests over datasets are without {some(lacking)}: no profile on every dataset.")
    options = {
        "kind": profiles.kind, "family": family, "alpha": alpha, "n_resamples": n_resamples, "seed": seed,
        "correction": _CORRECTION, "protocol": protocol, "ratio": ratio, "top": top,
    }  # fmt: skip
    return ProfileComparison(
        curves=pd.concat([part.curves for part in found]),
        ratios=pd.concat([_ratio_table(part) for part in found]),
        crossings=_table([row for part in found for row in _crossings(part)], _CROSSINGS),
        claims=_table([row for part in found for row in _claims(part)], _CLAIMS),
        awareness=summaries, awareness_tests=tests, across=across,
        protocols={part.dataset: part.protocol for part in found if part.protocol is not None},
        n_labels=dict(profiles.n_labels), absent=absent, warnings=tuple(dict.fromkeys(warnings)), options=options,
    )  # fmt: skip


_CROSSINGS = ["dataset", "method_a", "method_b", "parameter", "position", "below", "above", "certain"]
_CLAIMS = ["dataset", "better", "worse", "first", "last", "n_labels"]


@dataclass
class _Found:
    """What is known of one dataset on the way; arrays are pairs x parameters."""

    dataset: str
    family: str
    n_labels: int
    at: NDArray[Any]
    position: Array
    curves: pd.DataFrame
    methods: list[str]
    a: NDArray[np.int64]
    b: NDArray[np.int64]
    n_pairs: int
    mean: Array
    protocol: Protocol | None
    alpha: float
    pvalue: Array
    low: Array
    high: Array
    tested: _Tested | None = None

    @property
    def difference(self) -> Array:
        """Loss of b less loss of a, of each pair at each parameter; float noise is 0."""
        found = self.mean[self.b] - self.mean[self.a]
        found[np.abs(found) <= _NOISE] = 0.0
        return found

    @property
    def significant(self) -> Array:
        """1 where a is better for certain, -1 where b is, else 0."""
        return np.where(self.pvalue <= self.alpha, np.sign(self.difference), 0)


@dataclass
class _Tested:
    """The pairs that can be tested by fold: their rows, corrected p-values along the parameter, and what intervals need."""

    rows: NDArray[np.int64]
    along: Array
    angles: Array
    scale: float
    by_fold: Array
    first: NDArray[np.int64]
    second: NDArray[np.int64]


def _chosen(summaries: pd.DataFrame, methods: Sequence[str], top: int) -> list[str]:
    """The methods whose pairs are compared."""
    if len(methods) <= top:
        return list(methods)
    kept = set(summaries["area"].groupby(level="method").mean().nsmallest(max(top, 2)).index)
    return [m for m in methods if m in kept]


def _on_dataset(
    profiles: Profiles, dataset: str, family: str, parameters: ArrayLike | None, alpha: float, n_resamples: int, seed: int,
    protocol: str | None, ratio: float | None, chosen: Sequence[str], absent: dict[str, str], warnings: list[str],
) -> _Found:
    """Curves with bands, differences of pairs, and their p-values along the parameter."""
    losses = profiles.by_row(dataset, family, parameters)
    at, position = profiles.parameters(dataset, family, parameters), profiles.positions(dataset, family, parameters)
    everyone = list(losses)
    rng = np.random.default_rng([seed, profiles.datasets.index(dataset)])
    folds = {m: profiles.folds[dataset, m] for m in everyone}
    common, how = _common_folds(profiles, dataset, folds, protocol, ratio, absent, warnings)
    mean = np.array([losses[m].mean(axis=0) for m in everyone])
    low, high = np.full_like(mean, np.nan), np.full_like(mean, np.nan)
    for n_folds in sorted({len(f) for f in folds.values()} - {0, 1}):
        which = [i for i, m in enumerate(everyone) if len(folds[m]) == n_folds]
        shared = (how.ratio or 0.0) if how is not None and how.n_folds == n_folds else 1 / (n_folds - 1)
        low[which], high[which] = _bands(np.array([losses[everyone[i]] for i in which]), shared, alpha, n_resamples, rng)
    index = pd.MultiIndex.from_product([[dataset], everyone, at.tolist()], names=["dataset", "method", "parameter"])
    columns = {"position": np.tile(position, len(everyone)), "loss": mean.ravel(), "low": low.ravel(), "high": high.ravel()}
    methods = [m for m in everyone if m in set(chosen)]
    a, b = np.triu_indices(len(methods), 1)
    rows = [everyone.index(m) for m in methods]
    part = _Found(
        dataset, family, profiles.n_labels[dataset], at, position, pd.DataFrame(columns, index), methods, a, b,
        len(everyone) * (len(everyone) - 1) // 2, mean[rows], how, alpha, *np.full((3, len(a), len(at)), np.nan),
    )  # fmt: skip
    if len(a) and how is not None:
        part.tested = _test(part, losses, common, how, profiles, absent, warnings)
    return part


def _common_folds(
    profiles: Profiles, dataset: str, folds: Mapping[str, tuple[Hashable, ...]], kind: str | None, ratio: float | None,
    absent: dict[str, str], warnings: list[str],
) -> tuple[list[str], Protocol | None]:
    """The methods with the most common folds, and how these came about; None where nothing can be tested."""
    sets = Counter(frozenset(f) for f in folds.values() if len(f) > 1)
    if not sets:
        absent[f"tests.{dataset}"] = "no profile by fold: a test along the profile needs at least two folds"
        return [], None
    shared = sets.most_common(1)[0][0]
    common = [m for m, f in folds.items() if frozenset(f) == shared]
    if others := [m for m in folds if m not in common]:
        absent[f"tests.{dataset}: {some(others)}"] = f"not the {len(shared)} folds that most methods have on {dataset}"
    if len(common) < 2:
        absent[f"tests.{dataset}"] = "fewer than two methods have the same folds"
    try:
        how, notes = recorded_protocol(runs_of(profiles.runs, dataset, common), len(shared), kind, ratio)
    except ValueError as error:
        absent[f"tests.{dataset}"] = str(error)
        return common, None
    f_test = how.caution if how.kind == "5x2" else ""  # the F test's, which is not made here
    warnings += [f"On {dataset}: {note}" for note in notes if note != f_test]
    return common, how


def _bands(values: Array, ratio: float, alpha: float, n_resamples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Low and high of the means over drawn folds, the same folds for all; values are methods x folds x parameters.

    The draws are spread so that their variance is the corrected one, (1/R + ratio) s^2.
    """
    n_methods, n_folds, _ = values.shape
    mean = values.mean(axis=1)
    spread = np.sqrt((1 + n_folds * ratio) * n_folds / (n_folds - 1))
    share = rng.multinomial(n_folds, np.full(n_folds, 1 / n_folds), n_resamples) / n_folds
    found = np.empty((2, *mean.shape))
    step = max(1, _BLOCK // (n_resamples * mean.shape[1]))
    for i in range(0, n_methods, step):
        moved = np.einsum("irp,dr->ipd", values[i : i + step] - mean[i : i + step, None], share, optimize=True)
        found[:, i : i + step] = mean[i : i + step] + spread * np.quantile(moved, [alpha / 2, 1 - alpha / 2], axis=2)
    return tuple(np.clip(found, 0, 1))


# ---- one dataset: along the parameter ------------------------------------------------------------------------------------


def _test(
    part: _Found, losses: Mapping[str, Array], common: Sequence[str], how: Protocol, profiles: Profiles, absent: dict[str, str],
    warnings: list[str],
) -> _Tested | None:
    """The t test over folds at every parameter, p-values corrected along it."""
    having = [m for m in part.methods if m in set(common)]
    place = {m: part.methods.index(m) for m in having}
    i, j = np.triu_indices(len(having), 1)
    split, notes = unpaired(runs_of(profiles.runs, part.dataset, having), having)
    warnings += [f"On {part.dataset}: {note}" for note in notes]
    if split is not None:
        absent[f"tests.{part.dataset}: {int(split.sum())} pairs"] = UNPAIRED
        i, j = i[~split], j[~split]
    if not len(i):
        return None
    folds = sorted(profiles.folds[part.dataset, having[0]], key=str)
    order = [[profiles.folds[part.dataset, m].index(f) for f in folds] for m in having]
    by_fold = np.array([losses[m][o] for m, o in zip(having, order, strict=True)])
    scale = np.sqrt(1 / len(folds) + (how.ratio or 0.0))
    along, angles = np.empty((len(i), len(part.at))), np.empty((len(i), len(part.at) - 1))
    step = max(1, _BLOCK // (len(part.at) * max(len(part.at), len(folds))))
    for start in range(0, len(i), step):
        at = slice(start, start + step)
        along[at], angles[at] = along_parameter(by_fold[j[at]] - by_fold[i[at]], scale)
    constant = int(np.isnan(along).sum())
    if constant:
        warnings.append(f"On {part.dataset}: {constant} differences are the same in every fold and cannot be tested.")
    a, b = np.array([place[m] for m in having])[[i, j]]
    rows = np.full((len(part.methods), len(part.methods)), -1)
    rows[part.a, part.b] = np.arange(len(part.a))
    return _Tested(rows[a, b], along, angles, scale, by_fold, i, j)


def along_parameter(difference: Array, scale: float) -> tuple[Array, Array]:
    """P-values of the differences of pairs at each parameter, corrected for testing at all of them in a single step.

    Parameters
    ----------
    difference : array, shape (pairs, R, P)
        By fold and parameter.
    scale : float
        The standard error of a mean over folds, in standard deviations of a fold.

    Returns
    -------
    pvalue : array, shape (pairs, P)
        NaN where the differences are the same in every fold, but not 0.
    angles : array, shape (pairs, P - 1)
        Between the differences at neighbouring parameters.
    """
    df = difference.shape[1] - 1
    mean = difference.mean(axis=1)
    left = difference - mean[:, None]
    size = np.sqrt((left**2).sum(axis=1))
    flat = size <= _NOISE * np.sqrt(df)
    size[flat] = 1.0
    t = np.abs(mean) / (size / np.sqrt(df) * scale)
    t[flat] = np.where(np.abs(mean[flat]) <= _NOISE, 0.0, np.nan)
    left /= size[:, None]
    cosine = np.abs((left[..., 1:] * left[..., :-1]).sum(axis=1))  # |t| is the same for a process and its negative
    angles = np.where(flat[:, 1:] | flat[:, :-1], np.pi / 2, np.arccos(np.minimum(cosine, 1.0)))
    return _anywhere(t, angles, df), angles


def _anywhere(t: Array, angles: Array, df: int) -> Array:
    """Chance that the largest of the t statistics of a pair along its profile is at least t, shape of t: pairs x any."""
    here = 2 * special.stdtr(df, -t)
    crossed = (1 + t**2 / df) ** (-(df - 1) / 2) / np.pi
    more = np.minimum(angles[:, None] * crossed[..., None], here[..., None]).sum(axis=-1)
    return np.minimum(here + more, 1.0)


def _critical(angles: Array, level: float, df: int) -> Array:
    """The statistic that each pair reaches anywhere along its profile with this chance, by bisection."""
    low, high = np.full((len(angles), 1), -7.0), np.full((len(angles), 1), 28.0)  # powers of e
    for _ in range(50):
        middle = (low + high) / 2
        above = _anywhere(np.exp(middle), angles, df) > level
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.exp(high[:, 0])


def _correct(found: Sequence[_Found], alpha: float) -> None:
    """Correct over all pairs of all datasets, and add the simultaneous intervals."""
    tested = [(part, part.tested) for part in found if part.tested is not None]
    if not tested:
        return
    extra = sum(part.n_pairs - len(part.a) for part in found)  # pairs of methods that were not chosen count, too
    worst = np.concatenate([np.nan_to_num(t.along, nan=1.0).max(axis=1) for _, t in tested])
    count = len(worst) + extra
    for part, t in tested:
        part.pvalue[t.rows] = _stepped(t.along, worst, extra)
        critical = _critical(t.angles, alpha / count, t.by_fold.shape[1] - 1)
        part.low[t.rows], part.high[t.rows] = _fieller(t.by_fold, t.first, t.second, critical * t.scale)


def _stepped(values: Array, worst: Array, extra: int) -> Array:
    """Holm's step-down for claims at single parameters: closed testing of `worst`, the largest p-value of each pair.

    The p-value of a claim is the largest, over sets of pairs with its own, of the size of the set times the least of the
    claim's p-value and the largest ones of the others.
    """
    worst = np.sort(worst)
    ahead = np.searchsorted(worst, values, side="left")
    still = len(worst) - np.arange(len(worst)) + extra
    before = np.concatenate([[0.0], np.maximum.accumulate(worst * still)])
    found = np.maximum(values * (len(worst) - ahead + extra), before[ahead])
    return np.where(np.isnan(values), np.nan, np.minimum(found, 1.0))


def _fieller(by_fold: Array, first: NDArray[np.int64], second: NDArray[np.int64], width: Array) -> tuple[Array, Array]:
    """Fieller's interval of the ratio of the mean losses, second over first: it holds 1 where the t test does not reject."""
    mean = by_fold.mean(axis=1)
    left = by_fold - mean[:, None]
    df = by_fold.shape[1] - 1
    variance = (left**2).sum(axis=1) / df
    low, high = np.empty((2, len(first), mean.shape[1]))
    step = max(1, _BLOCK // (by_fold.shape[1] * mean.shape[1]))
    for start in range(0, len(first), step):
        i, j, w = first[start : start + step], second[start : start + step], width[start : start + step, None] ** 2
        covariance = np.einsum("irp,irp->ip", left[i], left[j]) / df
        c2, c1, c0 = mean[i] ** 2 - w * variance[i], mean[i] * mean[j] - w * covariance, mean[j] ** 2 - w * variance[j]
        with np.errstate(divide="ignore", invalid="ignore"):
            root = np.sqrt(np.maximum(c1**2 - c2 * c0, 0.0))
            ends = (c1 - root) / c2, (c1 + root) / c2
            bounded = c2 > 0  # else the first loss may be 0
            low[start : start + step] = np.where(bounded, ends[0], np.where(c0 > 0, ends[0], 0.0))
            high[start : start + step] = np.where(bounded, ends[1], np.inf)
    empty = (mean[first] <= _NOISE) & (mean[second] <= _NOISE)
    low, high = np.maximum(low, 0.0), np.maximum(high, 0.0)
    low[empty] = high[empty] = np.nan
    return low, high


def _ratio_table(part: _Found) -> pd.DataFrame:
    n_pairs, n_at = len(part.a), len(part.at)
    methods = np.array(part.methods, dtype=object)
    arrays = [
        np.full(n_pairs * n_at, part.dataset, dtype=object), np.repeat(methods[part.a], n_at), np.repeat(methods[part.b], n_at),
        np.tile(part.at, n_pairs),
    ]  # fmt: skip
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = part.mean[part.b] / part.mean[part.a]
    table = {
        "position": np.tile(part.position, n_pairs), "ratio": ratio.ravel(), "low": part.low.ravel(), "high": part.high.ravel(),
        "pvalue": part.pvalue.ravel(), "significant": (part.significant != 0).ravel(),
    }  # fmt: skip
    return pd.DataFrame(table, pd.MultiIndex.from_arrays(arrays, names=["dataset", "method_a", "method_b", "parameter"]))


def _crossings(part: _Found) -> list[tuple[Any, ...]]:
    """Where the mean profiles of a pair are equal, between parameters at which one and then the other is better."""
    sign, sure, difference = np.sign(part.difference), part.significant, part.difference
    rows = []
    for pair in np.flatnonzero((sign > 0).any(axis=1) & (sign < 0).any(axis=1)):
        at = np.flatnonzero(sign[pair])
        turns = np.flatnonzero(np.diff(sign[pair, at]))
        ends = [at[0], *at[turns + 1], len(part.at)]
        for n, turn in enumerate(turns):
            i, j = at[turn], at[turn + 1]
            if j == i + 1:
                share = difference[pair, i] / (difference[pair, i] - difference[pair, j])
                position = part.position[i] + share * (part.position[j] - part.position[i])
            else:  # equal in between
                position = (part.position[i + 1] + part.position[j - 1]) / 2
            a, b = part.methods[part.a[pair]], part.methods[part.b[pair]]
            below, above = (a, b) if sign[pair, i] > 0 else (b, a)
            sides = (sure[pair, ends[n] : i + 1], sign[pair, i]), (sure[pair, j : ends[n + 2]], sign[pair, j])
            certain = all((side == way).any() for side, way in sides)
            rows.append((part.dataset, a, b, _parameter(part, position), float(position), below, above, certain))
    return rows


def _parameter(part: _Found, position: float) -> float:
    """The parameter at a position."""
    if part.family == "binomial":
        return float(1 + position * (part.n_labels - 1))
    return float(part.at[-1] ** position)


def _claims(part: _Found) -> list[tuple[Any, ...]]:
    """Stretches of neighbouring parameters at which one method is better for certain."""
    sure, rows = part.significant, []
    for pair in np.flatnonzero(sure.any(axis=1)):
        edges = np.flatnonzero(np.diff(sure[pair], prepend=0, append=0))
        for start, stop in zip(edges, [*edges[1:], len(part.at)], strict=True):
            if start < len(part.at) and sure[pair, start]:
                a, b = part.methods[part.a[pair]], part.methods[part.b[pair]]
                better, worse = (a, b) if sure[pair, start] > 0 else (b, a)
                rows.append((part.dataset, better, worse, part.at[start].item(), part.at[stop - 1].item(), part.n_labels))
    return rows


def _table(rows: Sequence[tuple[Any, ...]], columns: Sequence[str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=columns).astype({"certain": bool} if "certain" in columns else {})


# ---- over datasets -------------------------------------------------------------------------------------------------------


def _across(found: Sequence[_Found], profiles: Profiles, seed: int, alpha: float, absent: dict[str, str]) -> pd.DataFrame | None:
    """Pairs at positions between Hamming and subset 0/1, over the datasets on which all of them have profiles."""
    parts = [part for part in found if part.n_labels > 1]
    shared = [m for m in profiles.methods if all(m in part.methods for part in parts)] if parts else []
    if len(shared) < 2:
        absent["across"] = "fewer than two methods have profiles on all datasets with several labels"
        return None
    if (smallest := 2 / 2 ** len(parts)) > alpha:
        needed = int(np.ceil(1 - np.log2(alpha)))
        absent["across"] = (
            f"{len(parts)} datasets cannot separate any pair: the smallest p-value is {smallest:.3g}; it takes {needed} datasets"
        )
        return None
    losses = np.array([
        [np.interp(POSITIONS, part.position, part.mean[part.methods.index(m)]) for m in shared] for part in parts
    ])  # datasets x methods x positions
    a, b = np.triu_indices(len(shared), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = losses[:, b] / losses[:, a]
        relative = np.nan_to_num((losses[:, b] - losses[:, a]) / (losses[:, b] + losses[:, a]))  # of the log ratio, but bounded
    relative[np.abs(relative) <= _NOISE] = 0.0
    rows = relative.reshape(len(parts), -1).T
    pvalue, _ = sign_flips(rows, _FLIPS, seed)
    names = np.array(shared, dtype=object)
    n = len(POSITIONS)
    index = pd.MultiIndex.from_arrays(
        [np.repeat(names[a], n), np.repeat(names[b], n), np.tile(POSITIONS.round(10), len(a))],
        names=["method_a", "method_b", "position"],
    )
    with np.errstate(invalid="ignore"):
        middle = np.median(ratio, axis=0).ravel()
    wins, losses_ = (rows > 0).sum(axis=1), (rows < 0).sum(axis=1)
    table = {"ratio": middle, "wins": wins, "losses": losses_, "pvalue": pvalue, "significant": pvalue <= alpha}
    return pd.DataFrame(table, index)


def _awareness_tests(summaries: pd.DataFrame, alpha: float, absent: dict[str, str]) -> dict[str, PairwiseResult | None]:
    found: dict[str, PairwiseResult | None] = {}
    for name in TESTED:
        whole = summaries[name].unstack("method")
        table = whole.loc[whole.notna().any(axis=1)]  # the gain is not defined on a dataset with one label
        table = table.loc[:, table.notna().all()]
        n_datasets, n_methods = table.shape
        reason = ""
        if n_methods < 2 or n_datasets < 2:
            reason = "needs at least two datasets, and two methods with profiles on all of them"
        elif not (possible := feasibility(n_datasets, n_methods, alpha)).can_reject:
            reason = possible.message
        if reason:
            absent[f"awareness_tests.{name}"] = reason
        found[name] = None if reason else wilcoxon_pairs(table, minimize=SUMMARIES[name] == "min", alpha=alpha)
        gone = [m for m in whole.columns if m not in table]
        if gone and not reason:
            absent[f"awareness_tests.{name}: {some(gone)}"] = "no value on every dataset"
    return found
