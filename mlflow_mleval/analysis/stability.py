"""How sure a fused ranking is: what weights, methods, preference functions and policies would
change it.

Everything starts from a Fusion. Net flows are sums of the flows by measure times the weights, so
that weights can be moved without computing flows again; thresholds stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_mleval.analysis.fusion import Fusion, fuse, mean_ranking, redundancy_filter, study_flows
from mlflow_mleval.analysis.posthoc.description import FLOWS, Made, Posthoc, Tested
from mlflow_mleval.analysis.posthoc.max_t import max_t
from mlflow_mleval.analysis.promethee import (
    DOMINANT,
    PREFERENCES,
    TIE,
    WEIGHTS,
    Array,
    Preference,
    Threshold,
    WeighedFlows,
    Weights,
    place_shares,
    tied_places,
    tied_ranks,
)
from mlflow_mleval.errors import MissingResultsError
from mlflow_mleval.measures.metric_names import TRAINING_DOUBT
from mlflow_mleval.selection import MISSING
from mlflow_mleval.study import Study, left_out
from mlflow_mleval.validation import at_least_one
from mlflow_mleval.words import SHOWN, some

#: Breakpoints of a weight factor closer than this, relative to their size, are one.
SAME = 1e-11
#: How many numbers a work array holds at most.
CHUNK = 1_000_000
#: How many events are tried before all others are put in order.
FIRST = 10_000
#: How many multiplications of weights by flows are done at once: small enough for BLAS not to start
#: threads for it.
BLOCK = 200_000


@dataclass(frozen=True)
class WeightIntervals:
    """How far the weight of each measure alone may move.

    Attributes
    ----------
    leaders : The methods with the best mean rank now; one, unless they tie.
    table : By measure: weight (mean over datasets); while its weight is multiplied by a factor between factor_low and
        factor_high, that is while its mean weight lies between weight_low and weight_high, the
        leaders stay the same; rival_low and rival_high reach the lead there (None where nobody
        does: factor 0 or infinity). The same with ``order_`` in front for the whole ranking by mean
        rank.
    """  # noqa: E501

    leaders: tuple[str, ...]
    table: pd.DataFrame


@dataclass(frozen=True)
class Dethronement:
    """The smallest changes of weights that cost a leader the lead, by two criteria.

    Attributes
    ----------
    leader_by_rank : The method with the best mean rank, which `single` is about.
    single : The smallest change of one measure's weight, the others rescaled, after which another method has the best mean rank
        or shares it: measure, weight (mean over datasets), to, change (to - weight), rival. None:
        no single weight does it.
    leader_by_flow : The method with the largest net flow averaged over datasets, which `distances` and `change` are about.
    rival : Who reaches the leader's mean net flow after the smallest change of all weights together. None: nobody can.
    distances : By rival: the size of the smallest change, ½ Σ|δ_j| (the share of the weight that has to move); inf where no
        change within the simplex is enough. Ascending.
    change : By measure: that smallest change δ for `rival`, to be added to the weights of every dataset; NaN without rival.
    warnings : Says so where the two leaders are not the same method, or the lead is shared.
    """  # noqa: E501

    leader_by_rank: str
    single: pd.Series | None
    leader_by_flow: str
    rival: str | None
    distances: pd.Series
    change: pd.Series
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class RankAcceptability:
    """How often each method takes each rank under random weights (SMAA-2, Lahdelma & Salminen
    2001).

    Attributes
    ----------
    acceptability : Methods (in order of the ranking) x ranks 1..m: share of the draws. Methods that tie share the ranks they
        cover equally, so rows and columns sum to 1.
    central_weights : Methods x measures: mean of the weights that give the method rank 1; NaN where none did.
    n_resamples, seed : How many weight vectors, from which seed.
    """  # noqa: E501

    acceptability: pd.DataFrame
    central_weights: pd.DataFrame
    n_resamples: int
    seed: int


@dataclass(frozen=True)
class LeaveOneOut:
    """The ranking with each method left out in turn, thresholds and weights computed again.

    Attributes
    ----------
    ranks : Left-out method x method: overall rank among the others; NaN on the diagonal.
    reversals : One row a reversal: left_out, ahead, behind. `ahead` is ahead in the full ranking and behind without left_out.
    winners : By left-out method: who leads then (of several, the first in the study).
    winner_changes : Left-out method -> new leader, where a method other than the leader is left out and the leader falls behind.
    """  # noqa: E501

    ranks: pd.DataFrame
    reversals: pd.DataFrame
    winners: pd.Series
    winner_changes: dict[str, str]


@dataclass(frozen=True)
class Sensitivity:
    """The ranking under other preference functions, weights and policies for missing values.

    Attributes
    ----------
    table : One row a scenario and method: varies ("function" or "policy"), preference, weights, missing, n_datasets, chosen
        (whether this is what was asked for), method, rank, mean_rank; NaN where the policy dropped
        the method.
    impossible : Policy -> why it gives no ranking.
    separated : By scenario (varies, preference, weights, missing), the pairs (better, worse) that are separated; where asked for.
    """  # noqa: E501

    table: pd.DataFrame
    impossible: dict[str, str]
    separated: dict[tuple[str, str, str, str], list[tuple[str, str]]] = field(default_factory=dict)

    @property
    def scenarios(self) -> dict[tuple[str, str, str, str], pd.DataFrame]:
        """By (varies, preference, weights, missing) the rows of what was tried, each once: what was
        asked for, policies, rest.
        """
        keys, table = ["varies", "preference", "weights", "missing"], self.table
        parts = {
            key: part
            for key, part in table.groupby(keys, sort=False)
            if not (key[0] == "policy" and part["chosen"].all())
        }
        return dict(
            sorted(
                parts.items(),
                key=lambda item: (not item[1]["chosen"].all(), item[0][0] != "policy"),
            )
        )


def weight_intervals(fusion: Fusion) -> WeightIntervals:
    """How far the weight of each measure may move before the leader, or the order, by mean rank
    changes.

    The weight of one measure is multiplied by a factor in every dataset and the weights are
    rescaled to sum 1. In a dataset two methods then change places at most once, where their net
    flows, two lines in the factor, cross. Mean ranks are constant between such crossings, so that
    the intervals are exact: at every crossing, outward from factor 1, the ranks are brought up to
    date until leader and order have changed. A tie at factor 1 counts: an interval ends at 1 where
    the smallest move makes the leader another. O(n · D · m²) memory-bound steps for m methods, n
    measures and D datasets unless very many methods come close to the lead without reaching it, and
    100 bytes for each pair of methods and dataset.

    >>> frame = pd.DataFrame({"dataset": ["d"] * 2, "method": ["a", "b"], "f1": [0.5, 0.6], "one_error": [0.2, 0.4]})
    >>> found = weight_intervals(fuse(Study.from_frame(frame), weights={"f1": 3, "one_error": 1}))
    >>> found.leaders, found.table.rival_low["f1"], found.table.weight_low.round(9).to_dict()
    (('b',), 'a', {'f1': 0.5, 'one_error': 0.0})
    """  # noqa: E501
    methods = list(fusion.ranking.index)
    flows, weights = _by_measure(fusion, methods)
    a, b = (side.astype(np.int32) for side in np.triu_indices(len(methods), 1))
    rows = {}
    for j, measure in enumerate(fusion.study.measures):
        own = flows[:, :, j] * (weights[:, None, j] > 0)
        others = np.einsum("dmj,dj->dm", np.delete(flows, j, axis=2), np.delete(weights, j, axis=1))
        slope, fixed = (_clean(x[:, a] - x[:, b]) for x in (own, others))
        slope *= weights[:, None, j]
        now = _clean(fixed + slope)
        behind = np.sign(now).sum(axis=0)
        start = np.bincount(b, behind, len(methods)) - np.bincount(a, behind, len(methods))
        with np.errstate(divide="ignore", invalid="ignore"):
            crossing = np.where(now == 0, 1.0, -fixed / slope)
        crossing[slope == 0] = 0
        row = {"weight": weights[:, j].mean()}
        for side, toward in (("low", -1), ("high", 1)):
            event = np.flatnonzero(
                (crossing > 0) & (crossing <= 1 if toward < 0 else crossing >= 1)
            )
            at, pair = crossing.ravel()[event], event % len(a)
            size = np.where(at == 1, 1, 2) * np.sign(slope.ravel()[event]) * toward
            factors, beyond = _first_changes(start, at, toward, a[pair], b[pair], size)
            for prefix, factor in zip(("", "order_"), factors, strict=True):
                limit = (np.inf if toward > 0 else 0.0) if factor is None else factor
                row[f"{prefix}factor_{side}"] = limit
                row[f"{prefix}weight_{side}"] = _scaled(weights[:, j], limit)
            row[f"rival_{side}"] = None if beyond is None else methods[_newcomer(start, beyond)]
        rows[measure] = row
    leaders = tuple(fusion.ranking.index[fusion.ranking["rank"] == fusion.ranking["rank"].min()])
    table = pd.DataFrame(list(rows.values()), list(rows), _INTERVAL_COLUMNS, dtype=object)
    return WeightIntervals(
        leaders, table.astype({name: float for name in _INTERVAL_COLUMNS if "rival" not in name})
    )


_INTERVAL_COLUMNS = [
    "weight",
    "factor_low",
    "factor_high",
    "weight_low",
    "weight_high",
    "rival_low",
    "rival_high",
    "order_factor_low",
    "order_factor_high",
    "order_weight_low",
    "order_weight_high",
]


def _first_changes(
    start: npt.NDArray[Any],
    at: npt.NDArray[Any],
    toward: int,
    a: npt.NDArray[np.int32],
    b: npt.NDArray[np.int32],
    size: Array,
) -> tuple[list[float | None], Array | None]:
    """Where, going down or up from factor 1, the set of leaders first changes, and where the order
    does; the rank sums beyond.

    Event e at factor at[e] takes size[e] from the rank sum of method a[e] and gives it to b[e]. Of
    many events the nearest ones are tried first, without sorting all.
    """
    for n in dict.fromkeys((min(FIRST + len(at) // 16, len(at)), len(at))):
        some = np.argpartition(toward * at, n - 1)[:n] if n < len(at) else np.arange(n)
        some = some[np.argsort(toward * at[some], kind="stable")]
        changes = _along(start, at[some], a[some], b[some], size[some], n == len(at))
        if None not in changes[0]:
            break
    return changes


def _along(
    start: Array,
    at: Array,
    a: npt.NDArray[np.int32],
    b: npt.NDArray[np.int32],
    size: Array,
    whole: bool,
) -> tuple[list[float | None], Array | None]:
    """The same for events in their order; where they are not the `whole`, what is after the last is
    unknown.

    In a chunk of events a rank sum moves by no more than its own events can move it. Only methods
    that can so reach the leaders, or a neighbour in the order, are followed from event to event.
    """
    m, order = len(start), np.argsort(start, kind="stable")
    steps, lead = np.sign(np.diff(start[order])), start == start.min()
    factors: list[float | None] = [None, None]
    beyond = None
    last = np.append(np.abs(np.diff(at)) > SAME * at[1:], whole) if len(at) else np.zeros(0, bool)
    group, ends = (
        np.cumsum(last) - last,
        np.flatnonzero(last) + 1,
    )  # events at one factor, and where their groups end
    sums, first, length = start, 0, 256

    def moved(events: slice) -> Array:
        gained, lost = (np.bincount(side[events], size[events], m) for side in (b, a))
        return np.asarray(gained - lost, dtype=float)

    while first < len(ends) and None in factors:
        begin = ends[first - 1] if first else 0
        events = slice(begin, ends[min(first + length, len(ends)) - 1])
        room = np.bincount(a[events], np.abs(size[events]), m) + np.bincount(
            b[events], np.abs(size[events]), m
        )
        rivals = lead | (sums - room <= (sums + room)[lead].min())
        if factors[0] is not None or rivals.sum() == 1:
            rivals = np.zeros(m, bool)
        gaps = np.flatnonzero(np.abs(np.diff(sums[order])) <= room[order[1:]] + room[order[:-1]])
        if factors[1] is not None:
            gaps = gaps[:0]
        followed = rivals.copy()
        followed[order[gaps]] = followed[order[gaps + 1]] = True
        hits = np.flatnonzero(followed[a[events]] | followed[b[events]]) + begin
        groups, row = np.unique(group[hits], return_inverse=True)
        if len(groups) * followed.sum() > CHUNK and length > 1:
            length //= 2
            continue
        place, width = np.cumsum(followed) - 1, int(followed.sum())
        moves = np.zeros(len(groups) * width)
        for side, sign in ((a, -1), (b, 1)):
            own = followed[side[hits]]
            moves += np.bincount(
                row[own] * width + place[side[hits[own]]], sign * size[hits[own]], len(moves)
            )
        state = sums[followed] + np.cumsum(moves.reshape(len(groups), width), axis=0)
        among = state[:, rivals[followed]]
        same = (
            ((among == among.min(axis=1, keepdims=True, initial=np.inf)) == lead[rivals]).all(
                axis=1
            ),
            (
                np.sign(state[:, place[order[gaps + 1]]] - state[:, place[order[gaps]]])
                == steps[gaps]
            ).all(axis=1),
        )
        for k in range(2):
            if factors[k] is None and not same[k].all():
                until = ends[groups[int(np.argmin(same[k]))]]
                factors[k] = float(at[until - 1])
                if k == 0:
                    beyond = sums + moved(slice(begin, until))
        sums, first, length = sums + moved(events), first + length, min(2 * length, CHUNK)
    return factors, beyond


def _newcomer(start: npt.NDArray[Any], beyond: npt.NDArray[Any]) -> int:
    """Who leads beyond and did not before, else who still leads; the first in the ranking."""
    lead, before = beyond == beyond.min(), start == start.min()
    new = lead & ~before
    return int(np.flatnonzero(new if new.any() else lead)[0])


def _scaled(weights: Array, factor: float) -> float:
    """Mean over datasets of a weight multiplied by a factor, the others rescaled so that they sum
    to 1.

    A weight of 1 has no others and stays.
    """
    if np.isinf(factor):
        return float(np.mean(weights > 0))
    total = 1 - weights + factor * weights
    return float(
        np.mean(np.divide(factor * weights, total, out=np.ones_like(total), where=total > 0))
    )


def _clean(difference: Array) -> Array:
    """Differences of flows with those within the tolerance set to exactly zero."""
    return np.where(np.abs(difference) <= TIE, 0.0, difference)


def _by_measure(fusion: Fusion, methods: list[str]) -> tuple[Array, Array]:
    """Flows by measure, datasets x methods x measures, and weights, datasets x measures."""
    by = fusion.flows.by_measure
    order = by.methods.get_indexer(methods)
    return np.ascontiguousarray((by.up - by.down)[:, :, order].swapaxes(1, 2)), fusion.flows.weights


def dethrone(fusion: Fusion, intervals: WeightIntervals | None = None) -> Dethronement:
    """The smallest changes of weights that cost the leader the lead.

    Two questions, two criteria. One measure's weight moves and the others are rescaled: when does
    the best *mean rank* pass to another or become shared (see `weight_intervals`)? All weights may
    move by a common vector δ, added in every dataset and keeping every weight at least 0 and the
    sums 1: what is the smallest ½ Σ|δ_j| with which a rival reaches the leader's *net flow averaged
    over datasets*? The second is a linear programme per rival; since weight moved from measure i to
    measure k changes the difference in proportion to g_k - g_i, it is solved by moving weight to
    the measure that favours the rival most, from the others in order of how much they favour the
    leader. `intervals` are those of the fusion, where they are known.
    """
    intervals = intervals or weight_intervals(fusion)
    moves = [
        {
            "measure": measure,
            "weight": row.weight,
            "to": to,
            "change": to - row.weight,
            "rival": rival,
        }
        for measure, row in intervals.table.iterrows()
        for to, rival in ((row.weight_low, row.rival_low), (row.weight_high, row.rival_high))
        if rival is not None
    ]
    best = min(moves, key=lambda move: abs(move["change"]), default=None)
    methods = list(fusion.ranking.index)
    flows, weights = _by_measure(fusion, methods)
    mean, phi = flows.mean(axis=0), fusion.ranking.phi.to_numpy()
    room = weights.min(axis=0)
    top = int(phi.argmax())
    changes = {
        name: _smallest_shift(phi[top] - phi[i], mean[i] - mean[top], room)
        for i, name in enumerate(methods)
        if i != top
    }
    distances = pd.Series(
        {name: np.inf if d is None else np.abs(d).sum() / 2 for name, d in changes.items()},
        dtype=float,
    )
    distances = distances.sort_values(kind="stable")
    rival = distances.index[0] if np.isfinite(distances.iloc[0]) else None
    change = np.full(len(room), np.nan) if rival is None else changes[rival]
    doubts = []
    if len(intervals.leaders) > 1:
        shared = " and ".join(map(str, intervals.leaders))
        doubts.append(
            f"{shared} share the best mean rank; the change of a single weight is the smallest "
            "that separates them."
        )
    if methods[top] != methods[0]:
        doubts.append(
            f"{methods[0]} leads by mean rank and {methods[top]} by mean net flow: the change of "
            "a single weight is about the first, the change of all weights about the second."
        )
    return Dethronement(
        methods[0],
        None if best is None else pd.Series(best),
        methods[top],
        rival,
        distances,
        pd.Series(change, index=fusion.weights.columns),
        tuple(doubts),
    )


def _smallest_shift(deficit: float, gain: Array, room: Array) -> Array | None:
    """The change of weights that makes up a deficit at least cost; None where the room is not
    enough.

    Weight j earns gain[j] a unit and at most room[j] of it can be taken away.
    """
    target = int(gain.argmax())
    givers = np.argsort(gain, kind="stable")
    profit = gain[target] - gain[givers]
    earned = np.cumsum(profit * room[givers])
    change = np.zeros(len(gain))
    if deficit <= TIE:
        return change
    if earned[-1] < deficit:
        return None
    last = int(np.searchsorted(earned, deficit))
    change[givers[:last]] = -room[givers[:last]]
    change[givers[last]] = -(deficit - (earned[last - 1] if last else 0.0)) / profit[last]
    change[target] -= change.sum()
    return change


def rank_acceptability(
    fusion: Fusion, n_resamples: int = 10_000, seed: int = 0
) -> RankAcceptability:
    """How often each method takes each overall rank when nothing is known about the weights.

    Weights are drawn uniformly from the simplex, one vector for all datasets; methods are ranked on
    every dataset and by the mean of these ranks. The fusion's own weights play no part.
    """
    at_least_one(n_resamples, "n_resamples")
    methods, measures = list(fusion.ranking.index), fusion.study.measures
    flows = _by_measure(fusion, methods)[0]
    m = len(methods)
    rng = np.random.default_rng(seed)
    counts, central = np.zeros((m, m)), np.zeros((m, len(measures)))
    step, block = max(CHUNK // m, 1), max(BLOCK // (m * len(measures)), 1)
    for first in range(0, n_resamples, step):
        weights = rng.dirichlet(np.ones(len(measures)), size=min(step, n_resamples - first))
        mean = np.concatenate(
            [_mean_ranks(weights[i : i + block], flows) for i in range(0, len(weights), block)]
        )
        best, worst = tied_places(mean)
        counts += place_shares(best, worst)
        central += np.where(best == 0, 1 / (worst - best + 1), 0).T @ weights
    with np.errstate(invalid="ignore", divide="ignore"):
        central /= counts[:, :1]
    return RankAcceptability(
        pd.DataFrame(counts / n_resamples, methods, pd.RangeIndex(1, m + 1, name="rank")),
        pd.DataFrame(central, methods, measures),
        n_resamples,
        seed,
    )


def _mean_ranks(weights: Array, flows: Array) -> Array:
    """Draws x methods: ranks under each vector of weights, averaged over datasets x methods x
    measures.
    """
    return np.sum([tied_ranks(-weights @ on.T) for on in flows], axis=0) / len(flows)


def leave_one_out(fusion: Fusion) -> LeaveOneOut:
    """Whether the order of at least three methods depends on the presence of a third one (rank
    reversal).

    Each method is left out in turn and everything is computed again: thresholds, weights, flows,
    ranks. Cells that a policy filled keep their values.
    """
    methods = list(fusion.ranking.index)
    if len(methods) < 3:
        raise ValueError(
            f"`fusion` must hold at least three methods to leave one out, got {len(methods)}."
        )
    before, flows, options = (
        fusion.ranking["rank"].to_numpy(),
        fusion.flows.by_measure,
        fusion.options,
    )
    order = flows.methods.get_indexer(methods)
    ranks, leaders, reversals = np.full((len(methods),) * 2, np.nan), [], []
    for i, gone in enumerate(order):
        weighed = flows.without(gone).weigh(options["weights"], options["drop_constant"])
        rank = np.insert(tied_ranks(weighed.ranks.mean(axis=0)), gone, np.nan)
        leaders.append(int(np.nanargmin(rank)))
        ranks[i] = rank[order]
        there = np.delete(np.arange(len(methods)), i)
        ahead, behind = _turned(before[there], ranks[i, there])
        reversals.append((np.full(len(ahead), i), there[ahead], there[behind]))
    names = pd.Index(methods)
    places = zip(("left_out", "ahead", "behind"), zip(*reversals, strict=True), strict=True)
    turned = {key: names[np.concatenate(at)] for key, at in places}
    winners = pd.Series(flows.methods[leaders], names)
    lost = ranks[:, 0] > np.nanmin(ranks, axis=1)
    return LeaveOneOut(
        pd.DataFrame(ranks, names, names), pd.DataFrame(turned), winners, winners[lost].to_dict()
    )


def _turned(before: Array, after: Array) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Places (i, k) of all pairs with before[i] < before[k], rising, and after[i] > after[k]; row
    by row.
    """
    least = np.minimum.accumulate(after[::-1])[::-1]
    reach = np.searchsorted(least, np.maximum.accumulate(after)) - np.arange(len(after))
    turned = [
        np.flatnonzero((before[:-k] < before[k:]) & (after[:-k] > after[k:]))
        for k in range(1, int(reach.max(initial=1)))
    ]
    first = np.concatenate([*turned, np.zeros(0, np.intp)])
    second = first + np.repeat(np.arange(1, len(turned) + 1), [len(x) for x in turned])
    by_row = np.lexsort((second, first))
    return first[by_row], second[by_row]


def sensitivity(
    study: Study,
    preference: Preference = "v_shape",
    weights: Weights = "entropy",
    p: Threshold = None,
    q: Threshold = None,
    s: Threshold = None,
    drop_constant: bool = False,
    separates: Callable[[Study, WeighedFlows], list] | None = None,
) -> Sensitivity:
    """The ranking under every preference function, under equal and entropy weights, and under every
    policy for gaps.

    Functions and weights vary under the study's own policy (MissingResultsError where it has none
    for its empty cells); policies vary under the chosen function and weights. Given thresholds stay
    with the chosen function; the other functions take their default ones. The options are what was
    chosen, as in `fuse`. `separates` says which pairs are separated in a completed study with its
    flows.
    """
    chosen: dict[str, Any] = {
        "preference": preference,
        "weights": weights,
        "p": p,
        "q": q,
        "s": s,
        "drop_constant": drop_constant,
    }
    complete = study.complete()
    rows, separated = [], {}

    def examine(
        complete: Study, flows: WeighedFlows, varies: str, options: Mapping[str, Any], asked: bool
    ) -> None:
        rows.append(scenario := _scenario(study, complete, flows, varies, options, asked))
        if separates is not None:
            first = scenario.iloc[0]
            separated[varies, first["preference"], first["weights"], first["missing"]] = separates(
                complete, flows
            )

    examine(complete, fuse(complete, **chosen).flows, "function", chosen, True)
    for function in PREFERENCES:
        same = isinstance(preference, str) and function == preference
        flows = study_flows(complete, function, **({"p": p, "q": q, "s": s} if same else {}))
        for scheme in WEIGHTS:
            if not (same and isinstance(weights, str) and scheme == weights):
                named = {"preference": function, "weights": scheme}
                examine(complete, flows.weigh(scheme, drop_constant), "function", named, False)
    impossible: dict[str, str] = {}
    for policy in (
        [name for name in MISSING if name != "error"] if study.gaps() else [study.missing]
    ):
        try:
            other = study.complete(policy)
            examine(other, fuse(other, **chosen).flows, "policy", chosen, policy == study.missing)
        except (MissingResultsError, ValueError) as error:
            impossible[policy] = str(error)
    return Sensitivity(pd.concat(rows, ignore_index=True), impossible, separated)


def _scenario(
    study: Study,
    complete: Study,
    flows: WeighedFlows,
    varies: str,
    options: Mapping[str, Any],
    chosen: bool,
) -> pd.DataFrame:
    """Rows of the table of `sensitivity`, for every method of the study."""
    named = {
        name: options[name] if isinstance(options[name], str) else "given"
        for name in ("preference", "weights")
    }
    labels = {
        "varies": varies,
        **named,
        "missing": complete.missing,
        "n_datasets": len(complete.datasets),
        "chosen": chosen,
    }
    ranking = mean_ranking(pd.DataFrame(flows.ranks, columns=flows.by_measure.methods))[
        ["rank", "mean_rank"]
    ]
    return (
        ranking.reindex(study.methods)
        .rename_axis("method")
        .reset_index()
        .assign(**labels)[[*labels, "method", "rank", "mean_rank"]]
    )


# --------------------------------------------------------------------------------------------------
# What the lead in the fused ranking, and the separations of pairs, survive: other choices, and the
# absence of other methods.

#: Correlations above which measures are left out, to see what stays.
FILTERS = (0.9, 0.8, 0.7)
#: Statistics (pairs times sign changes) of a test under one other choice; of more methods than this
#: none is made.
MOST, METHODS = 10**8, 300
#: Mean ranks this close are equal.
EQUAL = 1e-9


@dataclass(frozen=True)
class Survivals:
    """What the lead survives: that the same method alone has the best mean rank when everything is
    computed again.

    Attributes
    ----------
    functions : Other combinations of preference function and weights that were tried; with a single measure, of function only.
    lost_functions : (function, weights) under which the lead is lost or shared.
    policies : Other policies for missing results that were tried.
    lost_policies : Those under which the lead is lost or shared, and whether the policy leaves the leader out.
    methods : Other methods that were left out, one at a time; None where that takes more methods.
    lost_methods : Those without which another method leads, and which.
    rivals : Who leads, alone or beside the leader, where the lead is lost.
    """  # noqa: E501

    functions: int
    lost_functions: list[tuple[str, str]]
    policies: int
    lost_policies: Mapping[str, bool]
    methods: int | None
    lost_methods: Mapping[str, str]
    rivals: list[str]


def survivals(
    sensitivity: Sensitivity, without: LeaveOneOut | None, leader: str, n_measures: int
) -> Survivals:
    """What the lead of `leader` survives; with a single measure weights change nothing and are not
    counted.
    """
    table = sensitivity.table
    table = table[~table["chosen"].astype(bool)]
    if n_measures == 1:
        table = table[
            (table["varies"] == "policy") | (table["weights"] == table["weights"].iloc[0])
        ]
    total = {"function": 0, "policy": 0}
    functions, policies, rivals = [], {}, []
    for (varies, function, weights, missing), part in table.groupby(
        ["varies", "preference", "weights", "missing"], sort=False
    ):
        rank = part.set_index("method")["mean_rank"].dropna()
        first = rank.index[rank <= rank.min() + EQUAL].tolist()
        total[varies] += 1
        if first == [leader]:
            continue
        if varies == "policy":
            policies[missing] = leader not in rank
        else:
            functions.append((function, weights))
        rivals += [m for m in first if m != leader]
    changes = {} if without is None else without.winner_changes
    n_others = None if without is None else len(without.ranks) - 1
    rivals = list(dict.fromkeys([*rivals, *changes.values()]))
    return Survivals(
        total["function"], functions, total["policy"], policies, n_others, changes, rivals
    )


@dataclass(frozen=True)
class Separations:
    """Which separations stay when one choice is another.

    Attributes
    ----------
    stays : Other choices x pairs (better, worse): whether the same test still separates them so; NaN where the choice leaves one
        of the two out. A choice is (what, which): ("function", "usual, equal"), ("policy",
        "drop-datasets"), ("filter", "0.8").
    leaders : By choice, who leads then.
    """  # noqa: E501

    stays: pd.DataFrame
    leaders: Mapping[tuple[str, str], list[str]]

    def of(self, pair: tuple[str, str]) -> tuple[int, int]:
        """Under how many of the other choices the separation of a pair stays, and how many there
        are.
        """
        stays = self.stays[pair].to_numpy()
        return int(np.nansum(stays)), int(np.count_nonzero(~np.isnan(stays)))


class Retest:
    """The deciding test made again on other flows of the same study, with the same options; gaps
    are left out as before.
    """

    def __init__(self, test: Posthoc, tested: Tested, finished: pd.DataFrame) -> None:
        self.test, self.tested, self.finished = test, tested, finished

    def __call__(self, study: Study, flows: WeighedFlows) -> list[tuple[str, str]]:
        """The separated pairs (better, worse)."""
        index, columns = pd.Index(study.datasets), pd.Index(study.methods)
        t = self.tested
        if (
            len(index) < 2
            or len(columns) < 2
            or (t.control is not None and t.control not in columns)
        ):
            return []
        phi, ranks = (pd.DataFrame(x, index, columns) for x in (flows.phi, flows.ranks))
        phi = phi.where(self.finished.reindex(index=index, columns=columns))
        wide = (
            float((phi.max(axis=1) - phi.min(axis=1)).max()) > t.bound
        )  # as other preference functions may make them
        again = replace(
            t, table=phi, ranks=ranks, flows=phi, most=MOST, bound=FLOWS if wide else t.bound
        )
        return list(self.test.run(again).significant_pairs)


def separations(
    retest: Retest,
    pairs: list[tuple[str, str]],
    sensitivity: Sensitivity,
    fusion: Fusion,
    correlation: pd.DataFrame | None,
) -> Separations:
    """Which of the pairs stay separated under the scenarios, and with fewer measures by the filter
    of their `correlation`.
    """
    asked = fusion.options["weights"]
    first = (
        asked if isinstance(asked, str) else "equal"
    )  # with one measure the weights change nothing
    variants: dict[tuple[str, str], tuple[list[tuple[str, str]], pd.Series]] = {}
    for (varies, function, weights, missing), part in sensitivity.scenarios.items():
        same = varies == "policy" or len(fusion.study.measures) > 1 or weights == first
        if not part["chosen"].all() and same:
            label = missing if varies == "policy" else f"{function}, {weights}"
            rank = part.set_index("method")["mean_rank"]
            variants[varies, label] = (
                sensitivity.separated[varies, function, weights, missing],
                rank,
            )
    for limit in FILTERS if correlation is not None else ():
        needed, _ = redundancy_filter(correlation, limit)
        fewer = fusion.refit(fusion.study.select(needed))
        variants["filter", f"{limit:g}"] = (
            retest(fewer.study, fewer.flows),
            fewer.ranking["mean_rank"],
        )
    rows = {}
    for choice, (apart, rank) in variants.items():
        there, stayed = set(rank.dropna().index), set(apart)  # asked once a pair
        rows[choice] = [float(pair in stayed) if there.issuperset(pair) else None for pair in pairs]
    stays = pd.DataFrame.from_dict(rows, orient="index", dtype=float)
    stays = stays.set_axis(pd.Index(pairs, tupleize_cols=False), axis=1) if rows else stays
    leaders = {
        choice: rank.index[rank <= rank.min() + EQUAL].tolist()
        for choice, (_, rank) in variants.items()
    }
    return Separations(stays, leaders)


# --------------------------------------------------------------------------------------------------
# What a reader of a comparison must know before believing it, in sentences; what could turn the
# answer comes first.

#: Of two measures one always has half of the weight; this much is worth a word.
OUTVOTES = 0.75


def collected(
    study: Study,
    fusion: Fusion,
    sure: Any,
    tests: Mapping[str, Any],
    warned: list[str],
    could_turn: list[str],
    counted: bool,
) -> tuple[str, ...]:
    """What a reader must know, what could turn the answer first; `counted`: missing results are
    failures.
    """
    of_training = [note for note in study.notes if note.startswith(TRAINING_DOUBT)]
    doubts = [*of_training, *could_turn]
    omnibus, decides = tests["friedman"], tests["deciding"]
    if (
        decides is not None
        and decides.result.significant_pairs
        and omnibus.best_pvalue > decides.result.alpha
    ):
        doubts.append(
            "Pairs are separated although the Friedman test over all methods finds no difference."
        )
    if study.filled:
        alone = decides is not None and not decides.test.by_mean_ranks and not counted
        doubts.append(_filled(study, alone))
    doubts += [*study.notes, *left_out(study.excluded), *_about_datasets(fusion)]
    doubts += [*(sure.dethrone.warnings if sure else ()), *warned]
    doubts += [
        text for text in getattr(omnibus, "warnings", ()) if omnibus.exact_pvalue is None
    ]  # which stands beside it
    doubts += [text for test, result in tests["posthoc"] for text in test.doubts(result)]
    return tuple(dict.fromkeys(doubts))


def _filled(study: Study, left_out: bool) -> str:
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


def leaning(
    study: Study, tested: Tested, made: Made | None, counted: bool
) -> list[tuple[str, str]]:
    """Separated pairs that max-T would not separate without the values that the policy gave to
    missing results.
    """
    if made is None or study.missing != "worst" or not (counted or made.test.by_mean_ranks):
        return []
    finished = study.finished().reindex_like(tested.table)
    filled = set(finished.columns[~finished.all()])
    pairs = [pair for pair in made.result.significant_pairs if filled & {*pair}]
    if not pairs:
        return []
    without = max_t(
        tested.flows.where(finished), tested.control, tested.alpha, seed=tested.seed
    ).significant_pairs
    return [pair for pair in pairs if pair not in without]


def _about_datasets(fusion: Fusion) -> list[str]:
    """What holds of measures on some datasets, a line each kind."""
    flows, datasets, measures = fusion.flows, fusion.ranks.index, fusion.weights.columns
    heavy = flows.weights > (DOMINANT if len(measures) > 2 else OUTVOTES)
    kinds = {
        "The same for all methods, so that it tells none apart": flows.by_measure.constant,
        "More than half of the weight, which outvotes all other measures": heavy
        if len(measures) > 1
        else heavy & False,
    }
    lines = []
    for what, holds in kinds.items():
        where = [
            f"{measure} on "
            f"{'every dataset' if 1 < len(datasets) == on.sum() else some(datasets[on])}"
            for measure, on in zip(measures, holds.T, strict=True)
            if on.any()
        ]
        if where:
            lines.append(
                f"{what}: "
                f"{'; '.join(where[:SHOWN])}{f'; and {len(where) - SHOWN} more' if len(where) > SHOWN else ''}."  # noqa: E501
            )
    return lines + [text for text in fusion.warnings if "all preferences are almost zero" in text]


def _with_equal_weights(
    fusion: Fusion, made: Made | None, ranks: pd.DataFrame, again: Retest | None
) -> list[str]:
    """What equal weights would change, as clauses: who leads, and which separations are gone."""
    equal = fusion.flows.by_measure.weigh("equal", fusion.options["drop_constant"])
    mean, now = pd.Series(equal.ranks.mean(axis=0), ranks.columns), ranks.mean()
    first, leaders = (x.index[x <= x.min() + 1e-9].tolist() for x in (mean, now))
    clauses = []
    if set(first) != set(leaders):
        clauses.append(f"{some(first)} {'leads' if len(first) == 1 else 'share the lead'}")
    pairs = [] if made is None or again is None else made.result.significant_pairs
    stay = set(again(fusion.study, equal)) if pairs and again is not None else set()
    if lost := [f"{a} from {b}" for a, b in pairs if (a, b) not in stay]:
        these = "this separation is" if len(lost) == 1 else "these separations are"
        clauses.append(f"{these} not there: {some(lost)}")
    return clauses


def turning(
    fusion: Fusion, made: Made | None, ranks: pd.DataFrame, again: Retest | None, lean: list[Any]
) -> list[str]:
    """Doubts that could turn the answer about all measures together: two methods, what weights
    favour, what was filled.
    """
    doubts, options, measures = [], fusion.options, fusion.weights.columns
    if len(ranks.columns) == 2 and not any(options[key] is not None for key in "pqs"):
        doubts.append(
            "With two methods the fused ranking counts the measures that each wins, by their "
            "weights; it says nothing of how large the differences are."
        )
    if options["weights"] == "entropy" and len(measures) > 1:
        turned = _with_equal_weights(fusion, made, ranks, again)
        if turned:
            heaviest, weight = fusion.weights.mean().idxmax(), fusion.weights.mean().max()
            doubts.append(
                "Weights by entropy favour measures that set a few methods far apart, here "
                f"{heaviest} most ({weight:.2g} of the weight; {1 / len(measures):.2g} if all "
                f"weighed the same). With equal weights {', and '.join(turned)}."
            )
    if lean:
        pairs = some(f"{a} from {b}" for a, b in lean)
        doubts.append(
            f"Separated only with the values that were given to missing results: {pairs}."
        )
    return doubts
