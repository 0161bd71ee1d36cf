"""The loss profiles of one dataset: curves with bands, differences of pairs with p-values,
crossings, certain stretches.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from mlflow_mleval.analysis.folds.covariance import drawn_folds, variance_factor
from mlflow_mleval.analysis.folds.protocol import (
    UNPAIRED,
    Declared,
    Protocol,
    recorded_protocol,
    runs_of,
    unpaired,
)
from mlflow_mleval.analysis.folds.shared_folds import FEW_SHARED, SharedFolds, Sharing, shared_folds
from mlflow_mleval.analysis.loss_profiles import Profiles
from mlflow_mleval.errors import IncomparableRunsError
from mlflow_mleval.sentences import count, some
from mlflow_mleval.validation import AnyArray, Array, Ints

# --------------------------------------------------------------------------------------------------
# Differences of losses tested at every parameter of a profile: p-values that allow for all of them,
# and intervals of ratios.
#
# Worsley (1994), "Local maxima and the expected Euler characteristic of excursion sets of chi2, F
# and t fields", for the largest t along a parameter; Holm (1979) for step-down; Fieller (1954) for
# ratios.

#: Differences of losses below this are float noise.
NOISE = 1e-12
#: Numbers in memory at once.
BLOCK = 1 << 22


def along_parameter(difference: Array, scale: float) -> tuple[Array, Array]:
    """P-values of the differences of pairs at each parameter, corrected for testing at all of them
    in a single step; and angles.

    `difference` is pairs x R x P, by fold and parameter; `scale` the standard error of a mean over
    folds, in standard deviations of a fold. P-values are pairs x P, NaN where the differences are
    the same in every fold, but not 0; the angles between the differences at neighbouring parameters
    are pairs x (P - 1).
    """
    df = difference.shape[1] - 1
    mean = difference.mean(axis=1)
    left = difference - mean[:, None]
    size = np.sqrt((left**2).sum(axis=1))
    flat = size <= NOISE * np.sqrt(df)
    size[flat] = 1.0
    t = np.abs(mean) / (size / np.sqrt(df) * scale)
    t[flat] = np.where(np.abs(mean[flat]) <= NOISE, 0.0, np.nan)
    left /= size[:, None]
    cosine = np.abs(
        (left[..., 1:] * left[..., :-1]).sum(axis=1)
    )  # |t| is the same for a process and its negative
    angles = np.where(flat[:, 1:] | flat[:, :-1], np.pi / 2, np.arccos(np.minimum(cosine, 1.0)))
    return _anywhere(t, angles, df), angles


def _anywhere(t: Array, angles: Array, df: int) -> Array:
    """Chance that the largest of the t statistics of a pair along its profile is at least t, shape
    of t: pairs x any.
    """
    here = 2 * special.stdtr(df, -t)
    crossed = (1 + t**2 / df) ** (-(df - 1) / 2) / np.pi
    more = np.minimum(angles[:, None] * crossed[..., None], here[..., None]).sum(axis=-1)
    return np.minimum(here + more, 1.0)


def critical(angles: Array, level: float, df: int) -> Array:
    """The statistic that each pair reaches anywhere along its profile with this chance, by
    bisection.
    """
    # powers of e
    low = np.full((len(angles), 1), -7.0)
    high = np.full((len(angles), 1), 28.0)
    for _ in range(50):
        middle = (low + high) / 2
        above = _anywhere(np.exp(middle), angles, df) > level
        low = np.where(above, middle, low)
        high = np.where(above, high, middle)
    return np.exp(high[:, 0])


def fieller(
    by_fold: Array,
    first: Ints,
    second: Ints,
    width: Array,
) -> tuple[Array, Array]:
    """Fieller's interval of the ratio of the mean losses, second over first: it holds 1 where the t
    test does not reject.
    """
    mean = by_fold.mean(axis=1)
    left = by_fold - mean[:, None]
    df = by_fold.shape[1] - 1
    variance = (left**2).sum(axis=1) / df
    low, high = np.empty((2, len(first), mean.shape[1]))
    step = max(1, BLOCK // (by_fold.shape[1] * mean.shape[1]))
    for start in range(0, len(first), step):
        i = first[start : start + step]
        j = second[start : start + step]
        w = width[start : start + step, None] ** 2
        covariance = np.einsum("irp,irp->ip", left[i], left[j]) / df
        c2 = mean[i] ** 2 - w * variance[i]
        c1 = mean[i] * mean[j] - w * covariance
        c0 = mean[j] ** 2 - w * variance[j]
        with np.errstate(divide="ignore", invalid="ignore"):
            root = np.sqrt(np.maximum(c1**2 - c2 * c0, 0.0))
            ends = (c1 - root) / c2, (c1 + root) / c2
            bounded = c2 > 0  # else the first loss may be 0
            low[start : start + step] = np.where(bounded, ends[0], np.where(c0 > 0, ends[0], 0.0))
            high[start : start + step] = np.where(bounded, ends[1], np.inf)
    empty = (mean[first] <= NOISE) & (mean[second] <= NOISE)
    low = np.maximum(low, 0.0)
    high = np.maximum(high, 0.0)
    low[empty] = high[empty] = np.nan
    return low, high


@dataclass
class TestedPairs:
    """The pairs that can be tested on the same folds: their rows, corrected p-values along the
    parameter, what intervals need.
    """

    rows: Ints
    along: Array
    angles: Array
    scale: float
    by_fold: Array
    first: Ints
    second: Ints


@dataclass
class OnDataset:
    """What is known of one dataset on the way; arrays are pairs x parameters: `first` and `second`
    the mean losses of either method, `along` the p-values corrected along the parameter, `pvalue`
    those corrected over all pairs, too; low and high of the ratio; `counts` of folds on which the
    first is better, as good and worse.
    """

    dataset: str
    family: str
    n_labels: int
    at: AnyArray
    position: Array
    curves: pd.DataFrame
    methods: list[str]
    n_pairs: int
    mean: Array
    protocol: Protocol | None
    alpha: float
    tested: list[TestedPairs] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.a, self.b = np.triu_indices(len(self.methods), 1)
        self.first, self.second = self.mean[self.a], self.mean[self.b]
        self.along, self.pvalue, self.low, self.high = np.full((4, *self.first.shape), np.nan)
        self.counts = np.full((3, *self.first.shape), np.nan)
        self.n_folds = np.zeros(len(self.a), dtype=np.int64)

    @property
    def difference(self) -> Array:
        """Loss of b less loss of a, of each pair at each parameter; float noise is 0."""
        gap = self.second - self.first
        gap[np.abs(gap) <= NOISE] = 0.0
        return gap

    @property
    def significant(self) -> Array:
        """1 where a is better for certain, -1 where b is, else 0."""
        return np.where(self.pvalue <= self.alpha, np.sign(self.difference), 0)

    def add(self, where: Ints, by_fold: Array, first: Ints, second: Ints, scale: float) -> Array:
        """The t test along the parameter of pairs that go to these rows, by losses methods x folds
        x parameters; returns the angles of `along_parameter`.
        """
        _, n_folds, n_at = by_fold.shape
        angles = np.empty((len(first), n_at - 1))
        step = max(1, BLOCK // (n_at * max(n_at, n_folds)))
        for start in range(0, len(first), step):
            pairs = slice(start, start + step)
            d = by_fold[second[pairs]] - by_fold[first[pairs]]
            self.along[where[pairs]], angles[pairs] = along_parameter(d, scale)
            d[np.abs(d) <= NOISE] = 0.0
            self.counts[:, where[pairs]] = [x.sum(axis=1) for x in (d > 0, d == 0, d < 0)]
        self.n_folds[where] = n_folds
        return angles

    def rows(self) -> pd.DataFrame:
        """The rows of `ProfileComparison.table`: each pair at each parameter, over the folds that
        both have.
        """
        n_pairs, n_at = self.pvalue.shape
        methods = np.array(self.methods, dtype=object)
        symbol = "k" if self.family == "binomial" else "α"
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = self.second / self.first
        doubt = np.where(np.isnan(self.along), "it could not be tested over folds", "")
        columns = {
            "dataset": np.full(n_pairs * n_at, self.dataset, dtype=object),
            "method_a": np.repeat(methods[self.a], n_at),
            "method_b": np.repeat(methods[self.b], n_at),
            "measure": [f"{symbol}={x:g}" for x in self.at] * n_pairs,
            "difference": self.difference.ravel(),
            "low": np.nan,
            "high": np.nan,
            "pvalue": self.along.ravel(),
            "pvalue_corrected": self.pvalue.ravel(),
            "separated": (self.significant != 0).ravel(),
            **dict(zip(("wins", "ties", "losses"), self.counts.reshape(3, -1), strict=True)),
            "n": self.n_folds.repeat(n_at),
            "doubt": doubt.ravel(),
            "parameter": np.tile(self.at, n_pairs),
            "position": np.tile(self.position, n_pairs),
            "ratio": ratio.ravel(),
            "ratio_low": self.low.ravel(),
            "ratio_high": self.high.ravel(),
        }
        return pd.DataFrame(columns)

    def crossings(self) -> list[tuple[Any, ...]]:
        """Where the mean profiles of a pair are equal, between parameters at which one and then the
        other is better.
        """
        sign = np.sign(self.difference)
        sure = self.significant
        difference = self.difference
        rows = []
        for pair in np.flatnonzero((sign > 0).any(axis=1) & (sign < 0).any(axis=1)):
            at = np.flatnonzero(sign[pair])
            turns = np.flatnonzero(np.diff(sign[pair, at]))
            ends = [at[0], *at[turns + 1], len(self.at)]
            for n, turn in enumerate(turns):
                i = at[turn]
                j = at[turn + 1]
                if j == i + 1:
                    share = difference[pair, i] / (difference[pair, i] - difference[pair, j])
                    position = self.position[i] + share * (self.position[j] - self.position[i])
                else:  # equal in between
                    position = (self.position[i + 1] + self.position[j - 1]) / 2
                a = self.methods[self.a[pair]]
                b = self.methods[self.b[pair]]
                below, above = (a, b) if sign[pair, i] > 0 else (b, a)
                sides = (
                    (sure[pair, ends[n] : i + 1], sign[pair, i]),
                    (sure[pair, j : ends[n + 2]], sign[pair, j]),
                )
                certain = all((side == way).any() for side, way in sides)
                parameter = self.at[-1] ** position
                if self.family == "binomial":
                    parameter = 1 + position * (self.n_labels - 1)
                rows.append(
                    (
                        self.dataset,
                        a,
                        b,
                        float(parameter),
                        float(position),
                        below,
                        above,
                        certain,
                    )
                )
        return rows

    def claims(self) -> list[tuple[Any, ...]]:
        """Stretches of neighbouring parameters at which one method is better for certain."""
        sure = self.significant
        rows = []
        for pair in np.flatnonzero(sure.any(axis=1)):
            edges = np.flatnonzero(np.diff(sure[pair], prepend=0, append=0))
            for start, stop in zip(edges, [*edges[1:], len(self.at)], strict=True):
                if start < len(self.at) and sure[pair, start]:
                    a = self.methods[self.a[pair]]
                    b = self.methods[self.b[pair]]
                    better, worse = (a, b) if sure[pair, start] > 0 else (b, a)
                    rows.append(
                        (
                            self.dataset,
                            better,
                            worse,
                            self.at[start].item(),
                            self.at[stop - 1].item(),
                            self.n_labels,
                        )
                    )
        return rows


@dataclass(frozen=True)
class Asked:
    """What is asked of the profiles of every dataset, of which pairs, and where is told what cannot
    be answered (`absent`) or believed (`warnings`).
    """

    profiles: Profiles
    family: str
    parameters: ArrayLike | None
    alpha: float
    n_resamples: int
    seed: int
    declared: Declared
    chosen: Sequence[str]
    absent: dict[str, str]
    warnings: list[str]


def on_dataset(asked: Asked, dataset: str) -> OnDataset:
    """Curves with bands, differences of pairs, and their p-values along the parameter."""
    profiles = asked.profiles
    curve = dataset, asked.family, asked.parameters
    losses = profiles.by_row(*curve)
    at = profiles.parameters(*curve)
    position = profiles.positions(*curve)
    everyone = list(losses)
    rng = np.random.default_rng([asked.seed, profiles.datasets.index(dataset)])
    folds = {m: profiles.folds[dataset, m] for m in everyone}
    shared, sharings, how = _sharings(asked, dataset, folds)
    mean = np.array([losses[m].mean(axis=0) for m in everyone])
    low, high = np.full((2, *mean.shape), np.nan)
    for n_folds in sorted({len(f) for f in folds.values()} - {0, 1}):
        which = [i for i, m in enumerate(everyone) if len(folds[m]) == n_folds]
        ratio: float | None = 1 / (n_folds - 1)
        if how is not None and how.n_folds == n_folds:
            ratio = how.headline_ratio
        values = np.array([losses[everyone[i]] for i in which])
        low[which], high[which] = _bands(values, ratio, asked.alpha, asked.n_resamples, rng)
    index = pd.MultiIndex.from_product(
        [[dataset], everyone, at.tolist()], names=["dataset", "method", "parameter"]
    )
    columns = {
        "position": np.tile(position, len(everyone)),
        "loss": mean.ravel(),
        "low": low.ravel(),
        "high": high.ravel(),
    }
    methods = [m for m in everyone if m in set(asked.chosen)]
    part = OnDataset(
        dataset,
        asked.family,
        profiles.n_labels[dataset],
        at,
        position,
        pd.DataFrame(columns, index),
        methods,
        len(everyone) * (len(everyone) - 1) // 2,
        mean[[everyone.index(m) for m in methods]],
        how,
        asked.alpha,
    )
    if len(part.a) and shared is not None:
        _test(asked, part, losses, shared, sharings)
    if n := sum(int(np.isnan(pairs.along).sum()) for pairs in part.tested):
        asked.warnings.append(
            f"On {dataset}: {n} differences are the same in every fold and cannot be tested."
        )
    return part


def _sharings(
    asked: Asked,
    dataset: str,
    folds: Mapping[str, tuple[Hashable, ...]],
) -> tuple[SharedFolds | None, list[Sharing], Protocol | None]:
    """Which folds the methods share, and how these came about; None where nothing can be tested."""
    key = f"tests.{dataset}"
    runs = asked.profiles.runs
    absent = asked.absent
    kind = asked.declared.get("protocol")
    ratio = asked.declared.get("ratio")
    several = [m for m, f in folds.items() if len(f) > 1]
    if not several:
        absent[key] = "no profile by fold: a test along the profile needs at least two folds"
        return None, [], None
    labels = sorted({fold for theirs in folds.values() for fold in theirs}, key=str)
    index = pd.MultiIndex.from_tuples(
        [(m, labels.index(f)) for m, theirs in folds.items() for f in theirs]
    )
    shared: Any = None
    sharings: list[Any] = []
    try:
        try:
            shared = shared_folds(pd.DataFrame({"loss": 0.0}, index), dataset, list(folds))
            sharings, _, notes = shared.sharings(
                runs_of(runs, dataset, shared.methods), kind, ratio
            )
            how = sharings[0].how
            notes = [*notes, *shared.notes]
        except IncomparableRunsError:
            absent[key] = "fewer than two methods have the same folds"
            how, notes = recorded_protocol(
                runs_of(runs, dataset, several[:1]),
                len(folds[several[0]]),
                kind,
                ratio,
            )
    except ValueError as error:
        absent[key] = str(error)
        return None, [], None
    if shared is not None and shared.excluded:
        absent[f"{key}: {some(e.name for e in shared.excluded)}"] = (
            "fewer than two folds in common with each other method"
        )
    f_test = how.caution if how.kind == "5x2" else ""  # the F test's, which is not made here
    asked.warnings.extend(f"On {dataset}: {note}" for note in notes if note != f_test)
    # by their numbers here, as the profiles know them
    return shared and replace(shared, folds=[labels[k] for k in shared.folds]), sharings, how


def _bands(
    values: Array,
    ratio: float | None,
    alpha: float,
    n_resamples: int,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """Low and high of the means over drawn folds, the same folds for all; values are methods x
    folds x parameters.
    """
    n_methods, n_folds, _ = values.shape
    mean = values.mean(axis=1)
    drawn = drawn_folds(rng, n_folds, n_resamples, ratio)
    ends = np.empty((2, *mean.shape))
    step = max(1, BLOCK // (n_resamples * mean.shape[1]))
    for i in range(0, n_methods, step):
        moved = np.einsum(
            "irp,dr->ipd",
            values[i : i + step] - mean[i : i + step, None],
            drawn,
            optimize=True,
        )
        ends[:, i : i + step] = mean[i : i + step] + np.quantile(
            moved, [alpha / 2, 1 - alpha / 2], axis=2
        )
    return tuple(np.clip(ends, 0, 1))


def _by_fold(
    profiles: Profiles,
    dataset: str,
    losses: Mapping[str, Array],
    methods: list[str],
    folds: AnyArray,
) -> Array:
    """The losses of these methods on folds that they share: methods x folds x parameters."""
    theirs = [profiles.folds[dataset, m] for m in methods]
    orders = [[own.index(fold) for fold in folds] for own in theirs]
    return np.array([losses[m][order] for m, order in zip(methods, orders, strict=True)])


def _test(
    asked: Asked,
    part: OnDataset,
    losses: Mapping[str, Array],
    shared: SharedFolds,
    sharings: Sequence[Sharing],
) -> None:
    """The t test over the folds of each pair at every parameter, p-values corrected along it."""
    place = {m: i for i, m in enumerate(part.methods)}
    rows = np.full((len(place), len(place)), -1)
    rows[part.a, part.b] = np.arange(len(part.a))
    runs = runs_of(asked.profiles.runs, part.dataset, part.methods)
    _, notes = unpaired(runs, [m for m in shared.methods if m in place])
    asked.warnings.extend(f"On {part.dataset}: {note}" for note in notes)
    n_unpaired = n_few = 0
    for sharing in sharings:
        names = [shared.methods[k] for k in sharing.members]
        inside = np.array([m in place for m in names])
        i, j = (side[sharing.inner] for side in np.triu_indices(len(names), 1))
        chosen = going = inside[i] & inside[j]
        differ, _ = unpaired(runs, names)
        if differ is not None:
            going = chosen & ~differ[sharing.inner]
        n_unpaired += int((chosen & ~going).sum())
        n_folds = int(sharing.folds.sum())
        if n_folds < 2:
            n_few += int(going.sum())
        if n_folds < 2 or not going.any():
            continue
        here = [m for m in names if m in place]
        folds = np.array(shared.folds, dtype=object)[sharing.folds]
        by_fold = _by_fold(asked.profiles, part.dataset, losses, here, folds)
        at = np.cumsum(inside) - 1
        first, second = at[i[going]], at[j[going]]
        positions = np.array([place[m] for m in here])
        where = rows[positions[first], positions[second]]
        scale = float(np.sqrt(variance_factor(n_folds, sharing.how.headline_ratio)))
        angles = part.add(where, by_fold, first, second, scale)
        if not shared.whole.all():  # the means are those over the same folds, too
            means = by_fold.mean(axis=1)
            part.first[where], part.second[where] = means[first], means[second]
        along = part.along[where]
        part.tested.append(TestedPairs(where, along, angles, scale, by_fold, first, second))
    for reason, n in ((UNPAIRED, n_unpaired), (FEW_SHARED, n_few)):
        if n:
            asked.absent[f"tests.{part.dataset}: {count(n, 'pair')}"] = reason
