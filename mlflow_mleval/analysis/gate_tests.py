"""May a candidate replace a champion? One-sided tests of paired differences against margins.

Berger (1982), "Multiparameter hypothesis testing and acceptance sampling" (each measure is tested
at the whole level where all of them must pass); Westfall & Young (1993) for the largest of several
statistics; Tango (1998) and Owen (2001), "Empirical likelihood", for what was not seen yet;
Bahadur & Savage (1956) for what cannot be seen; Nadeau & Bengio (2003) for folds; Waudby-Smith &
Ramdas (2024) for bets.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil, inf, isnan, log, log2, nan, pi
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import sparse, special

from mlflow_mleval.analysis.pairs import (
    cluster_doubts,
    cluster_numbers,
    holm,
    variance_factor,
)
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
#: Futures that are drawn at a time, how many times at most, what power is near the one wanted, and
#: units seen that futures are drawn from.
_FUTURES, _TRIALS, _NEAR, _MOST_SEEN = 200, 6, 0.1, 1_000
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
    """What candidate and champion share: candidate minus champion, units x measures, turned so that
    more is better; NaN is missing.
    """

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
        if self.clusters is None:
            return None
        return cluster_numbers(self.clusters, len(self.differences))

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
    `anytime` decides by bets, in the order of the rows.
    """

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
    """Ship, block, or run more: both errors are at most alpha.

    Of single answers a p-value is the larger of two. Sign changes take differences to be symmetric:
    few answers that differ are not, and of few answers the sums form a lattice. The score statistic
    has the variance of the likeliest distribution under the hypothesis, in which the worst unit may
    have been unseen (Tango's for differences of -1, 0 and 1), and Student's t with n - 1 degrees.
    Of means of many answers it is the larger of sign changes and a t test; five units at least.
    """
    if terms.anytime and units.means:
        raise ValueError(
            "`anytime` takes single answers or instances, got means of many. Leave it out."
        )
    rows = _rows(units, units.differences, terms)
    counted = _rows(units, units.counted, terms) if units.lost else rows
    unknown = [measure for measure in units.unknown if measure in terms.margins]
    look = _by_bets if terms.anytime else _at_once
    about = [(row.measure, row.slice, int(row.size), row.mean, row.margin) for row in rows]
    names = ["measure", "slice", "n", "difference", "margin"]
    table = pd.DataFrame(about, columns=names).assign(**look(rows, counted, terms))
    no_end = table["measure"].isin(unknown)
    table.loc[no_end, ["pvalue_not_worse", "pvalue_better"]] = 1.0
    table.loc[no_end, "low"] = -inf
    # What is lost of a part may be what blocks: that is asked of parts, which need not pass.
    if_lost = np.ones(len(rows))
    if units.lost and units.slices:
        worse = look(counted, counted, terms)["pvalue_worse"]
        if_lost = np.where(table["slice"] == ALL, 1.0, worse)
    decision = _judged(table, counted, if_lost, terms.alpha)
    evidence = min((row.evidence for row in counted if row.decides), default=0.0)
    return GateTests(
        decision,
        table[[*_COLUMNS]],
        needed_units(units, terms) if decision == "run more" else dict(_UNKNOWN),
        0.0 if (table["verdict"] == "lost").any() else evidence,
        len(units.differences),
        None if units.numbers is None else int(units.numbers.max()) + 1,
        units.lost,
        terms,
        (*_doubts(units, rows, unknown),),
    )


def _judged(table: pd.DataFrame, rows: _Rows, if_lost: Array, alpha: float) -> Decision:
    """What follows of all rows; the table gets the verdict on each, and why others have none."""
    lacks = np.array([row.lacks for row in rows], dtype=object)
    wanted = np.array([row.wanted for row in rows])
    certain = table.filter(like="pvalue_") <= alpha
    verdicts = {
        "worse": certain["pvalue_worse"],
        "not judged": lacks != "",
        "lost": if_lost <= alpha,
        "better": wanted & certain["pvalue_better"] & certain["pvalue_not_worse"],
        "not worse": ~wanted & certain["pvalue_not_worse"],
    }
    table["verdict"] = np.select([*verdicts.values()], [*verdicts], "open").astype(object)
    table["reason"] = np.where(table["verdict"] == "not judged", lacks, "")
    said = {*table["verdict"]}
    deciding = {*table["verdict"][[row.decides for row in rows]]}
    if "worse" in said:
        return "block"
    passes = deciding and deciding <= {"better", "not worse"} and "lost" not in said
    return "ship" if passes else "run more"


#: Where no number of units is known that it takes.
_UNKNOWN = {"zero": nan, "observed": nan}
_COLUMNS = (
    *("measure", "slice", "n", "difference", "low", "high", "margin"),
    *("pvalue_worse", "pvalue_not_worse", "pvalue_better", "verdict", "reason"),
)


@dataclass(frozen=True)
class _Row:
    """A measure on a slice: its differences, summed by independent unit, and how many these are."""

    measure: str
    slice: str
    sums: Array
    sizes: Array
    margin: float
    bound: float
    wanted: bool
    enough: bool
    means: bool
    ratio: float | None

    @property
    def size(self) -> float:
        return float(self.sizes.sum())

    @property
    def mean(self) -> float:
        return float(self.sums.sum() / self.size) if self.size else nan

    @property
    def lacks(self) -> str:
        """Why it is not judged; empty where it is."""
        if not self.margin >= 0:
            return "it has no margin"
        if not self.enough:
            return f"fewer than {LEAST_UNITS} units"
        if isnan(self.bound) and not self.means:
            return "it has no bound"
        return "" if self.size > 0 else "no unit has a value"

    @property
    def judged(self) -> bool:
        """Whether anything is decided of it."""
        return not self.lacks

    @property
    def decides(self) -> bool:
        """Whether it must pass for the candidate to be shipped."""
        return self.judged and self.slice == ALL

    @property
    def floor(self) -> float:
        """Minus the margin; zero without one."""
        return -self.margin if self.margin >= 0 else 0.0

    def excess(self, centre: float, sign: int) -> Array:
        """By unit, how much larger its sum is than with this mean; if the sign is -1, smaller."""
        return sign * (self.sums - centre * self.sizes)

    @cached_property
    def sample(self) -> Sample:
        """What is tested against Student's t."""
        if not self.means:
            return Sample.of(self.sums, self.sizes, self.bound)
        there = self.sizes > 0
        n = max(int(there.sum()), 2)
        spread = np.sum(self.excess(self.mean, 1)[there] ** 2) / (n - 1)
        error = float(np.sqrt(spread * variance_factor(n, self.ratio)))
        return Sample(self.sums[there], self.sizes[there], np.ones(there.sum()), self.bound, error)

    def limit(self, critical: float, level: float, sign: int) -> float:
        """The mean beyond which, downwards or, if the sign is -1, upwards, the statistic of sign
        changes is larger than this, and the p-value by t smaller than the level.
        """
        if not self.size or (isnan(self.bound) and not self.means):
            return nan
        end = inf if isnan(self.bound) else self.bound
        low, high = Moments.of(self.sums, self.sizes).limits(critical)
        return self.sample.limit(level, sign, float(np.clip(low if sign > 0 else high, -end, end)))

    def capital(self, centre: float, sign: int) -> Array:
        """Log of the capital after each unit of bets against the same hypothesis."""
        there = self.sizes > 0
        mean = self.excess(centre, sign)[there] / self.sizes[there]
        most_lost = self.bound + sign * centre
        if most_lost <= 0:
            return np.full(len(mean), inf)  # no unit can be as bad as that
        with np.errstate(divide="ignore"):  # all of a capital may be lost
            steps = np.log1p(np.maximum(BETS[:, None] * mean / most_lost, -1.0))
        paths = np.cumsum(steps, axis=1) + np.log(SHARES)[:, None]
        return np.logaddexp.reduce(paths, axis=0)

    def largest(self, centre: float, sign: int) -> float:
        """Log of the largest capital so far; of a measure without a bound, none."""
        return nan if isnan(self.bound) else float(self.capital(centre, sign).max(initial=0.0))

    @property
    def evidence(self) -> float:
        """E-value of bets against what must not be shipped; of a measure without a bound, none."""
        if isnan(self.bound):
            return 0.0
        centres = [self.floor, 0.0][: 1 + self.wanted]
        least = min(self.capital(centre, 1)[-1] for centre in centres)
        return float(np.exp(min(least, 700.0)))

    def limit_of_bets(self, critical: float, sign: int) -> float:
        """The mean beyond which bets have reached this; of a measure without a bound, none."""
        if isnan(self.bound) or not self.size:
            return nan
        return crossing(
            lambda centre: critical - self.largest(centre, sign), -sign * self.bound, self.mean
        )

    def passes(self, centre: float, times: Array, alpha: float, evidence: float | None) -> Bools:
        """By sample (futures x units: how often each is in it) whether the mean is shown to be
        larger, with so much evidence if any is asked for.
        """
        x = self.excess(centre, 1)
        if evidence is not None:
            worst = self.bound + centre
            if worst <= 0:
                return np.ones(len(times), bool)
            stakes = np.maximum(BETS[:, None] * x / worst, -1 + 1e-12)
            capital = special.logsumexp(times @ np.log1p(stakes).T + np.log(SHARES), axis=1)
            return np.asarray(capital >= log(evidence))
        n, total, squares = times.sum(axis=1), times @ x, times @ x**2
        with np.errstate(divide="ignore", invalid="ignore"):
            signs = np.nan_to_num(total / np.sqrt(squares))
            if self.means:
                spread = (squares - total**2 / n) / (n - 1) * variance_factor(n[0], self.ratio)
                by_t = np.nan_to_num(total / n / np.sqrt(spread))
            else:
                x, place = np.unique(x, return_inverse=True)
                alike = sparse.csr_array((np.ones(len(place)), (np.arange(len(place)), place)))
                by_t = score(x, -(self.bound + centre) * self.sizes.mean(), times @ alike)
        return (signs >= special.ndtri(1 - alpha)) & (by_t >= special.stdtrit(n - 1, 1 - alpha))


_Rows: TypeAlias = Sequence[_Row]


def _rows(units: Differences, differences: pd.DataFrame, terms: Terms) -> list[_Row]:
    parts: dict[str, Any] = {ALL: np.ones(len(differences), bool), **units.slices}
    rows = []
    for name, part in parts.items():
        own = isinstance(part, pd.DataFrame)
        frame = part if own else differences
        for measure in frame:
            values = frame[measure].to_numpy(float)
            if not own:
                values = np.where(np.asarray(part, bool), values, nan)
            sums, sizes = cluster_sums(values[:, None], units.numbers)
            row = _Row(
                measure,
                name,
                sums[:, 0],
                sizes[:, 0],
                margin=terms.margins.get(measure, nan),
                bound=float(units.bounds.get(measure, nan)),
                wanted=measure in terms.improve and name == ALL,
                enough=name == ALL or own or sizes.sum() >= LEAST_UNITS,
                means=units.means,
                ratio=units.ratio,
            )
            rows.append(row)
    return rows


# --------------------------------------------------------------------------------------------------
# One look: sign changes together with Student's t.


def _at_once(rows: _Rows, counted: _Rows, terms: Terms) -> dict[str, Array]:
    """P-values and limits of all rows, where what is lost does not count and where it does; see
    `GateTests.table`.
    """
    alpha, floors = terms.alpha, np.array([row.floor for row in rows])
    gains = [k for k, row in enumerate(counted) if row.wanted]
    columns = [row.excess(row.floor, -1) for row in rows]
    if counted is not rows:
        columns += [row.excess(row.floor, 1) for row in counted]
    columns += [counted[k].excess(0.0, 1) for k in gains]
    x = np.stack(columns, axis=1)
    length = np.sqrt(np.einsum("ij,ij->j", x, x))
    x /= np.where(length > 0, length, 1.0)
    drawn = _sums(x, terms)
    falls, rises = drawn[:, : len(rows)], drawn[:, len(rows) : 2 * len(rows)]
    if counted is rows:
        rises = -falls
    worse, most, level = np.ones(len(rows)), inf, alpha
    at = np.flatnonzero([row.judged for row in rows]).tolist()
    if at:
        of_t = np.array([rows[k].sample.pvalue(rows[k].floor, -1) for k in at])
        signs, normal = falls[:, at], _normal(x[:, at], terms)
        by_signs = step_down(signs[0], by_columns(signs), len(signs))
        by_t, largest = normal_step_down(
            of_t, -special.ndtri(of_t), by_columns(normal), len(normal)
        )
        worse[at] = np.maximum(by_signs.joint / len(signs), by_t)
        most = critical(by_signs.largest, alpha)
        level = min(float(special.ndtr(-critical(largest, alpha))), alpha)
    high = np.array([row.limit(most, level, -1) for row in rows])
    low, not_worse, better = np.full((3, len(rows)), nan)
    for k, row in enumerate(counted):
        not_worse[k] = max(share(rises[:, k], rises[0, k]), row.sample.pvalue(row.floor, 1))
        low[k] = row.limit(critical(rises[:, k], alpha), alpha, 1)
    for k, of_gain in zip(gains, drawn[:, len(columns) - len(gains) :].T, strict=True):
        better[k] = max(share(of_gain, of_gain[0]), counted[k].sample.pvalue(0.0, 1))
    return {
        "low": low,
        # The step-down test may reject what the limits of a single step do not.
        "high": np.where(worse <= alpha, np.minimum(high, floors), high),
        "pvalue_worse": worse,
        "pvalue_not_worse": not_worse,
        "pvalue_better": better,
    }


def _sums(columns: Array, terms: Terms) -> Array:
    """Draws x columns: sums under common changes of sign, those of the data first. Of many units
    none of which holds much of the squares, the sums are normal.
    """
    squares, large = columns**2, np.zeros(len(columns), bool)
    while len(columns) - large.sum() > UNITS:
        rest = squares[~large].sum(axis=0) / _ALIKE
        found = (squares > rest).any(axis=1) & ~large
        if not found.any():
            break
        large |= found
    else:
        return Signs(len(columns), terms.n_resamples, terms.seed, one_sided=True).sums(columns)
    small = columns[~large]
    sums = np.concatenate([small.sum(axis=0)[None], _normal(small, terms)])
    if large.any():
        signs = Signs(int(large.sum()), terms.n_resamples, terms.seed + 1, one_sided=True)
        of_large = signs.sums(columns[large])
        if signs.exact:
            at = np.random.default_rng(signs.seed).integers(signs.changes, size=len(sums))
            at[0] = 0
            of_large = of_large[at]
        sums += of_large
    return sums


def _normal(columns: Array, terms: Terms) -> Array:
    """Draws x columns: normal values with the covariances that the sums of the columns have under
    common changes of sign; as many as there are other changes.
    """
    n = Signs(len(columns), terms.n_resamples, one_sided=True).changes - 1
    return normal_draws(columns.T @ columns, n, terms.seed)


# --------------------------------------------------------------------------------------------------
# Bets.


def _by_bets(rows: _Rows, counted: _Rows, terms: Terms) -> dict[str, Array]:
    """As `_at_once`, by the largest capital of bets so far; corrected over all rows with a margin
    and a bound, since those that are too small today may be judged at the next look.
    """
    judged = np.array([row.judged for row in rows])
    family = np.array([row.margin >= 0 and not isnan(row.bound) for row in rows])

    def pvalues(rows: _Rows, sign: int, floors: bool = True) -> Array:
        return np.exp([-row.largest(row.floor * floors, sign) for row in rows])

    worse = np.where(judged, pvalues(rows, -1), 1.0)
    worse[family] = holm(worse[family])
    own = log(1 / terms.alpha)
    upper = np.where(judged, own + log(max(int(family.sum()), 1)), own)
    return {
        "low": np.array([row.limit_of_bets(own, 1) for row in counted]),
        "high": np.array([r.limit_of_bets(c, -1) for r, c in zip(rows, upper, strict=True)]),
        "pvalue_worse": worse,
        "pvalue_not_worse": pvalues(counted, 1),
        "pvalue_better": pvalues(counted, 1, floors=False),
    }


# --------------------------------------------------------------------------------------------------
# What follows.


def needed_units(
    units: Differences, terms: Terms, evidence: float | None = None
) -> dict[str, float]:
    """`GateTests.needed`, by the gate on futures: samples of the units seen, of which the sign is
    drawn where the two are to be equal; what is lost is lost again. `evidence` is what a ledger
    asks for.
    """
    seen, counted = (_rows(units, table, terms) for table in (units.differences, units.counted))
    deciding = [row for row in counted if row.decides]
    n = len(counted[0].sums)
    if n < LEAST_SEEN or not deciding or {*units.unknown} & {*terms.margins}:
        return dict(_UNKNOWN)
    # a variance is known as well as where so many units differ, each by as much
    squares = np.array([row.sums for row in deciding]) ** 2
    ends = (1 / n + 1 / LEAST_DIFFERENT) * squares.sum(axis=1) ** 2
    if ((squares**2).sum(axis=1) > ends).any() or not squares.any(axis=1).all():
        return dict(_UNKNOWN)
    taken = np.random.default_rng(terms.seed).permutation(n)[:_MOST_SEEN]
    columns = [column[taken] for row in (*seen, *counted) for column in (row.sums, row.sizes)]
    _, first, times = np.unique(
        np.column_stack(columns), axis=0, return_index=True, return_counts=True
    )
    kinds = taken[first]
    seen, counted = (
        [replace(row, sums=row.sums[kinds], sizes=row.sizes[kinds]) for row in rows]
        for rows in (seen, counted)
    )
    # If they are equal, each unit seen is two kinds.
    ways = {"zero": np.array([[1.0], [-1.0]]), "observed": np.ones((1, 1))}
    return {
        of: _Future.of(seen, counted, times, sign, terms, evidence).least()
        for of, sign in ways.items()
    }


@dataclass(frozen=True)
class _Future:
    """Gates on units of the kinds of those seen, each with its share: the rows that decide, and
    what blocks, which must be beyond the critical value; where bets decide, the capital that it
    takes.
    """

    deciding: _Rows
    shares: Array
    falls: Array
    beyond: float
    terms: Terms
    evidence: float | None
    rng: np.random.Generator

    @classmethod
    def of(
        cls,
        seen: _Rows,
        counted: _Rows,
        times: Ints,
        ways: Array,
        terms: Terms,
        evidence: float | None,
    ) -> _Future:
        """Of rows with a value a kind, each of which was seen so many times, turned these ways, but
        for what is lost.
        """

        def turned(row: _Row, kept: _Row) -> _Row:
            sums = (ways * kept.sums + (row.sums - kept.sums)).ravel()
            return replace(row, sums=sums, sizes=np.tile(row.sizes, len(ways)))

        counted = [turned(row, kept) for row, kept in zip(counted, seen, strict=True)]
        blocking = [turned(row, row) for row in seen if row.judged]
        # A part may block if what is lost is as bad as can be.
        blocking += [row for row in counted if row.judged and row.slice != ALL]
        falls = np.stack([row.excess(row.floor, -1) for row in blocking], axis=1)
        unit = falls / (np.sqrt((falls**2).sum(axis=0)) + 1e-300)
        drawn = _normal(unit, replace(terms, n_resamples=1_999))
        return cls(
            [row for row in counted if row.decides],
            np.tile(times / times.sum() / len(ways), len(ways)),
            falls,
            critical(drawn.max(axis=1), terms.alpha),
            terms,
            evidence or (1 / terms.alpha if terms.anytime else None),
            np.random.default_rng(terms.seed),
        )

    def least(self) -> float:
        """The least number of units with which a share .8 of the gates ships: from that of normal
        and independent means on, by the normal relation of power to numbers.
        """
        apart = []  # how many squared deviations the mean is from where it must not be
        for row in self.deciding:
            x = row.excess(0.0 if row.wanted else row.floor, 1)
            mean = self.shares @ x
            if mean <= 1e-12:
                return inf
            apart.append(self.shares @ x**2 / mean**2 - 1)
        alike = np.sum(np.array(apart) * 2 >= max(apart))
        level = special.ndtri(1 - self.terms.alpha)
        if self.evidence is not None:
            level = np.sqrt(2 * log(self.evidence))  # about where bets on normal values have it

        def distance(power: float) -> float:
            return float(special.ndtri(np.clip(power, 0.01, 0.99) ** (1 / alike)) + level)

        least = LEAST_MEANS if self.deciding[0].means else ceil(log2(1 / self.terms.alpha))
        n, found = distance(POWER) ** 2 * float(max(apart)), []
        for _ in range(_TRIALS):
            n = float(max(ceil(n), least))
            if n > MOST_UNITS:
                return inf
            power = self.power(int(n))
            n *= (distance(POWER) / max(distance(power), 0.4)) ** 2
            if abs(power - POWER) <= _NEAR:
                found.append(n)
            if len(found) == 2:
                break
        return float(max(ceil(float(np.mean(found or [n]))), least))

    def power(self, n: int) -> float:
        """The share of gates on n units that ship; bets are looked at a few times on the way."""
        looks = _LOOKS if self.terms.anytime else 1
        steps = np.diff(np.linspace(0, n, looks + 1).astype(int))
        times = np.cumsum([self._drawn(step) for step in steps], axis=0)
        ships = np.ones(_FUTURES, bool)
        for row in self.deciding:
            for centre in (row.floor, 0.0)[: 1 + row.wanted]:
                going = times[:, ships]
                passes = [
                    row.passes(centre, part, self.terms.alpha, self.evidence) for part in going
                ]
                ships[ships] = np.any(passes, axis=0)
        last = times[-1][ships]
        with np.errstate(divide="ignore", invalid="ignore"):
            falls = np.nan_to_num((last @ self.falls) / np.sqrt(last @ self.falls**2))
        ships[ships] = ~(falls > self.beyond).any(axis=1)
        return float(ships.mean())

    def _drawn(self, n: int) -> Array:
        """Futures x kinds: how many of n units are of each kind."""
        kinds = len(self.shares)
        if n > 16 * kinds:
            return self.rng.multinomial(n, self.shares, _FUTURES).astype(float)
        ends = np.cumsum(self.shares)[:-1]
        drawn = (ends.searchsorted(self.rng.random(n)) for _ in range(_FUTURES))
        return np.array([np.bincount(kind, minlength=kinds) for kind in drawn], float)


def _doubts(units: Differences, rows: _Rows, unknown: Sequence[str]) -> Iterable[str]:
    if lost := units.lost:
        bad = f"; nobody knows how bad {some(unknown)} can be" if unknown else ""
        yield (
            f"The candidate lacks {lost:,} of {len(units.differences):,} units: they count as its "
            f"worst for SHIP, and are left out for BLOCK{bad}."
        )
    if small := [row.slice for row in rows if not row.enough]:
        few = some(dict.fromkeys(small))
        yield f"Slices of fewer than {LEAST_UNITS} units are not judged: {few}."
    if without := [row.measure for row in rows if row.slice == ALL and np.isnan(row.margin)]:
        yield f"Without a margin, and so without a verdict: {some(without)}."
    yield from cluster_doubts(units.clusters, units.numbers)
    independent = len(rows[0].sums)
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
    share alpha is wrong on average; for error="family" nothing is wrong with 1 - alpha.
    """
    spent = alpha * 6 / (pi * number) ** 2
    return min(spent * (ships + 1), 1.0) if error == "fdr" else spent


class Changed(NamedTuple):
    """A measure of a side: the mean of its units is not what was logged with them."""

    side: str
    measure: str
    mean: float
    logged: float


class Stands(NamedTuple):
    """A decision of an earlier look, which stands: when it was made, on how many units, and what
    these units would decide anew.
    """

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
            **{"needed": dict(tests.needed), "evidence": tests.evidence, "alpha": terms.alpha},
        }
        if self.entry is not None:
            data["ledger"] = self.entry
        if self.stands is not None:
            data["stands"] = self.stands._asdict()
        if len(self.criteria):
            data["criteria"] = self.criteria.to_dict("records")
        if whole:
            data |= {name: getattr(terms, name) for name in _SETTINGS}
            data["changed"] = [one._asdict() for one in self.changed]
            data["rows"] = self.ordered.to_dict("records")
            return plain(data | {"notes": [*self.notes, *tests.warnings], "runs": self.runs})
        rows = plain(self.ordered.drop(columns=[*_IN_WHOLE]).to_dict("records"))
        data = plain(data)
        for key, value in data.items():  # texts and lists of bounded length
            if isinstance(value, str) and len(value) > 300:
                data[key] = f"{value[:299]}…"
            elif isinstance(value, list):
                data[key] = value[:3]
        for shown in range(len(rows), -1, -1):  # as many rows as there is room for
            left = {"further_rows": len(rows) - shown} if shown < len(rows) else {}
            short = data | {"rows": rows[:shown]} | left
            if len(json.dumps(short, indent=2).encode()) <= _LARGEST:
                break
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
    return vars(value) if isinstance(value, Entry) else value
