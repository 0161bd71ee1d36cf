"""May a candidate replace a champion? One-sided tests of paired differences against margins.

Berger (1982), "Multiparameter hypothesis testing and acceptance sampling" (each measure is tested
at the whole level where all of them must pass); Westfall & Young (1993) for the largest of several
statistics; Tango (1998) and Owen (2001), "Empirical likelihood", for what was not seen yet;
Bahadur & Savage (1956) for what cannot be seen; Nadeau & Bengio (2003) for folds; Waudby-Smith &
Ramdas (2024) for bets.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil, inf, isnan, log, log2, nan, pi
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from mlflow_mleval.analysis.pairs import cluster_doubts, cluster_numbers, holm, variance_factor
from mlflow_mleval.analysis.resampling import (
    LEAST_MEANS,
    UNITS,
    Moments,
    Sample,
    Signs,
    by_columns,
    cluster_sums,
    critical,
    crossing,
    normal_draws,
    normal_step_down,
    score,
    share,
    step_down,
)
from mlflow_mleval.package import Plotted
from mlflow_mleval.sentences import agree, count, some
from mlflow_mleval.validation import Array, Bools, Ints, Places, probability

if TYPE_CHECKING:
    from typing_extensions import Self

Decision = Literal["ship", "block", "run more"]
#: A slice of fewer units is not judged.
LEAST_UNITS = 30
#: The power for which a number of units is given, and the largest number that is.
POWER, MOST_UNITS = 0.8, 10_000_000
#: The slice that holds all units.
ALL = ""
#: How many units are needed is told by no fewer than these, nor where their variance is known less
#: well than by so many units that differ: what few of them say is too large where it is said.
LEAST_SEEN, LEAST_DIFFERENT = 20, 20
#: Futures of each number of units, how many such numbers there are, and units seen that futures are
#: drawn from.
_FUTURES, _NUMBERS, _MOST_SEEN = 160, 31, 1_000
#: Shares of the capital that are bet, from all of it down, and how the capital is divided among
#: them. Large differences are soon found by large bets; each halving is for a quarter of the
#: effect, and costs the others little.
BETS = 2.0 ** -np.arange(8)
SHARES = 1 / (np.arange(1, 9) * np.arange(2, 10))
SHARES = SHARES / SHARES.sum()
#: Of many units that hold one over this of their squares at most, sums under changes of sign are
#: normal.
_ALIKE = 100
#: How often bets are looked at in a future.
_LOOKS = 8


@dataclass(frozen=True)
class Differences:
    """Candidate minus champion, units x measures, turned so that more is better; NaN is missing."""

    differences: pd.DataFrame
    #: By name, which units belong to a part that can block, or the part's own differences, which
    #: are judged however few they are.
    slices: Mapping[str, ArrayLike | pd.DataFrame] = field(default_factory=dict)
    clusters: ArrayLike | None = None
    #: By measure, the largest possible difference of one unit. A single answer may fail altogether,
    #: though rarely, so that a measure of answers without a bound is not judged.
    bounds: Mapping[str, float] = field(default_factory=dict)
    #: Whether units are means of many answers (datasets, folds, repeats), which need no bound.
    means: bool = False
    #: Size of test to training data, where units are the folds of one dataset.
    ratio: float | None = None
    #: What units that the candidate alone lacks count where it is to be shipped; minus infinity
    #: where nobody knows how bad one can be, NaN elsewhere. To block they do not count.
    worst: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def counted(self) -> pd.DataFrame:
        """Differences with what lost units count where that is known."""
        return self.differences.fillna(self.worst.where(np.isfinite(self.worst)))

    @cached_property
    def numbers(self) -> Places | None:
        """By unit the number of its cluster, if there are any."""
        given = self.clusters
        return None if given is None else cluster_numbers(given, len(self.differences))

    @property
    def lost(self) -> int:
        """Of how many units the candidate lacks a value."""
        return int(self.worst.notna().any(axis=1).sum())

    @property
    def unknown(self) -> list[str]:
        """Measures of which lost units may be anything."""
        return [measure for measure in self.worst if np.isneginf(self.worst[measure]).any()]


@dataclass(frozen=True)
class Terms:
    """What is asked of a candidate: measures without a margin are reported without a verdict, and
    `anytime` decides by bets, in the order of the rows."""

    margins: Mapping[str, float]
    improve: tuple[str, ...] = ()
    alpha: float = 0.05
    anytime: bool = False
    n_resamples: int = 9_999
    seed: int = 0

    def __post_init__(self) -> None:
        probability(self.alpha, "alpha")
        if below := [f"{v:g} for {m}" for m, v in self.margins.items() if not v >= 0]:
            raise ValueError(f"`margins` must be at least 0, got {some(below)}.")
        if without := [m for m in self.improve if m not in self.margins]:
            raise ValueError(f"`improve` must name measures with a margin, got {some(without)}.")


@dataclass(frozen=True)
class GateTests:
    """What the differences of a candidate from a champion say."""

    decision: Decision
    #: One row a measure and slice (the whole is ""): low is for the row alone, high for all rows at
    #: once, each at 1 - alpha; pvalue_worse (of no harm beyond the margin) is corrected over all
    #: rows, pvalue_not_worse and pvalue_better are not. "lost" would be worse if what the candidate
    #: lacks were as bad as can be. reason says why a row is not judged.
    table: pd.DataFrame
    #: Units with which it ships with power .8 if the true differences are "zero", or as "observed";
    #: infinite where no number is enough, NaN where there are too few to tell.
    needed: Mapping[str, float]
    #: E-value against what must not be shipped.
    evidence: float
    units: int
    clusters: int | None
    lost: int
    terms: Terms
    warnings: tuple[str, ...] = ()


def gate_tests(units: Differences, terms: Terms) -> GateTests:
    """Ship, block, or run more: both errors are at most alpha. A p-value is the larger of two: of
    sign changes, which take differences to be symmetric, and of `Sample.pvalue`, which does not."""
    if terms.anytime and units.means:
        raise ValueError(
            "`anytime` takes single answers or instances, got means of many. Leave it out."
        )
    kind = _Looks if terms.anytime else _Rows
    rows = kind.of(units, units.differences, terms)
    counted = kind.of(units, units.counted, terms) if units.lost else rows
    table = rows.table.assign(**rows.at_most, **counted.at_least)
    unknown = [measure for measure in units.unknown if measure in terms.margins]
    no_end = table["measure"].isin(unknown)
    table.loc[no_end, ["pvalue_not_worse", "pvalue_better"]] = 1.0
    table.loc[no_end, "low"] = -inf
    certain, wanted = table.filter(like="pvalue_") <= terms.alpha, table["wanted"]
    passes = certain["pvalue_not_worse"]
    verdicts = {
        "worse": certain["pvalue_worse"],
        "not judged": counted.table["lacks"] != "",
        # What is lost of a part may be what blocks: that is asked of parts, which need not pass.
        "lost": (table["slice"] != ALL) & (counted.at_most["pvalue_worse"] <= terms.alpha),
        "better": wanted & passes & certain["pvalue_better"],
        "not worse": ~wanted & passes,
    }
    table["verdict"] = np.select([*verdicts.values()], [*verdicts], "open").astype(object)
    table["reason"] = counted.table["lacks"].where(table["verdict"] == "not judged", "")
    said, deciding = {*table["verdict"]}, {table.at[k, "verdict"] for k, _ in counted.asked}
    shown = deciding and deciding <= {"better", "not worse"} and "lost" not in said
    decision: Decision = "block" if "worse" in said else "ship" if shown else "run more"
    return GateTests(
        decision,
        table[[*_COLUMNS]],
        needed_units(units, terms) if decision == "run more" else dict(_UNKNOWN),
        0.0 if "lost" in said else counted.evidence,
        len(units.differences),
        None if units.numbers is None else int(units.numbers.max()) + 1,
        units.lost,
        terms,
        (*_doubts(units, rows, unknown),),
    )


#: Why a slice is not judged.
_FEW = f"fewer than {LEAST_UNITS} units"
#: Where no number of units is known that it takes.
_UNKNOWN = {"zero": nan, "observed": nan}
_COLUMNS = (
    *("measure", "slice", "n", "difference", "low", "high", "margin"),
    *("pvalue_worse", "pvalue_not_worse", "pvalue_better", "verdict", "reason"),
)


class _Bets(NamedTuple):
    """Bets on units in their order, none of which differs by more than the bound."""

    values: Array
    bound: float

    def capital(self, centre: float, sign: int = 1) -> Array:
        """Log of the capital after each unit of bets that the mean is no larger than this; if the
        sign is -1, no smaller. Without a bound there is none."""
        most_lost = self.bound + sign * centre
        if not most_lost > 0:  # no unit can be as bad as that, or nobody knows
            return np.full(len(self.values), nan if isnan(most_lost) else inf)
        gains = sign * (self.values - centre) / most_lost
        with np.errstate(divide="ignore"):  # all of a capital may be lost
            steps = np.log1p(np.maximum(BETS[:, None] * gains, -1.0))
        return np.logaddexp.reduce(np.cumsum(steps, axis=1) + np.log(SHARES)[:, None], axis=0)

    def limit(self, level: float, sign: int) -> float:
        """The mean beyond which, downwards or, if the sign is -1, upwards, it is smaller."""
        if isnan(self.bound) or not len(self.values):
            return nan
        return crossing(
            lambda centre: -log(level) - float(self.capital(centre, sign).max(initial=0.0)),
            -sign * self.bound,
            float(self.values.mean()),
        )


@dataclass(frozen=True)
class _Rows:
    """Measures on slices, and by independent unit the sums of their differences and how many these
    are, rows x units. One look: sign changes together with Student's t."""

    #: Beside columns that are shown: bound, floor (minus the margin), whether it must be better
    #: (wanted), and what it lacks to be judged.
    table: pd.DataFrame
    sums: Array
    sizes: Array
    units: Differences
    terms: Terms

    @classmethod
    def of(cls, units: Differences, differences: pd.DataFrame, terms: Terms) -> Self:
        """The measures of all units first, then those of each slice."""
        whole = differences.reset_index(drop=True)
        frames, own = {ALL: whole}, [ALL]
        for name, part in units.slices.items():
            if isinstance(part, pd.DataFrame):
                frames[name] = part.set_axis(whole.index)
                own.append(name)
            else:
                frames[name] = whole[np.asarray(part, bool)]
        values = pd.concat(frames, axis=1, names=["slice", "measure"])
        found = cluster_sums(values.to_numpy(float), units.numbers)
        sums, sizes = (np.ascontiguousarray(x.T) for x in found)
        table = values.columns.to_frame(index=False)
        table["n"] = sizes.sum(axis=1).astype(int)
        table["difference"] = sums.sum(axis=1) / table["n"]
        table["margin"] = table["measure"].map(terms.margins).astype(float)
        table["bound"] = table["measure"].map(units.bounds).astype(float)
        table["floor"] = -table["margin"].fillna(0.0)
        table["wanted"] = (table["slice"] == ALL) & table["measure"].isin(terms.improve)
        lacks = {
            "it has no margin": table["margin"].isna(),
            _FEW: ~table["slice"].isin(own) & (table["n"] < LEAST_UNITS),
            "it has no bound": table["bound"].isna() & (not units.means),
            "no unit has a value": table["n"] == 0,
        }
        table["lacks"] = np.select([*lacks.values()], [*lacks], "").astype(object)
        return cls(table, sums, sizes, units, terms)

    @cached_property
    def judged(self) -> Ints:
        """Rows of which something is decided."""
        return np.flatnonzero(self.table["lacks"] == "")

    @cached_property
    def asked(self) -> list[tuple[int, float]]:
        """What means of rows must be above for SHIP: the floor and, where gain is wanted, zero."""
        whole = self.table.loc[self.judged].query("slice == @ALL")
        floors = [*whole["floor"].items()]
        return floors + [(k, 0.0) for k in whole.index[whole["wanted"]]]

    def excess(self, centres: ArrayLike, sign: int = 1) -> Array:
        """How much larger sums are than with these means; if the sign is -1, smaller."""
        return sign * (self.sums - np.reshape(centres, (-1, 1)) * self.sizes)

    @cached_property
    def falls(self) -> Array:
        """How far units fall below the floor, units x rows of length one."""
        return _of_length_one(self.excess(self.table["floor"], -1))

    @cached_property
    def drawn(self) -> Array:
        """Their sums under changes of sign."""
        return _sums(self.falls, self.terms)

    @cached_property
    def samples(self) -> list[Sample]:
        """What is tested against Student's t."""
        rows = zip(self.sums, self.sizes, self.table["bound"], strict=True)
        if not self.units.means:
            return [Sample.of(*row) for row in rows]
        samples = []
        for (sums, sizes, bound), mean in zip(rows, self.table["difference"], strict=True):
            there = sizes > 0
            sums, sizes, n = sums[there], sizes[there], max(int(there.sum()), 2)
            spread = np.sum((sums - mean * sizes) ** 2) / (n - 1)
            error = float(np.sqrt(spread * variance_factor(n, self.units.ratio)))
            samples.append(Sample(sums, sizes, np.ones_like(sums), bound, error))
        return samples

    def _limits(self, critical: ArrayLike, level: float, sign: int) -> Array:
        """The means beyond which, downwards or, if the sign is -1, upwards, the statistic of sign
        changes is larger than this, and the p-value by t smaller than the level."""
        low, high = Moments.of(self.sums, self.sizes).limits(critical)
        ends = self.table["bound"].fillna(inf)
        starts = np.clip(low if sign > 0 else high, -ends, ends)
        known = (self.table["n"] > 0) & (self.units.means | self.table["bound"].notna())
        limits = np.full(len(known), nan)
        for k in np.flatnonzero(known):
            limits[k] = self.samples[k].limit(level, sign, starts[k])
        return limits

    @cached_property
    def at_most(self) -> dict[str, Array]:
        """P-values of no harm beyond the margin, corrected over all rows; upper limits of means."""
        alpha, at, floors = self.terms.alpha, self.judged, self.table["floor"].to_numpy()
        pvalues, most, level = np.ones(len(floors)), inf, alpha
        if len(at):
            of_t = np.array([self.samples[k].pvalue(floors[k], -1) for k in at])
            signs, normal = self.drawn[:, at], _normal(self.falls[:, at], self.terms)
            by_signs = step_down(signs[0], by_columns(signs), len(signs))
            drawn = by_columns(normal), len(normal)
            by_t, largest = normal_step_down(of_t, -special.ndtri(of_t), *drawn)
            pvalues[at] = np.maximum(by_signs.joint / len(signs), by_t)
            most = critical(by_signs.largest, alpha)
            level = min(float(special.ndtr(-critical(largest, alpha))), alpha)
        high = self._limits(most, level, -1)
        # The step-down test may reject what the limits of a single step do not.
        high = np.where(pvalues <= alpha, np.minimum(high, floors), high)
        return {"pvalue_worse": pvalues, "high": high}

    @cached_property
    def at_least(self) -> dict[str, Array]:
        """P-values of harm of the margin, and of no gain, uncorrected; lower limits of means."""
        rises, alpha, table = -self.drawn, self.terms.alpha, self.table
        better = pd.Series(nan, table.index)
        if len(wanted := table.index[table["wanted"]]):
            gains = _sums(_of_length_one(self.excess(0.0)[wanted]), self.terms)
            better[wanted] = self._pvalues(gains, pd.Series(0.0, wanted))
        return {
            "low": self._limits([critical(column, alpha) for column in rises.T], alpha, 1),
            "pvalue_not_worse": self._pvalues(rises, table["floor"]),
            "pvalue_better": better,
        }

    def _pvalues(self, drawn: Array, centres: pd.Series[float]) -> Array:
        """Of means no larger than these: the larger of those by sign changes and by t."""
        of_t = [self.samples[k].pvalue(centre, 1) for k, centre in centres.items()]
        return np.fmax(share(drawn, drawn[0]), of_t)

    @cached_property
    def bets(self) -> list[_Bets]:
        """What is bet on."""
        rows = zip(self.sums, self.sizes, self.table["bound"], strict=True)
        return [_Bets(sums[n > 0] / n[n > 0], bound) for sums, n, bound in rows]

    @property
    def evidence(self) -> float:
        """E-value of bets against what must not be shipped; of a measure without a bound, none."""
        ends = (self.bets[k].capital(centre)[-1] for k, centre in self.asked)
        least = min(ends, default=nan)
        return 0.0 if isnan(least) else float(np.exp(min(least, 700.0)))


class _Looks(_Rows):
    """Any number of looks: by the largest capital of bets so far, corrected over all rows with a
    margin and a bound, since those that are too small today may be judged tomorrow."""

    def _bets(self, centres: ArrayLike, sign: int) -> Array:
        # one over the largest capital so far
        pairs = zip(self.bets, np.broadcast_to(centres, len(self.bets)), strict=True)
        most = [bets.capital(centre, sign).max(initial=0.0) for bets, centre in pairs]
        return np.exp(-np.array(most))

    @cached_property
    def at_most(self) -> dict[str, Array]:
        family, own = self.table[["margin", "bound"]].notna().all(axis=1), self.terms.alpha
        pvalues, levels = np.ones(len(family)), np.full(len(family), own)
        pvalues[self.judged] = self._bets(self.table["floor"], -1)[self.judged]
        pvalues[family] = holm(pvalues[family])
        levels[self.judged] = own / max(family.sum(), 1)
        rows = zip(self.bets, levels, strict=True)
        ends = np.array([bets.limit(level, -1) for bets, level in rows])
        return {"pvalue_worse": pvalues, "high": ends}

    @cached_property
    def at_least(self) -> dict[str, Array]:
        return {
            "low": np.array([bets.limit(self.terms.alpha, 1) for bets in self.bets]),
            "pvalue_not_worse": self._bets(self.table["floor"], 1),
            "pvalue_better": np.where(self.table["wanted"], self._bets(0.0, 1), nan),
        }


def _of_length_one(rows: Array) -> Array:
    """Rows x units as units x rows, each of length one unless it is zero."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.ascontiguousarray((rows / np.where(length > 0, length, 1.0)).T)


def _sums(columns: Array, terms: Terms) -> Array:
    """Draws x columns: sums of columns of length one under common changes of sign, those of the
    data first. Of many units, what those add that hold little of the squares is normal."""
    large = (columns**2 > 1 / _ALIKE).any(axis=1) | (len(columns) <= UNITS)
    signs = Signs(int(large.sum()), terms.n_resamples, terms.seed, one_sided=True)
    sums = signs.sums(columns[large]) if large.any() else np.zeros((1, columns.shape[1]))
    if large.all():
        return sums
    small = columns[~large]
    rest = np.concatenate([small.sum(axis=0)[None], _normal(small, terms)])
    if len(sums) < len(rest):  # all changes of a few
        at = np.random.default_rng(terms.seed + 1).integers(len(sums), size=len(rest))
        at[0] = 0
        sums = sums[at]
    return sums + rest


def _normal(columns: Array, terms: Terms) -> Array:
    """Draws x columns: normal values with the covariances that the sums of the columns have under
    common changes of sign; as many as there are other changes."""
    n = Signs(len(columns), terms.n_resamples, one_sided=True).changes - 1
    return normal_draws(columns.T @ columns, n, terms.seed)


# --------------------------------------------------------------------------------------------------
# What follows.


def needed_units(
    units: Differences, terms: Terms, evidence: float | None = None
) -> dict[str, float]:
    """`GateTests.needed`, by gates on samples of the units seen (of random sign where the two are
    to be equal), what is lost lost again; a ledger asks for `evidence`."""
    seen = _Rows.of(units, units.differences, terms)
    counted = _Rows.of(units, units.counted, terms)
    n = counted.sums.shape[1]
    if n < LEAST_SEEN or not counted.asked or {*units.unknown} & {*terms.margins}:
        return dict(_UNKNOWN)
    # a variance is known as well as where so many units differ, each by as much
    squares = counted.sums[[*dict(counted.asked)]] ** 2
    ends = (1 / n + 1 / LEAST_DIFFERENT) * squares.sum(axis=1) ** 2
    if ((squares**2).sum(axis=1) > ends).any() or not squares.any(axis=1).all():
        return dict(_UNKNOWN)
    taken = np.random.default_rng(terms.seed).permutation(n)[:_MOST_SEEN]
    sides = np.array([[side.sums, side.sizes] for side in (seen, counted)])[..., taken]
    of_units = sides.reshape(-1, len(taken))
    _, first, times = np.unique(of_units, axis=1, return_index=True, return_counts=True)
    (known, there), (sums, sizes) = sides[..., first]
    needed = {}
    # If they are equal, each unit seen is two kinds.
    for of, signs in (("zero", [1.0, -1.0]), ("observed", [1.0])):
        turned = np.hstack([sign * known for sign in signs])
        again = np.tile([there, sums - known, sizes], len(signs))
        rows = replace(counted, sums=turned + again[1], sizes=again[2])
        # A part may block if what is lost is as bad as can be.
        left_out = replace(seen, sums=turned, sizes=again[0])
        falls = np.where(rows.table["slice"] == ALL, left_out.falls, rows.falls)
        shares = np.tile(times / times.sum() / len(signs), len(signs))
        capital = evidence or (1 / terms.alpha if terms.anytime else None)
        needed[of] = _Future(rows, falls[:, rows.judged], shares, capital).least()
    return needed


@dataclass(frozen=True)
class _Future:
    """Gates on units of the kinds of those seen, each with its share: the rows of what must pass,
    and what blocks, kinds x rows; where bets decide, the capital that it takes."""

    rows: _Rows
    falls: Array
    shares: Array
    evidence: float | None

    @cached_property
    def beyond(self) -> float:
        """What blocks lies beyond it."""
        drawn = _normal(self.falls, replace(self.rows.terms, n_resamples=1_999))
        return critical(drawn.max(axis=1), self.rows.terms.alpha)

    def least(self) -> float:
        """The least number of units, to some per cent, with which .8 of the gates ship."""
        alpha, start = self.rows.terms.alpha, 0.0
        for k, centre in self.rows.asked:
            x = self.rows.excess(centre)[k]
            if (mean := self.shares @ x) <= 1e-12:
                return inf
            start = max(start, self.shares @ x**2 / mean**2)
        least = LEAST_MEANS if self.rows.units.means else ceil(log2(1 / alpha))
        # from where a mean is one standard error above where it must not be
        numbers = np.maximum(start * np.geomspace(1, 128, _NUMBERS), least).round()
        at = bisect_left(numbers, POWER, key=self.power)
        return float(numbers[at]) if at < _NUMBERS and numbers[at] <= MOST_UNITS else inf

    def power(self, n: float) -> float:
        """The share of gates on n units that ship; bets are looked at a few times on the way."""
        looks = _LOOKS if self.rows.terms.anytime else 1
        rng = np.random.default_rng(self.rows.terms.seed)
        steps = np.diff(np.linspace(0, n, looks + 1).astype(int))
        drawn = [rng.multinomial(step, self.shares, _FUTURES) for step in steps]
        times = np.cumsum(drawn, axis=0)
        ships = np.ones(_FUTURES, bool)
        for k, centre in self.rows.asked:
            passes = [self._passes(k, centre, part) for part in times[:, ships]]
            ships[ships] = np.any(passes, axis=0)
        last = times[-1][ships]
        with np.errstate(divide="ignore", invalid="ignore"):
            falls = np.nan_to_num((last @ self.falls) / np.sqrt(last @ self.falls**2))
        return float(np.sum((falls <= self.beyond).all(axis=1)) / _FUTURES)

    def _passes(self, k: int, centre: float, times: Array) -> Bools:
        """By future (a row of `times` says how often each kind is in it) whether the mean of a row
        is shown to be larger, by the evidence if any is asked for."""
        x, units = self.rows.excess(centre)[k], self.rows.units
        worst = self.rows.table.at[k, "bound"] + centre
        if self.evidence is not None:
            if worst <= 0:
                return np.ones(len(times), bool)
            stakes = np.maximum(BETS[:, None] * x / worst, -1 + 1e-12)
            capital = special.logsumexp(times @ np.log1p(stakes).T + np.log(SHARES), axis=1)
            return np.asarray(capital >= log(self.evidence))
        n, total, squares = times.sum(axis=1), times @ x, times @ x**2
        with np.errstate(divide="ignore", invalid="ignore"):
            signs = np.nan_to_num(total / np.sqrt(squares))
            if units.means:
                spread = (squares - total**2 / n) / (n - 1) * variance_factor(n, units.ratio)
                by_t = np.nan_to_num(total / n / np.sqrt(spread))
            else:
                alike = pd.DataFrame(times.T).groupby(x).sum()
                lost = -worst * self.rows.sizes[k].mean()
                by_t = score(alike.index.to_numpy(), lost, alike.to_numpy().T)
        level = 1 - self.rows.terms.alpha
        return (signs >= special.ndtri(level)) & (by_t >= special.stdtrit(n - 1, level))


def _doubts(units: Differences, rows: _Rows, unknown: Sequence[str]) -> Iterable[str]:
    if lost := units.lost:
        bad = f"; nobody knows how bad {some(unknown)} can be" if unknown else ""
        yield (
            f"The candidate lacks {lost:,} of {len(units.differences):,} units: they count as its "
            f"worst for SHIP, and are left out for BLOCK{bad}."
        )
    table = rows.table
    if len(few := table["slice"][table["lacks"] == _FEW].unique()):
        yield f"Slices of {_FEW} are not judged: {some(few)}."
    if len(without := table["measure"][table["margin"].isna() & (table["slice"] == ALL)]):
        yield f"Without a margin, and so without a verdict: {some(without)}."
    yield from cluster_doubts(units.clusters, units.numbers)
    independent = rows.sums.shape[1]
    if units.means and independent < LEAST_UNITS:
        yield (
            f"{count(independent, 'unit')} {agree(independent, 'is')} few: the tests take "
            "differences to lie about as often above their mean as below it."
        )


# --------------------------------------------------------------------------------------------------
# A ledger of gates: what may be shipped of a stream of candidates.


@dataclass(frozen=True)
class Entry:
    """The place of a gate in a ledger: it ships when the evidence reaches one over the level."""

    ledger: str
    number: int
    level: float
    #: Gates before it that shipped, and how often the same units were asked before.
    ships: int
    asked: int
    error: str
    #: Gates before it that took a number and entered nothing; they count as not shipped.
    silent: str = ""

    @property
    def required(self) -> float:
        """The evidence that it takes to ship."""
        return 1 / self.level


def ledger_level(alpha: float, number: int, ships: int, error: str = "fdr") -> float:
    """The level of a gate of a ledger by e-LOND (Xu & Ramdas 2024): of what is shipped at most a
    share alpha is wrong on average; for error="family" nothing is wrong with 1 - alpha."""
    spent = alpha * 6 / (pi * number) ** 2
    return min(spent * (ships + 1), 1.0) if error == "fdr" else spent


class Changed(NamedTuple):
    """A measure of a side: the mean of its units is not what was logged with them."""

    side: str
    measure: str
    mean: float
    logged: float


class Stands(NamedTuple):
    """An earlier decision, which stands: when, on how many units, what these would decide anew."""

    decision: Decision
    time: str
    units: int
    anew: Decision


@dataclass(frozen=True, kw_only=True)
class Verdict(Plotted):
    """Whether a candidate may replace a champion: ship, block, or run more."""

    candidate: str
    champion: str
    tests: GateTests
    over: str
    directions: Mapping[str, str]
    #: MLflow's quality criteria of the candidate: criterion, value, low, high, answer.
    criteria: pd.DataFrame = field(default_factory=pd.DataFrame)
    entry: Entry | None = None
    notes: tuple[str, ...] = ()
    runs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)
    changed: tuple[Changed, ...] = ()
    stands: Stands | None = None

    @property
    def decision(self) -> Decision:
        """ "ship", "block" or "run more"."""
        return self.tests.decision

    @property
    def ship(self) -> bool:
        """Whether the candidate may replace the champion."""
        return self.decision == "ship"

    @property
    def block(self) -> bool:
        """Whether the candidate is worse by more than a margin."""
        return self.decision == "block"

    @property
    def more(self) -> bool:
        """Whether it takes more units to tell."""
        return self.decision == "run more"

    @property
    def table(self) -> pd.DataFrame:
        """One row a measure and slice, see `GateTests.table`."""
        return self.tests.table

    @property
    def needed(self) -> float:
        """Units for which a candidate as good as the champion is shipped with probability .8."""
        return self.tests.needed["zero"]

    @property
    def text(self) -> str:
        """The verdict in words, as a product owner reads it."""
        return self.report().sections[0].blocks[0].plain

    @property
    def ordered(self) -> pd.DataFrame:
        """The table with the rows first that decide."""
        table = self.table.assign(place=self.table["verdict"].map(_ORDER.index))
        by = ["place", "slice", "difference"]
        return table.sort_values(by, kind="stable", ignore_index=True).drop(columns="place")

    def to_dict(self, whole: bool = False) -> dict[str, Any]:
        """Plain data: below 2 kB with the rows that matter most, or all of it."""
        tests, terms = self.tests, self.tests.terms
        data = {
            **{"decision": self.decision, "text": self.text},
            **{"candidate": self.candidate, "champion": self.champion},
            **{"over": self.over, "units": tests.units, "lost": tests.lost / tests.units},
            **{"needed": tests.needed, "evidence": tests.evidence, "alpha": terms.alpha},
        }
        beside = {
            "ledger": self.entry and vars(self.entry),
            "stands": self.stands and self.stands._asdict(),
            "criteria": self.criteria[: None if whole else 3].to_dict("records"),
        }
        data |= {key: value for key, value in beside.items() if value}
        rows = self.ordered
        if whole:
            data |= {name: getattr(terms, name) for name in _SETTINGS}
            data["changed"] = [one._asdict() for one in self.changed]
            data["rows"] = rows.to_dict("records")
            return plain(data | {"notes": [*self.notes, *tests.warnings], "runs": self.runs})
        for key, value in data.items():
            if isinstance(value, str) and len(value) > 300:
                data[key] = f"{value[:299]}…"
        records = rows.drop(columns=[*_IN_WHOLE]).to_dict("records")
        short = plain(data | {"rows": records})
        while len(json.dumps(short, indent=2).encode()) > _LARGEST and short["rows"]:
            short["rows"].pop()
            short["further_rows"] = len(records) - len(short["rows"])
        return short

    def to_markdown(self) -> str:
        """For the text of a pull request."""
        return str(self.report().to_markdown())

    def to_html(self, path: Any = None) -> str:
        """A page with a forest plot; written to `path` if that is given."""
        return str(self.report().to_html(path))

    def __repr__(self) -> str:
        return str(self.report())


#: Settings and columns that only all of the data has.
_SETTINGS = ("improve", "anytime", "n_resamples", "seed")
_IN_WHOLE = ("n", "pvalue_worse", "pvalue_not_worse", "pvalue_better", "reason")
#: Rows by what they say, those that decide first.
_ORDER = ("worse", "lost", "open", "better", "not worse", "not judged")
#: Bytes of the data of a verdict.
_LARGEST = 1_950


def plain(value: Any) -> Any:
    """Plain data for JSON: rounded to six digits, without NaN or infinity."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if np.isfinite(value) else None
    return value
