r"""Loss profiles of many runs: the losses of methods on datasets between Hamming and subset 0/1, by
fold; who is better where, and how sure.

`Profiles` holds what both families of losses follow from (the mean largest, second largest .. error
of an instance in each fold), so that any parameter can be asked for. Along the parameter of one
dataset stands the paired t test over folds with the variance of Nadeau & Bengio (2003); how often
this t process crosses a level (Worsley 1994, "Local maxima and the expected Euler characteristic of
excursion sets of chi2, F and t fields") bounds its largest value over all parameters; then
step-down over pairs (Holm 1979). Hüllermeier et al. (2022, section 5) for the reading of profiles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from mlflow_mleval.analysis.fold_protocol import (
    FEW_SHARED,
    UNPAIRED,
    Declared,
    Protocol,
    recorded_protocol,
    runs_of,
    shared_folds,
    unpaired,
)
from mlflow_mleval.analysis.pairs import PAIR, PairTests, better_first, stepped, variance_factor
from mlflow_mleval.errors import IncomparableRunsError
from mlflow_mleval.measures.inputs import slices
from mlflow_mleval.measures.owa import (
    ALPHAS,
    FAMILIES,
    PARAMETERS,
    awareness,
    family_weights,
    positions,
    rising_parameters,
)
from mlflow_mleval.package import Plotted
from mlflow_mleval.sentences import count, some
from mlflow_mleval.validation import AnyArray, Array, one_of, probability, refuse_keywords

if TYPE_CHECKING:
    from typing_extensions import Unpack

Pair = tuple[str, str]
#: Parameters of the binomial family where none are named, at most: all k up to so many labels, else
#: evenly spread ones.
MOST_PARAMETERS = 100


@dataclass(frozen=True, eq=False)
class Profiles:
    """The loss profiles of methods on datasets.

    Made by `from_counts` and `mlflow_mleval.load_profiles`.

    Attributes
    ----------
    errors : mapping of (dataset, method) to array, shape (R, W)
        One row a fold, or one row of all instances: the mean over instances of the largest error,
        the second largest, …; zeros at the end may be left out, W <= K.
    n_labels : mapping of str to int
        K of each dataset.
    folds : mapping of (dataset, method) to tuple
        The fold of each row; empty where the one row is that of all instances.
    kind : {"hard", "soft"}
        Of predicted label sets, or of scores.
    absent : mapping of str to str
        What has no profile here ("METHOD on DATASET"), and why.
    runs : pandas.DataFrame
        What the runs say of themselves, as `Study.runs`: the tests by fold need split_digest,
        n_train and n_test.
    notes : tuple of str
        Doubts a reader must know.
    source : mapping
        How they came about, as `Study.source`.

    >>> profiles = Profiles.from_counts({("d", "A"): [64, 48, 12, 1], ("d", "B"): [1, 0, 0, 1]})
    >>> profiles.losses("d").round(3).loc["A"].tolist()
    [0.2, 0.36, 0.488]
    >>> profiles.losses("d", "polynomial", [1, 1000]).round(3).loc["B"].tolist()
    [0.5, 0.5]
    """

    errors: Mapping[Pair, Array]
    n_labels: Mapping[str, int]
    folds: Mapping[Pair, tuple[Hashable, ...]]
    kind: Literal["hard", "soft"] = "hard"
    absent: Mapping[str, str] = field(default_factory=dict)
    runs: pd.DataFrame = field(default_factory=pd.DataFrame)
    notes: tuple[str, ...] = ()
    source: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"Profiles({len(self.errors)} {self.kind} profiles, {len(self.methods)} methods, "
            f"{len(self.datasets)} datasets)"
        )

    @classmethod
    def from_counts(
        cls,
        counts: Mapping[Pair, ArrayLike],
        *,
        folds: Mapping[Pair, Sequence[Hashable]] | None = None,
        runs: pd.DataFrame | None = None,
    ) -> Profiles:
        """Profiles of label sets from `error_histogram` by (dataset, method): numbers of instances
        with 0, 1 .. K wrong labels, of each fold (R, K + 1) or of all; `runs` tells of splits.
        ValueError for others."""
        errors = {}
        n_labels = {}
        of_rows = {}
        for pair, value in counts.items():
            rows = np.atleast_2d(np.asarray(value, dtype=float))
            whole = ((rows >= 0) & (rows < 2**53)).all() and not (rows % 1).any()
            if rows.ndim != 2 or rows.shape[1] < 2 or not whole or not rows.any(axis=1).all():
                raise ValueError(
                    "`counts` must hold the numbers of instances with 0, 1, …, K wrong labels in "
                    f"each fold, at least one of them positive, got {value!r} for {pair[1]} on "
                    f"{pair[0]}. Take them from `error_histogram`."
                )
            # the i-th largest error is 1 where at least i labels are wrong
            at_least = np.cumsum(rows[:, ::-1], axis=1)[:, ::-1]
            errors[pair] = at_least[:, 1:] / at_least[:, :1]
            n_labels[pair] = rows.shape[1] - 1
            n_rows = len(rows) if np.ndim(value) == 2 else 0
            of_rows[pair] = tuple((folds or {}).get(pair, range(n_rows)))
            if len({*of_rows[pair]}) != n_rows or len(of_rows[pair]) != n_rows:
                raise ValueError(
                    f"`folds` must name the {n_rows} rows of {pair[1]} on {pair[0]}, each once, "
                    f"got {of_rows[pair]!r}."
                )
        return gather_profiles(errors, n_labels, of_rows, "hard", runs=runs)

    @property
    def datasets(self) -> list[str]:
        """Datasets in order of first appearance."""
        return list(dict.fromkeys(dataset for dataset, _ in self.errors))

    @property
    def methods(self) -> list[str]:
        """Methods in order of first appearance."""
        return list(dict.fromkeys(method for _, method in self.errors))

    def on(self, dataset: str) -> list[str]:
        """The methods with a profile on the dataset, in the order of `methods`."""
        methods = [method for method in self.methods if (dataset, method) in self.errors]
        if not methods:
            raise ValueError(
                f"`dataset` must be one of {some(map(repr, self.datasets))}, got {dataset!r}."
            )
        return methods

    def select(self, pairs: Iterable[Pair]) -> Profiles:
        """The same with these (dataset, method) only, as far as they have a profile."""
        wanted = set(pairs)
        errors = {pair: rows for pair, rows in self.errors.items() if pair in wanted}
        return replace(self, errors=errors)

    def parameters(
        self, dataset: str, family: str = "binomial", parameters: ArrayLike | None = None
    ) -> AnyArray:
        """The checked parameters, or those used by default: k = 1..K (at most 100), or `ALPHAS`."""
        n_labels = self.n_labels[dataset]
        if parameters is None:
            ks = np.linspace(1, n_labels, min(n_labels, MOST_PARAMETERS)).round().astype(int)
            return np.unique(ks) if one_of(family, "family", FAMILIES) == "binomial" else ALPHAS
        return rising_parameters(family, n_labels, parameters)

    def losses(
        self, dataset: str, family: str = "binomial", parameters: ArrayLike | None = None
    ) -> pd.DataFrame:
        """Losses methods x parameters, the mean over folds; 0 is best."""
        arrays = self.by_row(dataset, family, parameters)
        columns = pd.Index(self.parameters(dataset, family, parameters), name=PARAMETERS[family])
        means = np.array([rows.mean(axis=0) for rows in arrays.values()])
        return pd.DataFrame(means, pd.Index(list(arrays), name="method"), columns)

    def by_fold(
        self, dataset: str, family: str = "binomial", parameters: ArrayLike | None = None
    ) -> pd.DataFrame:
        """Losses with index (method, fold) and one column a parameter."""
        arrays = self.by_row(dataset, family, parameters)
        keys = [(method, fold) for method in arrays for fold in self.folds[dataset, method]]
        rows = [arrays[method] for method in arrays if self.folds[dataset, method]]
        columns = pd.Index(self.parameters(dataset, family, parameters), name=PARAMETERS[family])
        index = pd.MultiIndex.from_tuples(keys, names=["method", "fold"])
        return pd.DataFrame(np.concatenate([np.empty((0, len(columns))), *rows]), index, columns)

    def by_row(
        self, dataset: str, family: str = "binomial", parameters: ArrayLike | None = None
    ) -> dict[str, Array]:
        """Losses by method, arrays of shape (R, P), R = 1 where there are no folds."""
        methods = self.on(dataset)
        at = self.parameters(dataset, family, parameters)
        widest = max(1, *(self.errors[dataset, m].shape[1] for m in methods))
        weights = family_weights(family, self.n_labels[dataset], at, widest)
        by_method = {}
        for method in methods:
            rows = self.errors[dataset, method]
            losses = rows @ weights[:, : rows.shape[1]].T
            largest = rows[:, :1] if rows.shape[1] else np.zeros((len(rows), 1))
            # The exact profile never falls and ends at the largest error: no rounding may differ.
            by_method[method] = np.minimum(np.maximum.accumulate(losses, axis=1), largest)
        return by_method

    def awareness(self, family: str = "binomial") -> pd.DataFrame:
        """By (dataset, method): `mlflow_mleval.measures.owa.awareness` of the mean over folds."""
        tables = []
        for dataset in self.datasets:
            methods = self.on(dataset)
            rows = [self.errors[dataset, m].mean(axis=0) for m in methods]
            means = np.zeros((len(rows), max(1, *map(len, rows))))
            for i, row in enumerate(rows):
                means[i, : len(row)] = row
            index = pd.MultiIndex.from_product([[dataset], methods], names=["dataset", "method"])
            tables.append(pd.DataFrame(awareness(means, self.n_labels[dataset], family), index))
        if not tables:
            raise ValueError("there is no profile to summarise.")
        return pd.concat(tables)


def gather_profiles(
    errors: Mapping[Pair, Array],
    n_labels: Mapping[Pair, int],
    folds: Mapping[Pair, tuple[Hashable, ...]],
    kind: Literal["hard", "soft"],
    *,
    absent: Mapping[str, str] | None = None,
    runs: pd.DataFrame | None = None,
    notes: Iterable[str] = (),
    source: Mapping[str, Any] | None = None,
) -> Profiles:
    """Profiles of pairs; of other numbers of labels than most on a dataset they are `absent`."""
    absent = dict(absent or {})
    by_dataset: dict[str, Counter[int]] = {}
    for (dataset, _), k in n_labels.items():
        by_dataset.setdefault(dataset, Counter())[k] += 1
    common = {dataset: counts.most_common(1)[0][0] for dataset, counts in by_dataset.items()}
    read = {}
    for pair, rows in errors.items():
        own, most = n_labels[pair], common[pair[0]]
        if own == most:
            read[pair] = rows
        else:
            why = f"it has {own} labels and most methods on the dataset have {most}"
            absent[f"{pair[1]} on {pair[0]}"] = why
    labels = {dataset: common[dataset] for dataset, _ in read}
    runs = pd.DataFrame() if runs is None else runs
    return Profiles(read, labels, folds, kind, absent, runs, tuple(notes), dict(source or {}))


# --------------------------------------------------------------------------------------------------
# Who is better where.

#: Of more methods than these, only pairs of those with the least mean area are compared.
TOP = 50
#: Ratios this close to 1 are float noise.
_EQUAL_RATIO = 1e-9


@dataclass(frozen=True, kw_only=True)
class ProfileComparison(Plotted, PairTests):
    """What `compare_profiles` found; 0 is the best loss. Intervals of `curves` are pointwise; any
    of `claims` is wrong with chance alpha; crossings are certain between significant parameters."""

    unit: ClassVar[str] = "profiles"
    test = "The largest t over the parameters"
    about = (
        "this is about some parameter of the profile, and the folds of one dataset say nothing of "
        "others"
    )

    curves: pd.DataFrame
    crossings: pd.DataFrame
    claims: pd.DataFrame
    awareness: pd.DataFrame
    protocols: Mapping[str, Protocol]
    n_labels: Mapping[str, int]
    absent: Mapping[str, str]
    options: Mapping[str, Any]

    @property
    def extent(self) -> str:
        return f"over the folds of {count(len(self.datasets), 'dataset')}"

    @cached_property
    def ratios(self) -> pd.DataFrame:
        """`table` by (dataset, method_a, method_b, parameter), under the names of its CSV."""
        rows = self.table.set_index(["dataset", *PAIR, "parameter"]).drop(columns="pvalue")
        rows = rows.rename(columns={"pvalue_corrected": "pvalue", "separated": "significant"})
        return rows[["position", "ratio", "pvalue", "significant"]]

    @property
    def datasets(self) -> list[str]:
        """The datasets with profiles, in their order."""
        return list(dict.fromkeys(self.curves.index.get_level_values("dataset")))

    def methods_on(self, dataset: str) -> list[str]:
        """The methods with a profile on a dataset, by their mean loss along it, the least first."""
        area = self.awareness.xs(dataset, level="dataset")["area"]
        return area.sort_values(kind="stable").index.tolist()

    def tested_on(self, dataset: str) -> bool:
        """Whether any pair was tested over the folds of a dataset."""
        part = self.ratios[self.ratios.index.get_level_values("dataset") == dataset]
        return bool(part["pvalue"].notna().any())

    def ends(self, dataset: str) -> tuple[float, float]:
        """The least and the largest parameter on a dataset."""
        at = self.curves.xs(dataset, level="dataset").index.get_level_values("parameter")
        return float(at.min()), float(at.max())

    def certain_stretches(self, dataset: str) -> dict[tuple[str, str], list[tuple[float, float]]]:
        """Where on a dataset one method is certainly better: by (better, worse) its stretches."""
        claims = self.claims[self.claims["dataset"] == dataset]
        by_pair = claims.groupby(["better", "worse"], sort=False)[["first", "last"]]
        return {pair: [*rows.itertuples(index=False, name=None)] for pair, rows in by_pair}

    # ---- who is ahead where ----------------------------------------------------------------------

    @cached_property
    def patterns(self) -> pd.DataFrame:
        """One row a dataset and pair, the one that is ahead at small parameters first: crossings,
        parameter and position of the first, certain (whether any is), tied (equal everywhere)."""
        keys = ["dataset", *PAIR]
        above = self.ratios["ratio"] - 1
        ahead = np.sign(above).where(above.abs() > _EQUAL_RATIO).rename("ahead")
        table = ahead.groupby(level=keys, sort=False).first().reset_index()
        grouped = self.crossings.sort_values("parameter", kind="stable").groupby(keys)
        first = grouped[["parameter", "position"]].first()
        lines = first.assign(crossings=grouped.size(), certain=grouped["certain"].any())
        table = table.join(lines, on=keys)
        table["crossings"] = table["crossings"].fillna(0).astype(int)
        table["certain"] = table["certain"].eq(True)
        table["tied"] = table["ahead"].isna()
        table = better_first(table, table["ahead"] < 0)
        table = table.rename(columns={"method_a": "method", "method_b": "against"})
        columns = ["dataset", "method", "against", "crossings", "parameter", "position"]
        return table[[*columns, "certain", "tied"]]

    # ---- awareness -------------------------------------------------------------------------------

    @property
    def shared_awareness(self) -> pd.DataFrame:
        """`awareness` on the datasets that all methods share; everywhere where there are none."""
        table = self.awareness
        datasets, methods = (table.index.get_level_values(level) for level in ("dataset", "method"))
        shared = datasets.value_counts().loc[lambda n: n == methods.nunique()].index
        return table[datasets.isin(shared)] if len(shared) else table

    @property
    def same_datasets(self) -> bool:
        """Whether the summaries of all methods are means over the same datasets."""
        return bool(self.shared_awareness["slope"].unstack("dataset").notna().all(axis=None))

    @property
    def awareness_means(self) -> pd.DataFrame:
        """Means over the shared datasets of the summaries of each method, the flattest first."""
        means = self.shared_awareness.groupby(level="method", sort=False).mean()
        return means.sort_values("slope", kind="stable")

    @property
    def frames(self) -> dict[str, pd.DataFrame]:
        """The tables by name, unrounded: what lies beside a report."""
        frames = {
            "curves": self.curves.reset_index(),
            "ratios": self.ratios.reset_index(),
            "crossings": self.crossings,
            "claims": self.claims,
            "awareness": self.awareness.reset_index(),
        }
        return {f"profile_{name}": frame for name, frame in frames.items()}


def compare_profiles(
    profiles: Profiles,
    *,
    family: str = "binomial",
    alpha: float = 0.05,
    **declared: Unpack[Declared],
) -> ProfileComparison:
    r"""Compare the loss profiles of methods: where they cross, where one is better for certain, who
    is aware of dependence.

    Parameters
    ----------
    profiles : Profiles
    family : {"binomial", "polynomial"}
        At k = 1..K (at most 100 of them), or at alpha from 1 to 1000.
    alpha : float
        Chance of any false claim along any profile of any pair on any dataset; 1 - alpha is the
        level of intervals.
    protocol, ratio : optional
        How the folds came about, and n_test / n_train, where the runs do not say; see
        `compare_folds`.

    Raises
    ------
    ValueError
        No profile; an unknown family.

    Notes
    -----
    Of more than 50 methods only pairs of those with the least mean area are compared; the
    correction is for all pairs.

    With fold differences :math:`d_j` of two methods at a parameter, :math:`t = \bar d / (s_d
    \sqrt{1/R + n_{test}/n_{train}})` on :math:`\nu = R - 1` degrees of freedom. The chance that
    :math:`|t|` of normal differences reaches a level :math:`u` anywhere is at most that at one
    parameter and the expected number of crossings,

    .. math:: P(|T_\nu| \ge u) + \sum_i \min\{\theta_i/\pi \, (1 + u^2/\nu)^{-(\nu-1)/2}, P(|T_\nu|
    \ge u)\},

    where :math:`\theta_i` is the angle between the fold differences at neighbouring parameters, the
    arc cosine of their correlation: profiles are smooth, and testing everywhere costs little. A
    pair stops counting in Holm's step-down only when it is separated at every parameter; that keeps
    claims about stretches right where a pair differs along a part only.

    Examples
    --------
    >>> a, b = [[64, 48, 12, 1], [60, 50, 14, 1], [66, 47, 11, 1]], [[90, 5, 0, 30], [85, 9, 1, 30], [92, 4, 0, 29]]
    >>> found = compare_profiles(Profiles.from_counts({("d", "A"): a, ("d", "B"): b}))
    >>> found.crossings[["parameter", "below", "above", "certain"]].round(2).values.tolist()
    [[1.36, 'A', 'B', True]]
    >>> found.claims[["better", "worse", "first", "last"]].values.tolist()
    [['A', 'B', 1, 1], ['B', 'A', 2, 3]]
    """  # noqa: E501
    one_of(family, "family", FAMILIES)
    probability(alpha, "alpha")
    refuse_keywords(compare_profiles, declared, Declared.__annotations__)
    if not profiles.errors:
        text = "`profiles` must hold at least one profile, got none."
        raise ValueError(f"{text} Log runs with labels or scores first.")
    summaries = profiles.awareness(family)
    absent = dict(profiles.absent)
    warnings = list(profiles.notes)
    chosen, methods = profiles.methods, profiles.methods
    if len(methods) > TOP:
        area = summaries["area"].groupby(level="method").mean()
        chosen = sorted(area.nsmallest(TOP).index, key=methods.index)
        warnings.append(
            f"Of {len(methods)} methods only the {len(chosen)} with the least mean area are "
            "compared in pairs; the p-values are corrected for all pairs."
        )
    parts = [
        OnDataset(profiles, dataset, family, alpha, chosen, declared)
        for dataset in profiles.datasets
    ]
    # over all pairs of all datasets; pairs of methods that were not chosen count, too
    worst = np.concatenate([part.worst for part in parts])
    extra = sum(part.n_pairs - len(part.a) for part in parts)
    for part in parts:
        absent |= part.absent
        warnings += part.warnings
        at = part.n_folds > 0
        part.pvalue[at] = stepped(part.along[at], worst, extra)
    options = {
        "kind": profiles.kind,
        "family": family,
        "alpha": alpha,
        "correction": "largest t over the parameters, then Holm over all pairs of all datasets",
        "protocol": declared.get("protocol"),
        "ratio": declared.get("ratio"),
        "top": TOP,
    }
    claims = chain.from_iterable(part.claims for part in parts)
    crossings = chain.from_iterable(part.crossings for part in parts)
    tables = [part.rows for part in parts]
    return ProfileComparison(
        curves=pd.concat([part.curves for part in parts]),
        crossings=pd.DataFrame(crossings, columns=_CROSSINGS).astype({"certain": bool}),
        claims=pd.DataFrame(claims, columns=_CLAIMS),
        awareness=summaries,
        protocols={part.dataset: part.protocol for part in parts if part.protocol is not None},
        n_labels=dict(profiles.n_labels),
        absent=absent,
        # empty ones have columns without types
        table=pd.concat([*filter(len, tables)] or tables[:1], ignore_index=True),
        methods=profiles.methods,
        measures=[f"{family} loss"],
        alpha=alpha,
        n_datasets=len(profiles.datasets),
        n_comparisons=sum(part.n_pairs for part in parts),
        notes=tuple(dict.fromkeys(warnings)),
        options=options,
    )


_CROSSINGS = ["dataset", *PAIR, "parameter", "position", "below", "above", "certain"]
_CLAIMS = ["dataset", "better", "worse", "first", "last", "n_labels"]


# --------------------------------------------------------------------------------------------------
# One dataset: curves, tests at every parameter with p-values that allow for all, and what follows.

#: Differences of losses below this are float noise.
NOISE = 1e-12
#: Numbers in memory at once.
BLOCK = 1 << 22


def along_parameter(difference: Array, scale: float) -> Array:
    """P-values of differences (pairs x folds x parameters), corrected along the parameter in a
    single step. NaN where nothing varies but 0 is not met."""
    df = difference.shape[1] - 1
    mean = difference.mean(axis=1)
    left = difference - mean[:, None]
    size = np.sqrt((left**2).sum(axis=1))
    flat = size <= NOISE * np.sqrt(df)
    size[flat] = 1.0
    t = np.abs(mean) / (size / np.sqrt(df) * scale)
    t[flat] = np.where(np.abs(mean[flat]) <= NOISE, 0.0, np.nan)
    left /= size[:, None]
    # |t| is the same for a process and its negative
    cosine = np.abs((left[..., 1:] * left[..., :-1]).sum(axis=1))
    angles = np.where(flat[:, 1:] | flat[:, :-1], np.pi / 2, np.arccos(np.minimum(cosine, 1.0)))
    here = 2 * special.stdtr(df, -t)
    crossed = (1 + t**2 / df) ** (-(df - 1) / 2) / np.pi
    more = np.minimum(angles[:, None] * crossed[..., None], here[..., None]).sum(axis=-1)
    return np.minimum(here + more, 1.0)


class OnDataset:
    """Curves with bands and t tests of pairs over folds, on one dataset; arrays are pairs x
    parameters, p-values corrected `along` the parameter and then over pairs."""

    def __init__(
        self,
        profiles: Profiles,
        dataset: str,
        family: str,
        alpha: float,
        chosen: Sequence[str],
        declared: Declared,
    ):
        self.dataset = dataset
        self.family = family
        self.alpha = alpha
        self.n_labels = profiles.n_labels[dataset]
        self.at = profiles.parameters(dataset, family)
        self.position = positions(family, self.n_labels, self.at)
        self.losses = profiles.by_row(dataset, family)
        self.folds = {m: profiles.folds[dataset, m] for m in self.losses}
        self.methods = [m for m in self.losses if m in set(chosen)]
        self.n_pairs = len(self.losses) * (len(self.losses) - 1) // 2
        self.a, self.b = np.triu_indices(len(self.methods), 1)
        n, n_at = len(self.a), len(self.at)
        mean = np.array([self.losses[m].mean(axis=0) for m in self.methods]).reshape(-1, n_at)
        self.first, self.second = mean[self.a], mean[self.b]
        self.along, self.pvalue = np.full((2, n, n_at), np.nan)
        self.counts = np.full((3, n, n_at), np.nan)
        self.n_folds = np.zeros(n, dtype=np.int64)
        self.protocol: Protocol | None = None
        self.warnings: list[str] = []
        self.absent: dict[str, str] = {}
        try:
            self._test_over_folds(profiles, declared)
        except (IncomparableRunsError, ValueError) as error:
            self.absent[f"tests.{dataset}"] = str(error)
        tested = self.along[self.n_folds > 0]
        #: Of each pair that was tested the largest p-value along the parameter.
        self.worst = np.nan_to_num(tested, nan=1.0).max(axis=1, initial=0.0)
        if untested := int(np.isnan(tested).sum()):
            self._warn(f"{untested} differences are the same in every fold and cannot be tested.")

    def _warn(self, *texts: str) -> None:
        self.warnings += [f"On {self.dataset}: {text}" for text in texts]

    def _test_over_folds(self, profiles: Profiles, declared: Declared) -> None:
        """The t test of each pair at every parameter on the folds that both have, p-values
        corrected along it; an error where no two methods can be tested."""
        most = max(map(len, self.folds.values()))
        if most < 2:
            raise ValueError(
                "no profile by fold: a test along the profile needs at least two folds"
            )
        whole = [m for m, folds in self.folds.items() if len(folds) == most]
        runs = runs_of(profiles.runs, self.dataset, [*self.folds])
        self.protocol, notes = recorded_protocol(runs[runs.index.isin(whole)], most, declared)
        if self.protocol.kind != "5x2":  # whose caution is about the F test, not made here
            notes.append(self.protocol.caution)
        self._warn(*filter(None, notes))
        frame = profiles.by_fold(self.dataset, self.family)
        shared = shared_folds(frame, self.dataset, [*self.folds])
        _, sharings, notes = shared.blocks(runs, declared)
        differ, unknown = unpaired(runs, shared.methods)
        self._warn(*notes, *shared.notes, *unknown)
        if shared.excluded:
            who = some(e.name for e in shared.excluded)
            few = "fewer than two folds in common with each other method"
            self.absent[f"tests.{self.dataset}: {who}"] = few
        at = pd.Index(self.methods).get_indexer(shared.methods)
        row = np.full((len(self.methods) + 1, len(self.methods) + 1), -1)  # the last: of no pair
        row[self.a, self.b] = np.arange(len(self.a))
        by_fold = shared.table(frame).to_numpy().reshape(*shared.whole.shape, -1)
        lost = dict.fromkeys((UNPAIRED, FEW_SHARED), 0)
        n_at = len(self.at)
        for sharing in sharings:
            where = row[at[sharing.first], at[sharing.second]]
            going = where >= 0
            if differ is not None:
                lost[UNPAIRED] += int((going & differ[sharing.rows]).sum())
                going &= ~differ[sharing.rows]
            first, second, where = sharing.first[going], sharing.second[going], where[going]
            if sharing.n < 2:
                lost[FEW_SHARED] += len(first)
                continue
            scale = float(np.sqrt(variance_factor(sharing.n, sharing.how.headline_ratio)))
            self.n_folds[where] = sharing.n
            values = by_fold[:, sharing.folds]
            mean = values.mean(axis=1)
            self.first[where], self.second[where] = mean[first], mean[second]
            for part in slices(len(first), max(1, BLOCK // (n_at * max(n_at, sharing.n)))):
                i, j, to = first[part], second[part], where[part]
                d = values[j] - values[i]
                self.along[to] = along_parameter(d, scale)
                d[np.abs(d) <= NOISE] = 0.0
                self.counts[:, to] = [x.sum(axis=1) for x in (d > 0, d == 0, d < 0)]
        for reason, n in lost.items():
            if n:
                self.absent[f"tests.{self.dataset}: {count(n, 'pair')}"] = reason

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

    @property
    def curves(self) -> pd.DataFrame:
        """Mean losses by method and parameter, with bands over folds."""
        mean = np.array([rows.mean(axis=0) for rows in self.losses.values()])
        half = np.full(mean.shape, np.nan)
        how = self.protocol
        for i, (m, rows) in enumerate(self.losses.items()):
            if (n := len(self.folds[m])) > 1:
                ratio = how.headline_ratio if how and how.n_folds == n else 1 / (n - 1)
                error = rows.std(axis=0, ddof=1) * np.sqrt(variance_factor(n, ratio))
                half[i] = special.stdtrit(n - 1, 1 - self.alpha / 2) * error
        names = ["dataset", "method", "parameter"]
        axes = [[self.dataset], [*self.losses], self.at.tolist()]
        columns = {
            "position": np.tile(self.position, len(self.losses)),
            "loss": mean.ravel(),
            "low": np.clip(mean - half, 0, 1).ravel(),
            "high": np.clip(mean + half, 0, 1).ravel(),
        }
        return pd.DataFrame(columns, pd.MultiIndex.from_product(axes, names=names))

    @property
    def rows(self) -> pd.DataFrame:
        """The rows of `ProfileComparison.table`: each pair at each parameter."""
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
        }
        return pd.DataFrame(columns)

    @property
    def crossings(self) -> list[tuple[Any, ...]]:
        """Where mean profiles of a pair are equal, between parameters with another one ahead."""
        difference, sure, at = self.difference, self.significant, self.position
        sign = np.sign(difference)
        rows = []
        for pair in np.flatnonzero((sign > 0).any(axis=1) & (sign < 0).any(axis=1)):
            ahead = np.flatnonzero(sign[pair])
            stretches = np.split(ahead, np.flatnonzero(np.diff(sign[pair, ahead])) + 1)
            for before, after in pairwise(stretches):
                i, j = before[-1], after[0]
                if j == i + 1:
                    share = difference[pair, i] / (difference[pair, i] - difference[pair, j])
                    position = at[i] + share * (at[j] - at[i])
                else:  # equal in between
                    position = (at[i + 1] + at[j - 1]) / 2
                parameter = self.at[-1] ** position
                if self.family == "binomial":
                    parameter = 1 + position * (self.n_labels - 1)
                names = self.methods[self.a[pair]], self.methods[self.b[pair]]
                leads = names if sign[pair, i] > 0 else names[::-1]
                certain = all(sure[pair, part].any() for part in (before, after))
                place = float(parameter), float(position)
                rows.append((self.dataset, *names, *place, *leads, certain))
        return rows

    @property
    def claims(self) -> list[tuple[Any, ...]]:
        """Stretches of neighbouring parameters at which one method is better for certain."""
        sure = self.significant
        rows = []
        for pair in np.flatnonzero(sure.any(axis=1)):
            names = self.methods[self.a[pair]], self.methods[self.b[pair]]
            turns = np.flatnonzero(np.diff(sure[pair])) + 1
            for stretch in np.split(np.arange(len(self.at)), turns):
                if way := int(sure[pair, stretch[0]]):
                    ends = (self.at[i].item() for i in stretch[[0, -1]])
                    rows.append((self.dataset, *names[::way], *ends, self.n_labels))
        return rows
