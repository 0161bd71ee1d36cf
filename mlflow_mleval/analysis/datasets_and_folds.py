"""What the folds or repeats of every dataset decide together; and whether a method would be better
on the next one, from all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from scipy.stats import binom

from mlflow_mleval.analysis.folds.fold_comparison import FoldComparison, compare_folds
from mlflow_mleval.analysis.folds.protocol import Declared, runs_of, shared_folds, widest
from mlflow_mleval.analysis.hierarchical_t import HierarchicalT, hierarchical_pairs
from mlflow_mleval.analysis.pairs import (
    PAIR,
    PairTests,
    behind,
    better_first,
    jointly,
    named_pairs,
    places,
)
from mlflow_mleval.analysis.posthoc.description import PairsTested, Posthoc, Tested
from mlflow_mleval.errors import MlevalError
from mlflow_mleval.measures.registry import MEASURES
from mlflow_mleval.sentences import count, some
from mlflow_mleval.study import Study

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Of accuracies, the paper takes differences up to a hundredth as too small to matter.
ROPE = 0.01
#: Of more methods than this only the best so many are compared, on so many measures.
MOST = 8
MEASURES_AT_MOST = 2


@dataclass(frozen=True)
class NextDataset:
    """What the folds or repeats of several datasets say about the next one: by measure every pair
    of the best methods, the ropes and where these come from; by dataset the correlation that was
    assumed, or why it is absent.
    """

    over: str
    pairs: Mapping[str, HierarchicalT]
    ropes: Mapping[str, float]
    ropes_from: Mapping[str, str]
    rho: Mapping[str, float]
    methods: list[str]
    absent: Mapping[str, str]
    notes: tuple[str, ...] = ()

    @property
    def doubts(self) -> list[str]:
        """The notes, what the model warns of, each once, and what was left out."""
        texts = [*self.notes, *(text for tests in self.pairs.values() for text in tests.warnings)]
        return [
            *dict.fromkeys(texts),
            *(f"{dataset} is left out: {why}" for dataset, why in self.absent.items()),
        ]

    def pair(self, measure: str, a: str, b: str) -> pd.Series | None:
        """The row of `pairs` with a as the first method, None where the two were not compared."""
        same = _of_pair(self.pairs[measure].table, a, b)
        if same.empty or a == b:
            return None
        return better_first(same, np.array([same["method_a"].iloc[0] != a])).iloc[0]

    def table(self, measure: str, order: Sequence[str]) -> pd.DataFrame:
        """The rows of `pairs`, the better method by `order` first, in that order."""
        table = self.pairs[measure].table
        table = better_first(table, behind(table, order))
        rows = places(table, order).sort_values(["a", "b"]).index
        return table.loc[rows].reset_index(drop=True)

    def by_dataset(self, measure: str, a: str, b: str) -> pd.DataFrame:
        """Raw and shrunken differences a minus b by dataset: n, mean, shrunken, low, high."""
        same = _of_pair(self.pairs[measure].shrunken, a, b)
        return better_first(same, (same["method_a"] != a).to_numpy()).set_index("dataset")[
            ["n", "mean", "shrunken", "low", "high"]
        ]


def _of_pair(table: pd.DataFrame, a: str, b: str) -> pd.DataFrame:
    """The rows of two methods, whichever is the first."""
    return table[table["method_a"].isin([a, b]) & table["method_b"].isin([a, b])]


def next_dataset(
    study: Study,
    measures: Sequence[str],
    order: Sequence[str],
    *,
    rope: float | None = None,
    in_units: bool = False,
    alpha: float = 0.05,
    **declared: Unpack[Declared],
) -> NextDataset | None:
    """The hierarchical correlated t test of the best methods on the folds, else the repeats, of
    every dataset; None where fewer than two have any. The rope is a share of each measure's
    range, or, `in_units`, a difference of the measure.
    """
    over, values = ("folds", study.folds) if study.folds is not None else ("repeats", study.repeats)
    if values is None:
        return None
    shown = list(order[:MOST])
    values = values[values.index.get_level_values(1).isin(shown)]
    measures = [m for m in measures if m in values.columns][:MEASURES_AT_MOST]
    frames, rho, absent, notes = _comparable_values(study, over, values[measures], declared)
    if len(rho) < 2 or not measures:
        return None
    tables = {m: {d: f[m].unstack(level=0) for d, f in frames.items()} for m in measures}
    ropes = {m: _rope(m, study, rope, in_units) for m in measures}
    sizes = {m: size for m, (size, _) in ropes.items()}
    reasons = {m: reason for m, (_, reason) in ropes.items()}
    try:
        pairs = hierarchical_pairs(
            tables,
            rho=rho,
            ropes=sizes,
            directions=study.directions,
            credible_level=1 - alpha,
        )
    except ValueError:
        return None
    far = {m: _far_from_t(found) for m, found in pairs.items()}
    for measure, which in far.items():
        table = pairs[measure].table.copy()
        told = ("p_", "share_", "mean_difference", "low", "high")
        table.loc[which, [name for name in table if name.startswith(told)]] = np.nan
        pairs = {**pairs, measure: replace(pairs[measure], table=table)}
        if which.any():
            unlike = some(f"{r.method_a} and {r.method_b}" for r in table[which].itertuples())
            notes.append(
                f"Of {unlike} by {measure}, the differences by dataset are far from the t "
                "distribution that the model takes: it cannot tell."
            )
    if len(order) > MOST:
        notes.append(f"Only the best {MOST} of {len(order)} methods are compared.")
    notes = [*dict.fromkeys(notes)]
    return NextDataset(over, pairs, sizes, reasons, rho, shown, absent, tuple(notes))


def _far_from_t(found: HierarchicalT) -> pd.Series:
    """By pair, whether fewer datasets lie beyond the rope, as they were found, than the model says
    of the next one, or more as they are drawn together: at .05, on either side.
    """
    far = []
    for row in found.table.itertuples():
        same = _of_pair(found.shrunken, row.method_a, row.method_b)
        least = 1.0
        for sign, share in ((1, row.p_better), (-1, row.p_worse)):
            raw, shrunken = (
                int((sign * same[key] > found.rope).sum()) for key in ("mean", "shrunken")
            )
            n = len(same)
            least = min(least, binom.cdf(raw, n, share), binom.sf(shrunken - 1, n, share))
        far.append(least < 0.05)
    return pd.Series(far, found.table.index, dtype=bool)


def _comparable_values(
    study: Study,
    over: str,
    values: pd.DataFrame,
    declared: Declared,
) -> tuple[dict[str, pd.DataFrame], dict[str, float], dict[str, str], list[str]]:
    """By dataset the values of methods that can be compared, their correlation, or why there are
    none; and notes.
    """
    frames: dict[str, pd.DataFrame] = {}
    rho: dict[str, float] = {}
    absent: dict[str, str] = {}
    notes: list[str] = []
    for dataset in study.datasets:
        if dataset not in values.index.get_level_values(0):
            absent[dataset] = f"no run on it has {over}"
            continue
        frame = values.xs(dataset, level=0)
        try:
            if over == "folds":
                frame, correlation, about = _folds(study, frame, dataset, declared)
                notes += about
            else:
                frame = _repeats(frame)
                correlation = 0.0
        except (MlevalError, ValueError) as error:
            absent[dataset] = str(error).rstrip(".")
        else:
            frames[dataset] = frame
            rho[dataset] = correlation
    return frames, rho, absent, notes


def compare_all_folds(
    study: Study,
    absent: dict[str, str],
    step: Callable[[], object] = lambda: None,
    **options: Any,
) -> dict[str, FoldComparison]:
    """What the folds of every dataset say, corrected over pairs and datasets; why others could not
    be tested goes to `absent`, as "folds.DATASET". Measures that follow from others are left out
    where none are named.
    """
    if study.folds is None:
        return {}
    if options.get("measures") is None:
        options["dependent"] = "drop"
    of_study = study.folds.index.droplevel("fold").isin(study.values.index)
    study = replace(study, folds=study.folds[of_study])
    tests = {}
    for dataset in study.datasets:
        try:
            tests[dataset] = compare_folds(study, dataset, **options)
        except (MlevalError, ValueError) as error:
            absent[f"folds.{dataset}"] = str(error)
        step()
    return jointly(tests)


@dataclass(frozen=True)
class UnitPairs(PairsTested):
    """Pairs of methods by the folds, or the repeats, of all datasets together."""

    warnings: tuple[str, ...] = ()


class OverFolds(Posthoc):
    """All pairs by the folds of a few datasets: separated where some dataset separates them, one
    worse on no measure, and none says the opposite.
    """

    name = asked = over = "folds"
    key = "over_folds"
    title = "Tests over folds"
    column = sort = "pvalue_folds"
    head = "p (folds)"
    always = False
    by_unit = True
    #: What it corrects over, on one dataset and on several.
    corrects: ClassVar[tuple[str, str]] = "pairs", "pairs and datasets"
    summary = (
        "tests the folds of each dataset and corrects over pairs and datasets; says nothing of "
        "other datasets"
    )
    sources: ClassVar[tuple[str, ...]] = ("Yıldız & Alpaydın 2014",)

    def __init__(self, by_dataset: Mapping[str, PairTests]) -> None:
        self.by_dataset = by_dataset

    def run(self, tested: Tested) -> UnitPairs:
        names = [str(name) for name in tested.ranks.columns]
        tests = self.by_dataset.values()
        at: dict[Hashable, int] = {name: i for i, name in enumerate(names)}
        ahead = np.zeros((len(names), len(names)))
        for better, worse in (pair for one in tests for pair in one.better):
            ahead[at[better], at[worse]] += 1
        rows = pd.concat([one.table for one in tests])
        least = np.full(ahead.shape, np.nan)
        for a, b, p in rows[[*PAIR, "pvalue_corrected"]].itertuples(index=False):
            least[at[a], at[b]] = least[at[b], at[a]] = np.fmin(least[at[a], at[b]], p)
        pairs = np.triu_indices(len(names), 1)
        table = {
            **named_pairs(names, *pairs),
            "mean_difference": (ahead - ahead.T)[pairs],
            "statistic": np.abs(ahead - ahead.T)[pairs],
            "pvalue_corrected": least[pairs],
            "significant": ((ahead > 0) != (ahead.T > 0))[pairs],
        }
        n = len(self.by_dataset)
        m = len(names)
        return UnitPairs(pd.DataFrame(table), tested.alpha, n, m, len(rows), None, [*names])

    def wording(self, result: UnitPairs) -> str:
        return f"tests over the {self.over} of {count(result.n_datasets, 'dataset')}"

    def sentence(self, result: UnitPairs) -> str:
        return f"Tests over {self.over}, corrected over {self.corrects[result.n_datasets > 1]}"

    def about(self, result: UnitPairs) -> str:
        n = result.n_datasets
        these = f"these {n} datasets" if n > 1 else "this dataset"
        return f"about {these} and no others"


class OverSeeds(OverFolds):
    """The same by the repeats of each dataset, where their blocks are too few."""

    name = asked = over = "repeats"
    key = "over_repeats"
    title = "Tests over repeats"
    column = sort = "pvalue_repeats"
    head = "p (repeats)"
    corrects = "pairs and measures", "pairs, measures and datasets"
    summary = (
        "tests the repeats of each dataset, measure by measure, and corrects over all these tests; "
        "says nothing of other datasets"
    )
    sources = ("Welch 1947", "Holm 1979")


def _folds(
    study: Study,
    frame: pd.DataFrame,
    dataset: str,
    declared: Declared,
) -> tuple[pd.DataFrame, float, list[str]]:
    """Values of the methods that share folds of the same split (NaN where a method lacks one),
    their correlation, and notes.
    """
    shared = shared_folds(frame, dataset)
    methods = shared.methods
    runs = runs_of(study.runs, dataset, methods)
    notes = [f"On {dataset}, {e.name} {e.reason}." for e in shared.excluded] + [
        f"On {dataset}: {text}" for text in shared.notes
    ]
    if "split_digest" in runs:
        digest = runs["split_digest"].fillna("").reindex(methods, fill_value="")
        most = digest[digest != ""].mode()
        if gone := [m for m in methods if digest[m] not in ("", *most[:1])]:
            methods = [m for m in methods if m not in gone]
            notes.append(f"On {dataset}, {some(gone)} had another split and are left out.")
    if len(methods) < 2:
        raise ValueError("no two methods had the same split")
    ways, _ = shared.protocols(runs, declared.get("protocol"), declared.get("ratio"))
    how = widest([way for m, way in zip(shared.methods, ways, strict=True) if m in methods])
    correlation = 0.0 if how.ratio is None else how.ratio / (1 + how.ratio)
    values = shared.frame(shared.cube(frame), frame.columns)
    return (
        values.reindex(
            pd.MultiIndex.from_product([methods, shared.folds], names=values.index.names)
        ),
        correlation,
        notes,
    )


def _repeats(frame: pd.DataFrame) -> pd.DataFrame:
    """As many repeats of every method as the one with fewest has: they are independent, and any two
    make a pair.
    """
    whole = frame.dropna()
    whole = whole.set_axis(
        pd.MultiIndex.from_arrays(
            [whole.index.get_level_values(0), whole.groupby(level=0, sort=False).cumcount()]
        )
    )
    sizes = whole.groupby(level=0, sort=False).size()
    several = sizes[sizes > 1]
    if len(several) < 2:
        raise ValueError("fewer than two methods have repeats on it")
    return whole.loc[pd.MultiIndex.from_product([several.index, range(several.min())])]


def _rope(measure: str, study: Study, rope: float | None, in_units: bool) -> tuple[float, str]:
    """The largest difference that does not matter, in the measure's units, and its origin."""
    share = ROPE if rope is None else rope
    if in_units and rope is not None:
        return rope, "as given"
    low, high = MEASURES[measure].range if measure in MEASURES else (-np.inf, np.inf)
    if np.isfinite(high - low):
        return share * (high - low), f"{100 * share:g}% of its range"
    return share * float(
        study.values[measure].abs().mean()
    ), f"{100 * share:g}% of its mean size, for it has no bounds"
