"""Methods compared over independent repeats, such as runs with other seeds: Welch's test.

Welch (1947) for unequal variances and numbers; Holm (1979) over all pairs and measures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from scipy import special

from mlflow_mleval.analysis.fusion import Fusion, study_flows
from mlflow_mleval.analysis.pairs import (
    NOISE,
    PAIR,
    PairTests,
    jointly,
    limits_together,
    on_each,
    pairs_by_measure,
)
from mlflow_mleval.analysis.promethee import FlowsByMeasure
from mlflow_mleval.errors import IncomparableRunsError
from mlflow_mleval.measures.metric_names import directions
from mlflow_mleval.sentences import some
from mlflow_mleval.study import Study
from mlflow_mleval.validation import Array, present, probability, unique_names

if TYPE_CHECKING:
    from typing_extensions import Self

#: Repeats of every cell from which on their blocks are tested.
FEWEST = 3
#: Fewer repeats than this, and Welch's test rests on values that scatter normally.
FEW = 5


@dataclass(frozen=True, kw_only=True)
class RepeatTests(PairTests):
    """Welch's tests of every pair of methods over their repeats on one dataset: the columns of
    `pairs` (n are the repeats of the method that has fewer), then n_a, n_b, mean_a, mean_b,
    effect_size (Hedges' g), statistic and df.
    """

    unit: ClassVar[str] = "repeats"

    n_repeats: Mapping[Any, int]
    same_split: bool | None
    error: Array = field(repr=False)

    def corrected(self, table: pd.DataFrame, n_datasets: int, n_comparisons: int) -> Self:
        """The same with the corrected table, and limits that hold together on all datasets."""
        level = self.alpha / max(n_comparisons, 1)
        table = limits_together(table, self.error, table["df"], level)
        return super().corrected(table, n_datasets, n_comparisons)

    @property
    def test(self) -> str:
        """The test that decides."""
        return "Welch's t test"

    @property
    def extent(self) -> str:
        """What the tests stand on."""
        runs = [n for n in self.n_repeats.values() if n > 1]
        span = str(min(runs)) if min(runs) == max(runs) else f"{min(runs)} to {max(runs)}"
        measures = f" and {len(self.measures)} measures" if len(self.measures) > 1 else ""
        return f"over {span} repeats a method{measures}"

    @property
    def about(self) -> str:
        """What repeats measure, and what they do not."""
        return {
            True: (
                "the repeats share their split, so this is about the randomness of training on "
                "this split: not about other data from the same source, nor about other "
                "datasets"
            ),
            False: (
                "the repeats split the data in different ways; where their parts overlap, they "
                "are less independent than the test takes them to be, and nothing follows for "
                "other datasets"
            ),
            None: (
                "repeats tell how much training varies; on one split, they say nothing of other "
                "data, nor of other datasets"
            ),
        }[self.same_split]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know before believing the verdicts."""
        doubts = [*self.notes]
        if lost := {m: n for m, n in self.n_repeats.items() if n < 2}:
            doubts.append(f"Not tested, for want of a second repeat: {some(lost)}.")
        untested = self.table["pvalue"].isna()
        others = self.table[untested & ~self.table[PAIR].isin(list(lost)).any(axis=1)]
        for reason, rows in others.groupby("doubt", sort=False):
            shown = some(
                (f"{r.method_a} and {r.method_b} on {r.measure}" for r in rows.itertuples()), 6
            )
            doubts.append(f"Not tested, because {reason}: {shown}.")
        few = int(self.table["n"][~untested].min())
        if few < FEW:
            doubts.append(
                f"With as few as {few} repeats a method, {self.test} misses all but large "
                "differences, and rests on values that scatter normally, which so few cannot "
                "show."
            )
        if self.same_split is None:
            doubts.append(
                "How the repeats split the data is not recorded: on one split they say nothing "
                "of other data."
            )
        return tuple(doubts)


def repeat_tests(
    methods: Mapping[Any, pd.DataFrame],
    measures: Iterable[str] | None = None,
    *,
    minimize: Iterable[str] = (),
    maximize: Iterable[str] = (),
    same_split: bool | None = None,
    alpha: float = 0.05,
) -> RepeatTests:
    r"""Welch's test of every pair of methods, over independent repeats in any numbers.

    Repeats of one method and of another are independent samples: the same seed in two methods makes
    nothing alike, unless it also splits the data. The statistic is :math:`(\bar a - \bar b) /
    \sqrt{s_a^2/n_a + s_b^2/n_b}`; Holm corrects over all pairs and measures.

    Parameters
    ----------
    methods : mapping of name to pandas.DataFrame
        One row a repeat, one column a measure, as `Study.over` gives them; the index is the
        seed. NaN does not count.
    measures : iterable of str, optional
        Default: the columns of the first method.
    minimize, maximize : iterable of str
        Directions of measures that the registry does not know.
    same_split : bool, optional
        Whether all repeats share their split of the data, as `Study.same_split` says it; for the
        verdict.
    alpha : float
        Family-wise significance level.

    Raises
    ------
    IncomparableRunsError
        Fewer than two methods with two repeats, or nothing that can be tested.
    ValueError
        No measure, one without a direction or one that a method lacks, or infinite values.

    Examples
    --------
    >>> a = pd.DataFrame({"f1": [0.61, 0.62, 0.60, 0.63, 0.61]})
    >>> b = pd.DataFrame({"f1": [0.55, 0.57, 0.56, 0.54]})
    >>> found = repeat_tests({"a": a, "b": b})
    >>> found.pairs["separated"].item(), round(found.table["df"].item(), 2)
    (True, 6.12)
    """
    probability(alpha, "alpha")
    methods = {name: pd.DataFrame(rows) for name, rows in methods.items()}
    n_repeats = {name: len(rows) for name, rows in methods.items()}
    if sum(n > 1 for n in n_repeats.values()) < 2:
        has = some(f"{name} has {n}" for name, n in n_repeats.items()) or "there is none"
        raise IncomparableRunsError(
            f"a test over repeats needs two methods with two each; {has}. Train with other seeds."
        )
    measures = list(next(iter(methods.values())).columns if measures is None else measures)
    names = unique_names(measures, "measures", len(measures), "measures")
    if not names:
        raise ValueError("`measures` must hold at least one, got none.")
    better = directions(names, minimize, maximize)
    sign = np.array([-1.0 if better[m] == "min" else 1.0 for m in names])
    cube, gaps = _cube(methods, names)
    values = sign * cube
    first, second = np.triu_indices(len(methods), 1)
    found = _tested(values[first], values[second], sign)
    columns = {name: np.ravel(numbers) for name, numbers in found.items()}
    error = columns.pop("error")
    if np.isnan(columns["pvalue"]).all():
        raise IncomparableRunsError(
            f"no pair of methods can be tested: {some(dict.fromkeys(columns['doubt']))}."
        )
    made = RepeatTests(
        table=pairs_by_measure(tuple(methods), names, **columns),
        methods=tuple(methods),
        measures=names,
        alpha=alpha,
        n_repeats=n_repeats,
        same_split=same_split,
        error=error,
        notes=(f"Repeats without a value were left out: {some(gaps, 6)}.",) if gaps else (),
    )
    return jointly({"": made})[""]


def _cube(methods: Mapping[Any, pd.DataFrame], measures: Sequence[str]) -> tuple[Array, list[str]]:
    """The values as methods x repeats x measures, NaN where a method has fewer repeats; and where
    values are absent.
    """
    gaps = []
    values = np.full((len(methods), max(map(len, methods.values())), len(measures)), np.nan)
    for of, (name, rows) in zip(values, methods.items(), strict=True):
        if lacking := [m for m in measures if m not in rows]:
            raise ValueError(
                f"`methods` must all have {some(lacking)}, but {name!r} has not. Leave one of the "
                "two out."
            )
        of[: len(rows)] = rows[list(measures)].to_numpy(float)
        if bad := int(np.isinf(of).sum()):
            raise ValueError(
                f"`methods` must have finite values, got {bad} infinite ones for {name!r}."
            )
        absent = rows[list(measures)].isna().sum()
        gaps += [f"{m} in {n} of {len(rows)} of {name}" for m, n in absent.items() if n]
    return values, gaps


def _tested(a: Array, b: Array, sign: Array) -> dict[str, Any]:
    """Columns of the table, pairs x measures, of values pairs x repeats x measures, larger is
    better; positive differences are for a. `sign` turns means back to those of the measures.
    """
    (n_a, mean_a, var_a), (n_b, mean_b, var_b) = _moments(a), _moments(b)
    largest = np.fmax(*(np.fmax.reduce(np.abs(x), axis=1, initial=0.0) for x in (a, b)))
    with np.errstate(invalid="ignore", divide="ignore"):
        for variance, n in ((var_a, n_a), (var_b, n_b)):
            variance[np.sqrt(variance * (n - 1) / n) <= NOISE * largest] = 0.0
        difference = mean_a - mean_b
        parts = var_a / n_a, var_b / n_b
        error = np.sqrt(parts[0] + parts[1])
        df = error**4 / (parts[0] ** 2 / (n_a - 1) + parts[1] ** 2 / (n_b - 1))
        t = difference / error
        pooled = np.sqrt((var_a + var_b) / 2)
        effect = difference / pooled * (1 - 3 / (4 * (n_a + n_b - 2) - 1))
        pvalue = 2 * special.stdtr(df, -np.abs(t))
    n = np.minimum(n_a, n_b)
    fine = (n > 1) & (error > 0)
    tested = {
        "error": error,
        "pvalue": pvalue,
        "effect_size": effect,
        "statistic": t,
        "df": df,
    }
    doubts = {
        "it has a value in fewer than two repeats of a method": n < 2,
        "its values do not vary over repeats": ~fine,
        f"fewer than {FEW} repeats": n < FEW,
    }
    return {
        "n": n,
        "n_a": n_a,
        "n_b": n_b,
        "mean_a": sign * mean_a,
        "mean_b": sign * mean_b,
        "difference": difference,
        **{name: np.where(fine, numbers, np.nan) for name, numbers in tested.items()},
        "doubt": np.select([*doubts.values()], [*doubts], "").astype(object),
    }


def _moments(values: Array) -> tuple[Array, Array, Array]:
    """Number, mean and variance over repeats of values pairs x repeats x measures, but for NaN."""
    n = (~np.isnan(values)).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.nansum(values, axis=1) / n
        return n, mean, np.nansum((values - mean[:, None]) ** 2, axis=1) / (n - 1)


def compare_all_repeats(
    study: Study,
    absent: dict[str, str],
    measures: Iterable[str] | None = None,
    **options: Any,
) -> dict[str, RepeatTests]:
    """`repeat_tests` of every dataset, corrected over pairs, measures and datasets; `absent` gets
    why others were not tested.
    """
    measures = list(study.measures if measures is None else measures)
    sides: dict[str, Any] = {
        f"{way}imize": [m for m in measures if study.directions[m] == way] for way in ("min", "max")
    }
    if why := study.unsure("repeat"):
        absent |= dict.fromkeys(study.datasets, why)
        return {}

    def test(dataset: str) -> RepeatTests:
        repeats = study.over("repeats", dataset).tables
        lacking = [m for m in study.values.loc[dataset].index if m not in repeats]
        none = dict.fromkeys(lacking, next(iter(repeats.values())).iloc[:0])
        split = study.same_split(dataset)
        return repeat_tests({**repeats, **none}, measures, same_split=split, **sides, **options)

    tests, failed = on_each(study.datasets, test)
    absent |= {dataset: str(error) for dataset, error in failed.items()}
    return tests


def flows_of_repeats(fusion: Fusion, on: str | None = None) -> pd.DataFrame | None:
    """Net flows within blocks, one a repeat of a dataset, (dataset, number) x methods, with the
    thresholds and weights of the dataset's means; by the measure `on` alone if it is given. None
    where some cell has fewer than three whole repeats.
    """
    study = fusion.study
    if study.repeats is None or study.filled:
        return None
    by_measure = fusion.flows.by_measure
    weights = fusion.flows.weights
    if on is not None:
        by_measure = study_flows(study.select([on]))
        weights = np.ones((len(study.datasets), 1))
    parts = [_paired(study, dataset, by_measure) for dataset in study.datasets]
    if min(map(len, parts)) < FEWEST:
        return None
    of = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    blocks = np.concatenate(parts)
    numbers = np.concatenate([np.arange(len(part)) for part in parts])
    index = pd.MultiIndex.from_arrays([np.array(study.datasets)[of], numbers])
    phi = (weights[of][:, None] @ by_measure.again(blocks, of).net)[:, 0]
    return pd.DataFrame(phi, index.set_names(["dataset", "repeat"]), by_measure.methods)


def _paired(study: Study, dataset: str, flows: FlowsByMeasure) -> Array:
    """Repeats x methods x measures: those of the same seed where methods share all of theirs, but
    for further ones of some; else in order, as many as the method with fewest has.
    """
    repeats = present(study.repeats)
    none = repeats.iloc[:0].droplevel([0, 1])
    known = dataset in repeats.index.get_level_values(0)
    on = study.over("repeats", dataset).tables if known else {}
    whole = [on.get(m, none)[list(flows.measures)].dropna() for m in flows.methods]
    fewest = min(map(len, whole))
    seeds = reduce(pd.Index.intersection, [rows.index for rows in whole])
    if len(seeds) == fewest and all(rows.index.is_unique for rows in whole):
        whole = [rows.loc[seeds] for rows in whole]
    return np.stack([rows.to_numpy(float)[:fewest] for rows in whole], axis=1)
