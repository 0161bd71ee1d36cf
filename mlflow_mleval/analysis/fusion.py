"""A Study fused: PROMETHEE on every dataset, the ranking over all of them, and how sure it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, compress
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.pairs import components
from mlflow_mleval.analysis.posthoc.max_t import MaxTResult, Posthoc, Tested, critical, max_t
from mlflow_mleval.analysis.promethee import (
    DOMINANT,
    NO_FLOW,
    PREFERENCES,
    TIE,
    WEIGHTS,
    FlowsByMeasure,
    Preference,
    PrometheeResult,
    Threshold,
    WeighedFlows,
    Weights,
    blocks_of,
    checked,
    flows_by_measure,
    lost,
    tied_places,
    tied_ranks,
)
from mlflow_mleval.errors import IncomparableRunsError, MlevalError
from mlflow_mleval.measures.inputs import slices
from mlflow_mleval.measures.metric_names import TRAINING_DOUBT
from mlflow_mleval.measures.registry import ratio
from mlflow_mleval.selection import MISSING
from mlflow_mleval.sentences import SHOWN, grouped, some
from mlflow_mleval.study import Study, left_out
from mlflow_mleval.validation import Array, at_least_one, of_kind

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class Fusion:
    """One ranking of methods, from all measures and datasets of a study (`given`, and completed by
    its policy); `ranking` goes by the mean of net flows `phi`."""

    ranking: pd.DataFrame
    ranks: pd.DataFrame
    phi: pd.DataFrame
    weights: pd.DataFrame
    study: Study
    options: dict[str, Any]
    flows: WeighedFlows = field(repr=False)
    given: Study = field(repr=False)

    @cached_property
    def results(self) -> dict[str, PrometheeResult]:
        """What PROMETHEE says by dataset."""
        return {name: self.flows.result(i) for i, name in enumerate(self.ranks.index)}

    @property
    def by_weight(self) -> list[str]:
        """The measures by their mean weight, the heaviest first."""
        return self.weights.mean().sort_values(ascending=False, kind="stable").index.tolist()

    @property
    def doubts(self) -> list[str]:
        """What holds of measures on some datasets, a line each kind."""
        datasets, measures = self.ranks.index, self.weights.columns
        kinds = {
            "The same for all methods, so that it tells none apart": self.flows.by_measure.constant,
            "More than half of the weight, which outvotes all other measures": (
                self.flows.weights > {1: 1.0, 2: OUTVOTES}.get(len(measures), DOMINANT)
            ),
        }
        lines = []
        for what, holds in kinds.items():
            where = []
            for measure, on in zip(measures, holds.T, strict=True):
                if on.any():
                    every = 1 < len(datasets) == on.sum()
                    where.append(f"{measure} on {'every dataset' if every else some(datasets[on])}")
            if where:
                more = f"; and {len(where) - SHOWN} more" if len(where) > SHOWN else ""
                lines.append(f"{what}: {'; '.join(where[:SHOWN])}{more}.")
        if self.flows.lost.any():
            lines.append(f"On {some(datasets[self.flows.lost])}: {NO_FLOW}")
        return lines

    def reweighed(self, weights: Weights) -> Fusion:
        """The same with other weights."""
        options = {**self.options, "weights": weights}
        return _fused(self.study, self.given, self.flows.by_measure, options)

    def without(self, method: int) -> WeighedFlows:
        """Flows without a method, by its position, with the same weights."""
        flows = self.flows.by_measure.without(method)
        return flows.weigh(self.options["weights"], self.options["drop_constant"])

    def refit(self, study: Study) -> Fusion:
        """The same choices for another study; what was given by measure is cut down to its own."""
        options = dict(self.options)
        for key, value in options.items():
            if isinstance(value, Mapping):
                options[key] = {m: x for m, x in value.items() if m in study.measures} or None
        return fuse(study, **options)


def fuse(
    study: Study,
    preference: Preference = "v_shape",
    weights: Weights = "entropy",
    p: Threshold = None,
    q: Threshold = None,
    s: Threshold = None,
    drop_constant: bool = False,
) -> Fusion:
    """Fuse the measures of a study into one ranking of its methods (Eftimov & Kocev 2019).

    PROMETHEE II gives the methods net flows and ranks on each dataset by itself, with thresholds
    and weights from that dataset where none are given. The final ranking is by the mean of the net
    flows, which tests over datasets compare, too; the paper's is by `mean_rank`. The study's policy
    for missing values is applied: MissingResultsError where it has none for its empty cells. The
    options, and what they may not be, are those of `promethee`.

    >>> frame = pd.DataFrame({"dataset": ["d", "d", "e", "e"], "method": ["a", "b"] * 2, "f1": [0.5, 0.6, 0.2, 0.4]})
    >>> fuse(Study.from_frame(frame)).ranking.mean_rank.to_dict()
    {'b': 1.0, 'a': 2.0}
    """  # noqa: E501
    of_kind(study, "study", Study, "a Study, as load_study and Study.from_frame give it")
    _refuse_one_method(study)
    full = study.complete()
    _refuse_one_method(full)  # what is left where methods are dropped
    options = {"preference": preference, "weights": weights, "p": p, "q": q, "s": s}
    options["drop_constant"] = drop_constant
    return _fused(full, study, study_flows(full, preference, p=p, q=q, s=s), options)


def _refuse_one_method(study: Study) -> None:
    if len(study.methods) < 2:
        methods = ", ".join(study.methods)
        only = f"the study holds one method only ({methods}); a comparison needs two."
        raise IncomparableRunsError(" ".join([only, *left_out(study.excluded)]))


def _fused(
    study: Study, given: Study, by_measure: FlowsByMeasure, options: Mapping[str, Any]
) -> Fusion:
    """A completed study with its flows by measure, fused by the weights of the options."""
    weights = options["weights"]
    if isinstance(weights, pd.Series):
        weights = dict(weights)
    elif not isinstance(weights, str | Mapping) and len(weights) == len(study.measures):
        weights = dict(zip(study.measures, weights, strict=True))
    options = {**options, "weights": weights}
    flows = by_measure.weigh(weights, options["drop_constant"])
    index = pd.Index(study.datasets, name="dataset"), pd.Index(study.methods, name="method")
    kinds = (flows.ranks, flows.phi, flows.plus, flows.minus)
    ranks, phi, plus, minus = (pd.DataFrame(values, *index) for values in kinds)
    means = {"phi_plus": plus.mean(), "phi_minus": minus.mean(), "phi": phi.mean()}
    ranking = mean_ranking(flows)[["mean_rank", "rank"]].assign(**means)
    ranking = ranking.rename_axis("method").sort_values("rank", kind="stable")
    by_dataset = pd.DataFrame(flows.weights, ranks.index, study.values.columns)
    return Fusion(ranking, ranks, phi, by_dataset, study, options, flows, given)


def study_flows(
    study: Study, preference: Preference = "v_shape", **thresholds: Threshold
) -> FlowsByMeasure:
    """Flows by each measure of a completed study, before any weights."""
    matrices = study_cells(study)
    methods, measures = pd.Index(study.methods), study.values.columns
    for i, matrix in enumerate(matrices):
        if i == 0 or lost(matrix).any() or not np.isfinite(matrix).all():
            checked(pd.DataFrame(matrix, methods, measures))
    return flows_by_measure(matrices, methods, measures, study.minimize, preference, **thresholds)


def study_cells(study: Study) -> Array:
    """Datasets x methods x measures of a completed study."""
    cells = study.values.reindex(pd.MultiIndex.from_product([study.datasets, study.methods]))
    return cells.to_numpy().reshape(len(study.datasets), len(study.methods), -1)


def mean_ranking(flows: WeighedFlows) -> pd.DataFrame:
    """By method, over datasets: phi and mean_rank, and the rank by phi, ties averaged."""
    phi = flows.phi.mean(axis=0)
    columns = {"phi": phi, "mean_rank": flows.ranks.mean(axis=0), "rank": tied_ranks(-phi)}
    return pd.DataFrame(columns, flows.by_measure.methods)


def v_shape(table: pd.DataFrame) -> pd.DataFrame:
    """Net flows by one measure, larger is better: V-shape preference up to its range by dataset."""
    m, spread = table.shape[1], (table.max(axis=1) - table.min(axis=1)).replace(0, 1)
    return table.sub(table.mean(axis=1), axis=0).div(spread, axis=0) * (m / (m - 1))


# --------------------------------------------------------------------------------------------------
# Measures that say the same, and how the ranking moves without them.

#: A column whose values differ by less than this share of the largest is constant: float noise.
NOISE = 1e-12


@dataclass(frozen=True)
class Redundancy:
    """Which measures are redundant, and what the fused ranking does without them."""

    max_correlation: float
    fusion: Fusion
    correlation: pd.DataFrame
    kept: list[str]
    dropped: pd.DataFrame

    @property
    def ranking(self) -> pd.DataFrame:
        """By method: mean rank and rank by all and by the kept measures, and how ranks change."""
        columns = ["mean_rank", "rank"]
        fewer = self.without.ranking[columns].add_suffix("_without")
        change = (self.fusion.ranks - self.without.ranks).abs().mean()
        return self.fusion.ranking[columns].join(fewer).assign(mean_change=change)

    @cached_property
    def without(self) -> Fusion:
        """The ranking by the kept measures only."""
        return self.fusion.refit(self.fusion.study.select(self.kept))

    @property
    def groups(self) -> list[list[str]]:
        """The connected components of `graph`, the largest first, in the order of the measures."""
        joined = self.correlation.to_numpy() > self.max_correlation
        part = components(joined & ~np.eye(len(joined), dtype=bool))
        names = self.correlation.columns
        return sorted((names[part == i].tolist() for i in np.unique(part)), key=len, reverse=True)

    @property
    def graph(self) -> nx.Graph:
        """Measures, joined where they correlate by more than `max_correlation`."""
        import networkx as nx  # takes a tenth of a second, and no ranking needs it

        graph = nx.Graph()
        graph.add_nodes_from(self.correlation)
        for a, b in combinations(self.correlation, 2):
            if (r := self.correlation.loc[a, b]) > self.max_correlation:
                graph.add_edge(a, b, correlation=r)
        return graph


def correlation_of(study: Study) -> pd.DataFrame:
    """Pearson correlation of measures over methods: absolute value of the mean over datasets; what
    is constant on one counts as 0 there, as in Figure 3 of Eftimov & Kocev (2019)."""
    values = study_cells(study)
    if values.shape[1] < 3:
        raise ValueError(
            f"`study` must hold at least three methods, got {values.shape[1]}. Add methods."
        )
    measures = study.values.columns
    total = np.zeros((len(measures), len(measures)))
    for part in blocks_of(values):
        of_part = values[part]
        varies = np.ptp(of_part, axis=1) > NOISE * np.abs(of_part).max(axis=1)
        centred = np.where(varies[:, None], of_part - of_part.mean(axis=1, keepdims=True), 0.0)
        centred /= np.where(varies, np.sqrt((centred**2).sum(axis=1)), 1.0)[:, None]
        total += np.clip(centred.swapaxes(1, 2) @ centred, -1, 1).sum(axis=0)
    mean = np.abs(total) / len(values)
    np.fill_diagonal(mean, 1.0)
    return pd.DataFrame(mean, measures, measures)


def redundancy_filter(corr: pd.DataFrame, max_correlation: float) -> tuple[list[str], pd.DataFrame]:
    """The kept, and the dropped as rows, one of each pair correlated above the limit:
    ``findCorrelation(exact = TRUE)`` of the R package caret (Kuhn 2008)."""
    if not 0 <= max_correlation <= 1:
        raise ValueError(
            f"`max_correlation` must be a correlation between 0 and 1, got {max_correlation!r}."
        )
    names = corr.columns
    left = corr.abs().to_numpy(dtype=float)
    order = np.argsort(-left.mean(axis=0), kind="stable")
    left = left[np.ix_(order, order)]
    np.fill_diagonal(left, np.nan)
    gone: dict[int, tuple[int, float, float]] = {}
    for i, j in combinations(range(len(order)), 2):
        # what is gone is NaN here, and so is above nothing
        if left[i, j] > max_correlation:
            own = np.nanmean(left[i])
            loser, winner = (i, j) if own > np.nanmean(np.delete(left, j, axis=0)) else (j, i)
            gone[loser] = (winner, left[i, j], np.nanmean(left[loser]))
            left[loser] = left[:, loser] = np.nan
    needed = [names[k] for k in sorted(k for i, k in enumerate(order) if i not in gone)]
    rows = [(names[order[i]], names[order[w]], r, mean) for i, (w, r, mean) in gone.items()]
    columns = ["measure", "because_of", "correlation", "mean_correlation"]
    return needed, pd.DataFrame(rows, columns=columns)


def redundancy(
    fusion: Fusion, max_correlation: float = 0.9, correlation: pd.DataFrame | None = None
) -> Redundancy:
    """Find the redundant measures of a fused study of at least three methods, and how the ranking
    moves without them.

    Measures with an absolute correlation above `max_correlation`, in [0, 1], count as the same.
    `correlation` is how they correlate, where that is known.

    >>> from mlflow_mleval.analysis.fusion import fuse
    >>> from mlflow_mleval.study import Study
    >>> frame = pd.DataFrame({"dataset": "d", "method": list("abc"), "f1": [0.9, 0.6, 0.5], "recall": [0.8, 0.55, 0.5]})
    >>> found = redundancy(fuse(Study.from_frame(frame)))
    >>> found.kept, found.groups, found.ranking.mean_change.tolist()
    (['f1'], [['f1', 'recall']], [0.0, 0.0, 0.0])
    """  # noqa: E501
    matrix = correlation_of(fusion.study) if correlation is None else correlation
    return Redundancy(max_correlation, fusion, matrix, *redundancy_filter(matrix, max_correlation))


# --------------------------------------------------------------------------------------------------
# How sure a fused ranking is. Net flows are sums of the flows by measure times the weights, so that
# weights can be moved without computing flows again; thresholds stay as they are.

#: How many numbers a work array holds at most.
CHUNK = 1_000_000


@dataclass(frozen=True)
class LeaveOneOut:
    """The ranking with each method left out in turn, and the pairs that this turns."""

    ranks: pd.DataFrame
    reversals: pd.DataFrame
    winner_changes: dict[str, str]


@dataclass(frozen=True)
class Scenario:
    """The ranking by one choice of function, weights and policy, and what it was made of."""

    varies: str
    preference: str
    weights: str
    missing: str
    n_datasets: int
    chosen: bool
    ranking: pd.DataFrame
    study: Study
    flows: WeighedFlows

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What tells it from others."""
        return self.varies, self.preference, self.weights, self.missing

    @property
    def leaders(self) -> list[str]:
        return first_ranked(self.ranking["rank"].dropna())


@dataclass(frozen=True)
class Sensitivity:
    """The ranking under other choices, the one asked for first, and why some give none."""

    scenarios: list[Scenario]
    impossible: dict[str, str]

    @property
    def table(self) -> pd.DataFrame:
        """One row a scenario and method."""
        names = ("varies", "preference", "weights", "missing", "n_datasets", "chosen")
        tables = [
            one.ranking.reset_index().assign(**{name: getattr(one, name) for name in names})
            for one in self.scenarios
        ]
        return pd.concat(tables, ignore_index=True)[[*names, "method", *tables[0].columns[1:4]]]


_INTERVAL_COLUMNS = [
    *("weight", "weight_low", "weight_high", "rival_low", "rival_high"),
    *("order_weight_low", "order_weight_high"),
]


def _share_where_crossed(now: Array, there: Array) -> Array:
    """At which share of the way differences reach or leave zero; infinity where they do not."""
    now, there = _clean(now), _clean(there)
    crosses = np.where(now == 0, there != 0, there < 0)
    return np.divide(now, now - there, out=np.full(now.shape, np.inf), where=crosses)


def _clean(difference: Array) -> Array:
    """Differences of flows with those within the tolerance set to exactly zero."""
    return np.where(np.abs(difference) <= TIE, 0.0, difference)


def _by_measure(fusion: Fusion, methods: list[str]) -> tuple[Array, Array]:
    """Flows by measure, datasets x methods x measures, and weights, datasets x measures."""
    by = fusion.flows.by_measure
    order = by.methods.get_indexer(methods)
    return np.ascontiguousarray(by.net[:, :, order].swapaxes(1, 2)), fusion.flows.weights


def sensitivity(
    study: Study,
    preference: Preference = "v_shape",
    weights: Weights = "entropy",
    drop_constant: bool = False,
    **thresholds: Threshold,
) -> Sensitivity:
    """The ranking under every function with equal and entropy weights, and every policy for gaps.
    Given thresholds stay with the chosen function."""
    chosen: dict[str, Any] = {"preference": preference, "weights": weights, **thresholds}
    chosen["drop_constant"] = drop_constant
    complete = study.complete()
    names = [x if isinstance(x, str) else "given" for x in (preference, weights)]
    tried = [("function", names, complete, fuse(complete, **chosen).flows)]
    impossible: dict[str, str] = {}
    others = [name for name in MISSING if name not in ("error", study.missing)]
    for policy in others if study.gaps() else []:
        try:
            other = study.complete(policy)
            flows = fuse(other, **chosen).flows
        except (MlevalError, ValueError) as error:
            impossible[policy] = str(error)
        else:
            tried.append(("policy", names, other, flows))
    for function in PREFERENCES:
        by_measure = study_flows(complete, function, **(thresholds if function == names[0] else {}))
        for scheme in WEIGHTS:
            if [function, scheme] != names:
                flows = by_measure.weigh(scheme, drop_constant)
                tried.append(("function", [function, scheme], complete, flows))
    scenarios = []
    for i, (varies, (function, weighed), by, flows) in enumerate(tried):  # the first as asked
        ranking = mean_ranking(flows).reindex(study.methods).rename_axis("method")
        columns, n = ranking[["rank", "phi", "mean_rank"]], len(by.datasets)
        how = varies, function, weighed, by.missing, n, i == 0
        scenarios.append(Scenario(*how, columns, by, flows))
    return Sensitivity(scenarios, impossible)


@dataclass(frozen=True)
class Stability:
    """How sure the fused ranking is: each part when it is asked for."""

    fusion: Fusion
    study: Study
    again: Retest | None
    correlation: pd.DataFrame | None
    n_resamples: int
    seed: int

    @cached_property
    def intervals(self) -> pd.DataFrame:
        """How far each weight alone may move before the leaders (order_: the ranking) change or
        tie, and who leads beyond: exactly, for mean net flows are lines in it."""
        methods = list(self.fusion.ranking.index)
        flows, weights = _by_measure(self.fusion, methods)
        now = np.einsum("dmj,dj->dm", flows, weights)
        mean = now.mean(axis=0)
        lead = np.flatnonzero(_clean(mean[0] - mean) == 0)
        rows = {}
        for j, measure in enumerate(self.fusion.study.measures):
            weight = weights[:, j].mean()
            row: dict[str, Any] = {"weight": weight}
            # a weight of 1 has no others to give it to, and stays
            others = 1 - weights[:, [j]]
            rest = now - weights[:, [j]] * flows[:, :, j]
            without = np.divide(rest, others, out=now.copy(), where=others > TIE)
            least = np.mean(others[:, 0] <= TIE)
            alone = flows[:, :, j].mean(axis=0)
            ends = {"low": (without.mean(axis=0), least), "high": (alone, 1.0)}
            for side, (there, limit) in ends.items():
                # the share of the way at which the order, or the lead, changes; methods best first
                order = _share_where_crossed(mean[:-1] - mean[1:], there[:-1] - there[1:])
                leads = mean[lead, None] - mean, there[lead, None] - there
                share = _share_where_crossed(*leads).min(initial=np.inf)
                row[f"rival_{side}"] = None
                if share <= 1:
                    beyond = mean + min(share + 1e-9, 1.0) * (there - mean)
                    ahead = np.flatnonzero(_clean(beyond.max() - beyond) == 0)
                    new = np.setdiff1d(ahead, lead)
                    row[f"rival_{side}"] = methods[new[0] if len(new) else ahead[0]]
                to = limit - weight
                row[f"weight_{side}"] = weight + min(float(share), 1.0) * to
                row[f"order_weight_{side}"] = weight + float(order.min(initial=1.0)) * to
            rows[measure] = row
        table = pd.DataFrame(list(rows.values()), list(rows), _INTERVAL_COLUMNS, dtype=object)
        numbers = [name for name in _INTERVAL_COLUMNS if "rival" not in name]
        return table.astype(dict.fromkeys(numbers, float))

    @cached_property
    def smallest_change(self) -> pd.Series | None:
        """The smallest change of one weight, others rescaled, that costs the leader the lead."""
        moves = [
            {"measure": m, "weight": row.weight, "to": to, "change": to - row.weight, "rival": by}
            for m, row in self.intervals.iterrows()
            for to, by in ((row.weight_low, row.rival_low), (row.weight_high, row.rival_high))
            if by is not None
        ]
        best = min(moves, key=lambda move: abs(move["change"]), default=None)
        return None if best is None else pd.Series(best)

    @cached_property
    def acceptability(self) -> pd.DataFrame:
        """How often each method takes each rank by mean net flow under random weights, uniform on
        the simplex (SMAA-2, Lahdelma & Salminen 2001); those that tie share."""
        n_resamples = at_least_one(self.n_resamples, "n_resamples")
        methods = list(self.fusion.ranking.index)
        mean = _by_measure(self.fusion, methods)[0].mean(axis=0)
        m, n_measures = mean.shape
        rng = np.random.default_rng(self.seed)
        counts = np.zeros((m, m))
        for part in slices(n_resamples, max(CHUNK // m, 1)):
            weights = rng.dirichlet(np.ones(n_measures), size=part.stop - part.start)
            best, worst = tied_places(-weights @ mean.T)
            tied = worst - best + 1
            shares = np.zeros(m * m)
            for further in range(int(tied.max())):
                draw, method = np.nonzero(tied > further)
                place = method * m + best[draw, method] + further
                np.add.at(shares, place, 1 / tied[draw, method])
            counts += shares.reshape(m, m)
        return pd.DataFrame(counts / n_resamples, methods, pd.RangeIndex(1, m + 1, name="rank"))

    @cached_property
    def leave_one_out(self) -> LeaveOneOut | None:
        """Whether the order depends on a third method: all anew without each; None of two."""
        methods = list(self.fusion.ranking.index)
        if len(methods) < 3:
            return None
        before = self.fusion.ranking["rank"].to_numpy()
        by_position = self.fusion.flows.by_measure.methods
        order = by_position.get_indexer(methods)
        ranks = np.full((len(methods),) * 2, np.nan)
        leaders, turned = [], []
        for i, gone in enumerate(order):
            phi = self.fusion.without(gone).phi.mean(axis=0)
            rank = np.insert(tied_ranks(-phi), gone, np.nan)
            leaders.append(int(np.nanargmin(rank)))
            ranks[i] = rank[order]
            pairs = (before[:, None] < before) & (ranks[i, :, None] > ranks[i])
            turned += [(i, *pair) for pair in np.argwhere(pairs).tolist()]
        names = pd.Index(methods)
        places = np.array(turned, np.intp).reshape(-1, 3).T
        columns = zip(("left_out", "ahead", "behind"), map(names.take, places), strict=True)
        winners = pd.Series(by_position[leaders], names)
        lost = ranks[:, 0] > np.nanmin(ranks, axis=1)
        return LeaveOneOut(
            pd.DataFrame(ranks, names, names), pd.DataFrame(dict(columns)), winners[lost].to_dict()
        )

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """The ranking under other choices."""
        return sensitivity(self.study, **self.fusion.options)

    @cached_property
    def separations(self) -> Separations | None:
        """Which pairs stay separated under the scenarios, and with fewer measures by the filter;
        None where the deciding test cannot be made again."""
        if self.again is None:
            return None
        pairs = self.again.pairs
        tried: dict[tuple[str, str], Fusion | Scenario] = {}
        for one in self.sensitivity.scenarios[1:]:
            label = f"{one.preference}, {one.weights}" if one.varies == "function" else one.missing
            tried[one.varies, label] = one
        for limit in FILTERS if self.correlation is not None else ():
            needed, _ = redundancy_filter(self.correlation, limit)
            tried["filter", f"{limit:g}"] = self.fusion.refit(self.fusion.study.select(needed))
        rows = {}
        for key, made in tried.items():
            there = set(made.ranking["rank"].dropna().index)
            stayed = set(self.again(made.study, made.flows))
            rows[key] = [float(p in stayed) if there.issuperset(p) else None for p in pairs]
        stays = pd.DataFrame.from_dict(rows, orient="index", dtype=float)
        stays.columns = pd.Index(pairs if rows else [], tupleize_cols=False)
        return Separations(stays)


# --------------------------------------------------------------------------------------------------
# What lead and separations survive: other choices, and the absence of other methods.

#: Correlations above which measures are left out, to see what stays.
FILTERS = (0.9, 0.8, 0.7)
#: Statistics (pairs times sign changes) of a test under one other choice; of more methods than this
#: none is made.
MOST = 10**8
METHODS = 300


def first_ranked(rank: pd.Series) -> list[str]:
    """The methods with the best rank: one, unless they tie."""
    return rank.index[rank == rank.min()].tolist()


def leaders_by(values: pd.Series) -> list[str]:
    """The methods with the largest values, which tie within the tolerance of flows."""
    return first_ranked(pd.Series(tied_ranks(-values.to_numpy()), values.index))


@dataclass(frozen=True)
class Survivals:
    """Under which other choices, and without which other methods, the lead is lost or shared."""

    tried: int
    lost: list[Scenario]
    methods: int | None
    lost_methods: Mapping[str, str]
    rivals: list[str]


@dataclass(frozen=True)
class Separations:
    """Other choices x pairs: whether the test still separates them; NaN where one is gone."""

    stays: pd.DataFrame

    @cached_property
    def counts(self) -> dict[tuple[str, str], tuple[int, int]]:
        """By pair, under how many of the other choices its separation stays, and of how many."""
        stays = self.stays.to_numpy(float)
        kept = np.nansum(stays, axis=0).astype(int).tolist()
        tried = np.count_nonzero(~np.isnan(stays), axis=0).tolist()
        return dict(zip(self.stays.columns, zip(kept, tried, strict=True), strict=True))


@dataclass(frozen=True)
class Retest:
    """The deciding test made again on other flows of the same study."""

    test: Posthoc
    pairs: list[tuple[str, str]]
    tested: Tested
    finished: pd.DataFrame

    def __call__(self, study: Study, flows: WeighedFlows) -> list[tuple[str, str]]:
        """The separated pairs (better, worse)."""
        index, columns, t = pd.Index(study.datasets), pd.Index(study.methods), self.tested
        if min(len(index), len(columns)) < 2 or t.control not in (None, *columns):
            return []
        phi, ranks = (pd.DataFrame(x, index, columns) for x in (flows.phi, flows.ranks))
        phi = phi.where(self.finished.reindex(index=index, columns=columns))
        again = replace(t, table=phi, ranks=ranks, flows=phi, most=MOST)
        return list(replace(self.test, tested=again).result.significant_pairs)


#: Methods up to which each is left out in turn.
COMPANIONS = 60


def needed_by(flows: pd.DataFrame, result: MaxTResult, fusion: Fusion | None) -> pd.DataFrame:
    """One row a separation by max-T: the datasets and other methods without which it falls."""
    pairs, c = result.significant_pairs, critical(result)
    n, names = len(flows), flows.index.tolist()
    needed: dict[Any, list[Any]] | None = None
    if fusion is not None and 2 < len(flows.columns) <= COMPANIONS:
        needed = {pair: [] for pair in pairs}
        for i, gone in enumerate(fusion.flows.by_measure.methods):
            weighed = fusion.without(i)
            if others := [pair for pair in pairs if gone not in pair]:
                there = weighed.by_measure.methods
                phi = np.where(flows[there].notna(), weighed.phi, np.nan)
                d = _better_less_worse(phi, there, others)
                for k in np.flatnonzero(d.sum(axis=0) < c * np.sqrt((d**2).sum(axis=0))):
                    needed[others[k]].append(gone)
    rows = []
    for part in slices(len(pairs), _PAIRS):
        block = pairs[part]
        d = _better_less_worse(flows.to_numpy(), flows.columns, block)
        left, size = d.sum(axis=0) - d, np.sqrt((d**2).sum(axis=0) - d**2)
        falls = ratio(left, size) * np.sqrt(n / (n - 1)) < c
        for (a, b), which in zip(block, falls.T, strict=True):
            rows.append((a, b, list(compress(names, which)), needed and needed[a, b]))
    return pd.DataFrame(rows, columns=["better", "worse", "jackknife", "companions"])


#: Pairs that are in memory at a time.
_PAIRS = 2_000


def _better_less_worse(values: Array, names: pd.Index, pairs: list[Any]) -> Array:
    """Datasets x pairs; 0 where one of the two is missing."""
    better, worse = (names.get_indexer(side) for side in zip(*pairs, strict=True))
    return np.nan_to_num(values[:, better] - values[:, worse])


# --------------------------------------------------------------------------------------------------
# What a reader must know before believing a comparison; what could turn the answer comes first.

#: Of two measures one always has half of the weight; this much is worth a word.
OUTVOTES = 0.75


def collected(
    study: Study,
    fusion: Fusion,
    tests: Mapping[str, Any],
    warned: list[str],
    could_turn: list[str],
    counted: bool,
) -> tuple[str, ...]:
    """What a reader must know, what could turn the answer first."""
    of_training = [note for note in study.notes if note.startswith(TRAINING_DOUBT)]
    unsure = study.unsure("dataset")
    doubts = [*([unsure] if unsure else []), *of_training, *could_turn]
    omnibus, decides = tests["friedman"], tests["deciding"]
    if (
        decides is not None
        and decides.over == "datasets"
        and decides.asked != "max-t"  # which judges all pairs together by itself
        and decides.result.significant_pairs
        and omnibus.best_pvalue > decides.result.alpha
    ):
        doubts.append(
            "Pairs are separated although the Friedman test over all methods finds no difference."
        )
    if study.filled:
        alone = decides is not None and not decides.by_mean_ranks and not counted
        doubts.append(_about_missing(study, alone))
    doubts += [*study.notes, *left_out(study.excluded), *fusion.doubts, *warned]
    return tuple(dict.fromkeys(doubts))


def _about_missing(study: Study, left_out: bool) -> str:
    """Which results are missing, what the ranking does, and what tests of pairs do."""
    per = pd.Series([d for d, _ in study.filled]).value_counts()
    where = ", ".join(f"{d} ({n})" for d, n in per.items())
    total = len(study.datasets) * len(study.methods)
    are, them = ("is", "it") if len(study.filled) == 1 else ("are", "them")
    why = f" ({why})" if (why := study.why_empty(study.filled)) else ""
    tests = f"; tests of pairs leave {them} out" if left_out else ""
    return (
        f"{len(study.filled)} of {total} results {are} missing{why}: {where}. The ranking "
        f"gives {them} the dataset's worst value{tests}."
    )


def against_the_order(
    turned: Sequence[tuple[Any, Any]], of: str, leader: str, yardsticks: Mapping[str, pd.Series]
) -> list[str]:
    """Doubts about pairs (better, worse) whose separation goes before their means, `of` what; and
    where the leaders by these yardsticks, larger is better, differ."""
    doubts = []
    if turned:
        pairs = some(f"{a} before {b}" for a, b in turned)
        doubts.append(
            f"The order puts what is certain first: {pairs}, against the {of} over all datasets, "
            "which counts other datasets, or counts them otherwise, than the test does."
        )
    leaders = {}
    for yardstick, values in yardsticks.items():
        tied = leaders_by(values)
        leaders[yardstick] = leader if leader in tied else tied[0]
    ahead = grouped((method, yardstick) for yardstick, method in leaders.items())
    if len(ahead) > 1:
        by = ", ".join(f"{method} by {' and '.join(ways)}" for method, ways in ahead.items())
        doubts.append(
            f"Who leads depends on the yardstick: {by}. One crash moves a plain mean, narrow wins "
            "move a mean rank."
        )
    return doubts


def leaning(
    study: Study, tested: Tested, made: Posthoc | None, counted: bool
) -> list[tuple[str, str]]:
    """Pairs that max-T separates only with the values that the policy gave to missing results."""
    if made is None or study.missing != "worst" or not (counted or made.by_mean_ranks):
        return []
    finished = study.finished().reindex_like(tested.table)
    filled = set(finished.columns[~finished.all()])
    pairs = [pair for pair in made.result.significant_pairs if filled & {*pair}]
    if not pairs:
        return []
    flows = tested.flows.where(finished)
    without = max_t(flows, tested.control, tested.alpha, seed=tested.seed).significant_pairs
    return [pair for pair in pairs if pair not in without]


def turning(fusion: Fusion, again: Retest | None, lean: list[Any]) -> list[str]:
    """Doubts that could turn the fused answer: two methods, the weights, what was filled."""
    doubts, options, measures = [], fusion.options, fusion.weights.columns
    if len(fusion.ranking) == 2 and not any(options[key] is not None for key in "pqs"):
        doubts.append(
            "With two methods the fused ranking counts the measures that each wins, by their "
            "weights; it says nothing of how large the differences are."
        )
    if options["weights"] == "entropy" and len(measures) > 1:
        equal = fusion.flows.by_measure.weigh("equal", fusion.options["drop_constant"])
        first, leaders = (first_ranked(mean_ranking(x)["rank"]) for x in (equal, fusion.flows))
        gone: list[str] = []
        if again is not None:
            stay = again(fusion.study, equal)
            gone = [f"{a} from {b}" for a, b in again.pairs if (a, b) not in stay]
        without = f", and nothing would separate {some(gone)}" if gone else ""
        if set(first) != set(leaders) or gone:
            weight = fusion.weights.mean()
            doubts.append(
                "Weights by entropy favour measures that set a few methods far apart, here "
                f"{weight.idxmax()} most ({weight.max():.2g} of the weight; "
                f"{1 / len(measures):.2g} if all weighed the same). With equal weights "
                f"{some(first)} would lead{without}."
            )
    if lean:
        pairs = some(f"{a} from {b}" for a, b in lean)
        doubts.append(
            f"Separated only with the values that were given to missing results: {pairs}."
        )
    return doubts
