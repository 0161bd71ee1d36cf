"""The ranking; the measures and weights that make it, and how sure it is."""

import math
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping
from functools import partial
from itertools import repeat
from operator import ne
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.analysis.fusion import first_ranked
from mlflow_mleval.analysis.promethee import left_open
from mlflow_mleval.report import blocks as doc
from mlflow_mleval.report.blocks import ALWAYS, PAGE, Column, Data, Frames, listed, name
from mlflow_mleval.report.content.decision import PREFERENCES, counts_wins
from mlflow_mleval.report.figures import TOP
from mlflow_mleval.report.figures.comparisons import (
    bump,
    correlation_graph,
    gaia,
    rank_acceptability,
    rungs,
    shade,
    weight_intervals,
)
from mlflow_mleval.report.text import ARROWS, NONE, aligned, level, number, percent, terminal
from mlflow_mleval.selection import DIGEST
from mlflow_mleval.sentences import agree, count, span
from mlflow_mleval.validation import present

#: Methods whose pairs and flows by dataset the data hold; two thousand have four million pairs.
MOST = 100
METHODS = 300  #: rows of a table of methods
GROUPS = 10  #: of more, a method is told by how many others it is better and worse than
DOTS = 30  #: single runs or folds of a method that are drawn
STRIPS = DATASETS = 100  #: methods and columns of the table of ranks on each dataset
FLOWS = ["phi_plus", "phi_minus", "phi"]


def rows_of_best(
    c: Comparison, table: pd.DataFrame, a: str = "method_a", b: str = "method_b"
) -> pd.DataFrame:
    """The rows of a table of pairs of which both are among the best methods."""
    methods = c.fusion.ranking.index[:MOST]
    return table[table[a].isin(methods) & table[b].isin(methods)]


def only_best(total: int, what: str = "methods") -> str:
    """That a figure shows only the best, if so."""
    if total <= TOP:
        return ""
    return f" The best {TOP} of {total:,} {what} are shown; the JSON and CSV data hold all."


def section(c: Comparison) -> doc.Section:
    """What decides, with its interval, as a picture that is also the table; all else is data."""
    shown = c.ranking.head(METHODS)
    methods = shown["method"]
    columns = [doc.names("method", methods), *_score(c, shown), *_possible(c, shown)]
    if len(c.ranks) > 1 or c.told_apart:
        place = shown["position"].astype(str).tolist()
        columns.insert(0, Column("#", place, marks={"key": "position"}))
    if c.study.repeats is not None:
        by_method = c.study.n_repeats.groupby(level=1)
        ends = zip(by_method.min(), by_method.max(), strict=True)
        runs = dict(zip(by_method.groups, [span(*of, "–") for of in ends], strict=True))
        cells = [runs.get(m, NONE) for m in methods]
        note = "Runs: repeats behind each value."
        columns.append(Column("runs", cells, keep=2, note=note, marks={"key": "runs"}, wide=True))
    best = c.best_set if c.letters_apply or c.told_apart else []
    table = doc.Table(
        columns,
        len(c.ranking),
        key="ranking",
        things="methods",
        first=True,
        shaded=np.flatnonzero(methods.isin(best)).tolist(),
        shown=60,
        depth=ALWAYS,
        most=15,
    )
    return doc.Section("ranking", "Ranking", [table], open=True)


def datasets_section(c: Comparison) -> doc.Section | None:
    """Methods against datasets as a heat map: ranks where measures are fused, else values."""
    total = len(c.ranks)
    if total == 1:
        return None
    methods, datasets = c.order[:STRIPS], c.ranks.index[:DATASETS]
    ranks = c.ranks.loc[datasets, methods]
    what, values = "Rank", ranks
    if c.on != FUSED:
        what = doc.heading(c.study.directions, c.on)
        values = c.study.cells(c.on).loc[datasets, methods]
    note = "The stronger, the better on the dataset."
    if total > DATASETS:
        some = f"The first {DATASETS} of {total:,} datasets are shown"
        note += f" {some}; ranks_by_dataset.csv holds all."
    columns = [doc.names("method", methods, note=note)]
    for d in datasets:
        shown = [*map(number, ranks.loc[d])] if c.on == FUSED else aligned(values.loc[d])
        tones = [shade(rank, len(c.order)) for rank in ranks.loc[d]]
        filled, marks = [(d, m) in c.study.filled for m in methods], {"dataset": d}
        columns.append(doc.starred(name(d, 18), shown, filled, marks=marks, tones=tones))
    key = "ranks" if c.on == FUSED else "values"
    table = doc.Table(columns, len(c.order), key=key, things="methods", shown=12, depth=PAGE)
    return doc.Section("datasets", f"{what} on each dataset", [table], open=True)


def data(c: Comparison) -> Data:
    """What JSON holds of the ranking: all methods, and by dataset."""
    rows = c.by_dataset[["method", "rank", *FLOWS]].to_dict("records")
    flows, by = c.fusion.flows, c.fusion.flows.by_measure
    m = len(by.methods)
    kept = np.flatnonzero(by.methods.isin(c.fusion.ranking.index[:MOST]))
    names = by.methods[kept]

    def promethee(i: int) -> Data:
        """Of one dataset: flows by measure of the best methods, thresholds, and pairs that
        PROMETHEE I leaves open; made when asked for, for all together may be large."""
        net = pd.DataFrame((by.up[i] - by.down[i]).T[kept], names, by.measures)
        limits = zip(by.functions, by.limits[:, i].T.tolist(), strict=True)
        known = [{"preference": f.name, **dict(zip("qps", at, strict=True))} for f, at in limits]
        a, b = left_open(flows.plus[i, kept], flows.minus[i, kept])
        return {
            "unicriterion": net.to_dict("index"),
            "thresholds": dict(zip(by.measures, known, strict=True)),
            "incomparable": list(zip(names[a], names[b], strict=True)),
        }

    return {
        "ranking": c.ranking,
        "datasets": {d: rows[i * m : (i + 1) * m] for i, d in enumerate(c.ranks.index)},
        "promethee": {d: partial(promethee, i) for i, d in enumerate(c.ranks.index)},
    }


def frames(c: Comparison) -> Frames:
    return {"ranking": c.ranking, "ranks_by_dataset": c.by_dataset, "values": c.values_long}


def _possible(c: Comparison, shown: pd.DataFrame) -> list[Column]:
    """The ranks that the tests leave each method, if not all; for papers, who is told apart."""
    low, high = shown["low"], shown["high"]
    if c.options["control"] is not None or ((low == 1) & (high == len(c.order))).all():
        return []
    ranks = [*map(span, low, high, repeat("–"))]
    columns = [Column("ranks", ranks, note="Ranks: those that the tests leave.")]
    if not c.letters_apply or not c.separated:
        return columns
    if len(c.cliques) <= GROUPS:
        note = "Methods with a letter in common are not separated."
        letters = shown["letters"].tolist()
        return [*columns, Column("groups", letters, "<", note=note, paper=True, keep=2)]
    for side, head in enumerate(("better than", "worse than")):
        found = Counter(pair[side] for pair in c.separated)
        columns.append(Column(head, [str(found[m]) for m in shown["method"]], paper=True, keep=2))
    return columns


def _score(c: Comparison, shown: pd.DataFrame) -> list[Column]:
    """What the methods are in order of, as a picture and in numbers; of one measure, and of one
    dataset by the two of most weight, the means in its own units."""
    mean = "mean " if len(c.ranks) > 1 else ""
    by_method = shown.set_index("method")
    if c.options["order"] == "mean-rank":
        ranks = by_method["mean_rank"]
        number = doc.decimals(f"{mean}rank", ranks, 2, keep=3, marks={"key": "mean-rank"})
        return [_picture(c, ranks, f"{mean}rank, 1 is best"), number]
    if c.on == FUSED and mean:
        phi = by_method["phi"]
        note = "φ: how far it is preferred to the others, less how far they are to it."
        number = doc.decimals("φ", phi, 3, keep=3, note=note, marks={"key": "phi"})
        return [_picture(c, phi, f"{mean}net flow φ"), number]
    columns = []
    parts, what = c.study.repeats, "runs"
    if parts is None:
        parts, what = c.study.folds, "folds"
    for measure in [c.on] if c.on != FUSED else c.fusion.by_weight[:2]:
        values = c.study.cells(measure)[by_method.index]
        gaps = [any((d, m, measure) in c.study.imputed for d in values.index) for m in values]
        head = f"{mean}{doc.heading(c.study.directions, measure)}"
        single = {}
        if parts is not None:
            on_all = parts[measure].unstack(0).reindex(columns=c.ranks.index).dropna()
            means = on_all.mean(axis=1).groupby(level=0)
            single = {m: each.tolist() for m, each in means if m in c.ranks}
        columns.append(_picture(c, values.mean(), doc.plain(head), single, what))
        columns.append(doc.starred(head, aligned(values.mean()), gaps, keep=3))
    return columns


def _picture(
    c: Comparison,
    means: pd.Series,
    title: str,
    single: Mapping[str, list[float]] = MappingProxyType({}),
    what: str = "",
) -> Column:
    """A dot a method with the interval of the deciding test, or the range of its repeats on one
    dataset; `single` has its runs or folds, on several datasets means of those that are on all."""
    table = pd.DataFrame({"mean": means, "low": np.nan, "high": np.nan})
    several = len(c.ranks) > 1
    notes = ["Shaded: may be the best."] if c.letters_apply or c.told_apart else []
    if single and not several and what == "runs":
        values = pd.Series(single)
        table["low"], table["high"] = values.map(min), values.map(max)
        notes.append("Lines: the least to the largest of its runs.")
    elif (found := c.comparison_intervals) is not None:
        table = found.loc[means.index]
        if np.allclose(-table["mean"], means):  # smaller values of the measure are better
            table = -table[["mean", "high", "low"]].set_axis(["mean", "low", "high"], axis=1)
        if not np.allclose(table["mean"], means):  # in other units, where dots have no place
            single, of_ranks = {}, np.allclose(table["mean"], c.ranks.mean()[means.index])
            title = "mean rank, 1 is best" if of_ranks else f"{title}, as a share of its range"
        test = f"the deciding test (α = {level(c.options['alpha'])})"
        notes.append(f"Where two lines lie apart, {test} tells the methods apart, or nearly so.")
    dots = {m: values for m, values in single.items() if len(values) <= DOTS}
    if dots:
        over = " on average over the datasets" if several else ""
        notes.append(f"Small dots: its {what}{over}.")
    cells, axis, scale = rungs(table, title, "φ" in title, dots)
    marks = {"key": "picture", "of": "rank" if "rank" in title else "phi"}
    marks |= {"low": str(scale.low), "high": str(scale.high)}
    return Column(axis, cells, "<", note=" ".join(notes), marks=marks)


# --------------------------------------------------------------------------------------------------
# Repeats: how many runs each value is the mean of, and how they scatter.

SPREAD_METHODS = 100  #: rows of a table
_SPLITS = {
    True: (
        "The repeats share their split of the data, so that their spread is the training's, not "
        "the data's."
    ),
    False: (
        "The repeats split the data in different ways, so that their spread is that of training "
        "and data together."
    ),
    None: (
        "How the repeats split the data is not recorded; on one split, their spread is the "
        "training's, not the data's."
    ),
}


def spread_section(c: Comparison) -> doc.Section | None:
    """Mean, standard deviation and number of runs of each cell, where any method has several."""
    study, methods = c.study, c.order[:SPREAD_METHODS]
    if study.repeats is None or study.n_repeats.max() < 2:
        return None

    def blocks() -> list[Any]:
        measure = c.on if c.on != FUSED else c.fusion.by_weight[0]
        columns = [doc.names("method", methods)]
        for keep, dataset in zip(range(len(study.datasets), 0, -1), study.datasets, strict=True):
            at = [(dataset, m) for m in methods]
            texts = aligned([*study.values[measure][at], *study.spread[measure].reindex(at)])
            shown = [
                mean if sd == NONE else f"{mean} ± {sd} ({study.n_repeats[cell]})"
                for mean, sd, cell in zip(texts[: len(at)], texts[len(at) :], at, strict=True)
            ]
            columns.append(Column(name(dataset, 18), shown, keep=keep, marks={"dataset": dataset}))
        title = f"{name(measure)} over repeats"
        note = "Mean ± standard deviation (number of runs)."
        table = doc.Table(columns, len(c.order), title, key="repeats", things="methods", note=note)
        # what the values are means of, and in what the runs of one value differ
        several = study.runs[study.runs.duplicated(["dataset", "method"], keep=False)]
        unchecked = "repeat" in several and (several["repeat"] == "").any()
        rules = study.repeat_rules
        differ = f" that differ in their seed{f' or {listed(rules)}' if rules else ''} only"
        if unchecked or study.source.get("duplicates") == "mean":
            differ = ""
        elif DIGEST in rules:
            differ = " on different splits of the data"
        total = count(int(study.n_repeats.sum()), "run")
        each = span(int(study.n_repeats.min()), int(study.n_repeats.max()))
        words = f"Each value is the mean over {each} runs{differ} ({total})."
        return [doc.Text([f"{words} {_SPLITS[study.same_split()]}"]), table]

    return doc.Section("repeats", "Repeats", doc.Late(blocks))


def spread_data(c: Comparison) -> Data:
    """What JSON holds of repeats, by dataset and method."""
    held = {
        "repeats": c.study.n_repeats,
        "spread": c.study.spread,
        "standard_errors": c.study.standard_errors,
    }
    made: Data = {}
    for key, cells in held.items():
        made[key] = {d: cells.loc[d].T.to_dict() for d in cells.index.unique(0)}
    return {**made, "same_split": c.study.same_split()}


def spread_frames(c: Comparison) -> Frames:
    """One row a measure, dataset and method."""
    if c.study.repeats is None:
        return {}
    cells = c.study.repeats.groupby(level=[0, 1], sort=False)
    errors = {"sd": c.study.spread, "standard_error": c.study.standard_errors}
    parts = {"runs": cells.count(), "mean": cells.mean(), **errors}
    stacked = pd.concat(parts, axis=1, names=["", "measure"]).stack("measure", future_stack=True)
    return {"repeats": stacked.reset_index()[["measure", "dataset", "method", *parts]]}


# --------------------------------------------------------------------------------------------------
# Weights that a reader moves on a page: what it needs so that ranks and the decision axis follow.

SLIDERS_FLOWS = 100_000  #: more (datasets x measures x methods) make a page heavy
SLIDERS_METHODS = 100  #: so do these
SLIDERS_MEASURES = 60  #: more than these no hand moves
#: A slider has so many steps; the weight is the largest one times the square of the way along it,
#: so that small weights can be told apart and one measure can weigh as much as twice all others
#: together.
STEPS = 200
LEAST = 1e-6  #: weight that a slider starts at: a command takes positive weights only


def weights_section(c: Comparison) -> doc.Section | None:
    """Weights that a reader may move, a slider and a switch for each of several measures, or why
    there are none; nothing where there is nothing to weigh."""
    measures = c.study.measures
    if c.on != FUSED or len(measures) < 2 or len(c.ranks) == 1:
        return None

    def blocks() -> list[Any]:
        here = (len(c.order), len(measures), c.fusion.flows.by_measure.net.size)
        most = (SLIDERS_METHODS, SLIDERS_MEASURES, SLIDERS_FLOWS)
        if any(n > limit for n, limit in zip(here, most, strict=True)):
            takes = "at most {:,} methods, {:,} measures and {:,} net flows".format(*most)
            return [doc.note(f"The weights cannot be moved on this page: that takes {takes}.")]
        given = c.fusion.options["weights"]  # else the means over datasets, of so many digits
        if isinstance(given, Mapping):
            starts = [float(given[m]) for m in measures]
        else:
            equal = np.full(len(measures), 1 / len(measures))
            mean = c.fusion.weights.mean() if given == "entropy" else equal
            starts = [max(float(f"{w:.4g}"), LEAST) for w in mean]
        largest = max(1.5 * max(starts), 2 * (len(starts) - 1) * sum(starts) / len(starts))
        largest = float(f"{largest:.3g}")
        shown = [
            {
                **{"measure": name(m, 24), "arrow": ARROWS[c.study.directions[m]]},
                "step": max(1, round(STEPS * math.sqrt(start / largest))),
            }
            for m, start in zip(measures, starts, strict=True)
        ]
        about = "Move a slider, or switch a measure off: the ranking follows."
        if _by_dataset(c):
            about += (
                " They start at the datasets' mean weights; once moved, weights hold everywhere."
            )
        held = {**_data(c), "starts": starts, "most": largest}
        return [doc.Sliders(about, shown, STEPS, held)]

    title = "What if the measures had other weights?"
    return doc.Section("what-if", title, doc.Late(blocks), open=False)


def _by_dataset(c: Comparison) -> bool:
    """Whether the weights follow from the values on each dataset."""
    return c.fusion.options["weights"] == "entropy" and bool((c.fusion.weights.nunique() > 1).any())


def _data(c: Comparison) -> Mapping[str, Any]:
    """Net flows and weights in full precision: ranks and ties are those of the report."""
    flows, study = c.fusion.flows, c.study
    alike = (flows.weights == flows.weights[0]).all()
    constant = flows.by_measure.constant.astype(int).tolist()
    axis = None if c.plane is None else c.plane.measures.loc[study.measures].to_numpy().tolist()
    held = flows.by_measure.net, flows.weights[:1] if alike else flows.weights
    net, weights = (
        b64encode(np.ascontiguousarray(values, "<f8").tobytes()).decode() for values in held
    )
    return {
        "methods": [terminal(doc.plain(name(m))) for m in study.methods],
        "rows": [study.methods.index(m) for m in c.order],
        "datasets": [*map(terminal, study.datasets)],
        "measures": [*map(terminal, study.measures)],
        "flows": net,
        "weights": weights,
        "constant": constant if c.options["drop_constant"] else None,
        "axis": axis,
        "by_rank": c.options["order"] == "mean-rank",
        "named": isinstance(c.fusion.options["weights"], str),
        "by_dataset": _by_dataset(c),
    }


# --------------------------------------------------------------------------------------------------
# The measures: their weights, which of them say the same, and who leads by each.


def measures_section(c: Comparison) -> doc.Section:
    """What the measures contribute; with a single measure only its table."""
    r = c.redundancy

    def blocks() -> list[Any]:
        left: list[Any] = []
        if r is None:
            why = c.absent.get("redundancy", "not asked for")
            left.append(doc.note(f"Redundancy was not examined: {why}."))
        elif r.dropped.empty:
            left.append(doc.note(f"No two measures correlate above {r.max_correlation:g}."))
        else:
            svg = correlation_graph(r.correlation, r.max_correlation, r.groups, r.kept)
            caption = (
                f"Joined: measures that correlate above {r.max_correlation:g} over methods, "
                "averaged over datasets. Kept: filled dots."
                f"{only_best(len(r.correlation), 'measures')}"
            )
            left.append(doc.Figure(svg, caption, title="Measures that say the same"))
            left.append(_without(c))
        plane = []
        if (found := c.plane) is not None:
            order = c.fusion.ranking.index
            caption = (
                "Methods (dots) do well by the measures (arrows) in their direction; the heavy "
                "line, the decision axis, points to the better. The plane shows "
                f"{found.explained:.0%} of the differences in mean net flow."
            )
            if found.explained < 0.6:
                caption += " Less than 60%: do not read distances from it."
            caption += only_best(len(order))
            axis = (float(found.axis["x"]), float(found.axis["y"]))
            drawn = gaia(found.methods.loc[order], found.measures, axis, found.explained)
            plane = [doc.Figure(drawn, caption, title="GAIA plane")]
        return [_by_measure(c), doc.Beside(left, plane)]

    return doc.Section("measures", "Measures", doc.Late(blocks))


def measures_data(c: Comparison) -> Data:
    r = c.redundancy
    return {
        "weights": c.fusion.weights.to_dict(orient="index"),
        "measures": c.measures.reset_index(),
        "concordance": c.concordance.to_dict(orient="index"),
        "redundancy": r
        and {
            "threshold": r.max_correlation,
            **doc.named(r, "kept", "dropped", "groups"),
            "correlation": r.correlation.to_dict(orient="index"),
            "ranking": r.ranking.rename_axis("method").reset_index(),
        },
    }


def measures_frames(c: Comparison) -> Frames:
    return {"weights": c.weights_long, "measures": c.measures.reset_index()}


def _by_measure(c: Comparison) -> doc.Table:
    found = c.measures
    columns = [
        doc.names("measure", found.index),
        doc.better(c.study.directions[m] for m in found.index),
        doc.decimals("weight", c.fusion.weights.mean()[found.index], 3),
        doc.names("leader", found["leader"].fillna(""), "method"),
        doc.decimals("τ with fused", c.concordance.loc[FUSED, found.index], 2),
    ]
    note = "Who leads by each alone; nobody where several tie. τ: Kendall's, with the fused one."
    return doc.Table(columns, title="Each measure by itself", note=note, depth=PAGE)


def _without(c: Comparison) -> doc.Table:
    r = present(c.redundancy)
    shown = r.ranking.iloc[:TOP]
    columns = [
        doc.names("method", shown.index),
        doc.numbers("place", shown["rank"]),
        doc.numbers("place without", shown["rank_without"]),
    ]
    title = f"The ranking by the {count(len(r.kept), 'measure')} that the filter keeps"
    return doc.Table(columns, len(r.ranking), title=title, things="methods", depth=PAGE)


# --------------------------------------------------------------------------------------------------
# How sure the ranking is: other weights, preference functions and policies, methods left out.


def sensitivity_section(c: Comparison) -> doc.Section | None:
    """The fused ranking under other choices; not of one dataset, which is told in its own units."""
    if c.stability is None or len(c.study.datasets) == 1:
        return None

    def blocks() -> list[Any]:
        fused = doc.Text(["All of this is about the fused ranking."], depth=PAGE)
        stability = present(c.stability)
        found, smallest = stability.intervals, "No single weight would cost the lead."
        leaders = first_ranked(c.fusion.ranking["rank"])
        if (change := stability.smallest_change) is not None:
            rival, measure = name(change["rival"]), name(change["measure"])
            to = percent(float(change["to"]))
            smallest = f"{rival} reaches the lead first, once {measure} has {to}."
        stay = agree(leaders, "stays")
        caption = (
            f"Bar: {listed(leaders, 12)} {stay} in the lead, the other weights rescaled. "
            "Tick: the weight now. "
            f"{smallest}{only_best(len(found), 'measures')}"
        )
        title = "How far each weight may move"
        intervals = doc.Figure(weight_intervals(found), caption, title=title)
        shares = stability.acceptability
        caption = (
            f"Shares of {stability.n_resamples:,} random weightings (seed {stability.seed}), "
            f"rank 1 at the left.{only_best(len(shares))}"
        )
        drawn = rank_acceptability(shares)
        acceptability = doc.Figure(drawn, caption, title="Ranks under random weights")
        weights = [intervals, acceptability] if len(c.study.measures) > 1 else []
        return [*([] if c.on == FUSED else [fused]), doc.Beside(weights, [_scenarios(c)])]

    return doc.Section("stability", "Stability", doc.Late(blocks))


def sensitivity_data(c: Comparison) -> Data:
    found = c.stability
    if found is None:
        return {"stability": None}
    left, shares, kept = found.leave_one_out, found.acceptability, found.separations
    separations = None
    if kept is not None:  # by pair, under how many choices it stays, and under which it does not
        fails = kept.stays.to_numpy(float) == 0
        tried = [{"varies": kind, "choice": which} for kind, which in kept.stays.index]
        separations = [
            {
                **{"better": better, "worse": worse, "stays": stays, "choices": choices},
                "lost": [tried[j] for j in np.flatnonzero(fails[:, i])],
            }
            for i, ((better, worse), (stays, choices)) in enumerate(kept.counts.items())
        ]
    return {
        "stability": {
            "intervals": {
                "leaders": first_ranked(c.fusion.ranking["rank"]),
                "measures": found.intervals.rename_axis("measure").reset_index(),
            },
            "smallest_change": found.smallest_change,
            "separations": separations,
            "acceptability": {
                "n_draws": found.n_resamples,
                "seed": found.seed,
                "shares": {m: row.tolist() for m, row in shares.iloc[:MOST, :MOST].iterrows()},
            },
            "leave_one_out": left
            and {
                "winner_changes": left.winner_changes,
                "reversals": rows_of_best(c, left.reversals, "ahead", "behind"),
                "ranks": left.ranks.iloc[:MOST, :MOST].to_dict(orient="index"),
            },
            "sensitivity": {
                "scenarios": found.sensitivity.table,
                "impossible": found.sensitivity.impossible,
            },
        }
    }


def _scenarios(c: Comparison) -> doc.Figure | doc.Text:
    order, (chosen, *others) = c.fusion.ranking.index, c.scenarios
    near = [one for one in others if sum(map(ne, one.key[1:], chosen.key[1:])) == 1]
    ranks = {}
    for one in (chosen, *near):
        shown = PREFERENCES.get(one.preference, one.preference)
        if one.varies == "policy":
            label = one.missing
        elif one is chosen:
            label = f"{shown}, {one.weights}"
        else:
            label = shown if one.preference != chosen.preference else f"{one.weights} weights"
        ranks[label] = one.ranking["rank"]
    drawn = pd.DataFrame(ranks).reindex(order)
    if counts_wins(c) and (drawn.nunique(axis=1) == 1).all():
        return doc.note(
            "Other preference functions and weights rank two methods alike: all count the "
            "measures that each wins."
        )
    caption = (
        "Places under the choices of this report (left) and with one changed. Coloured: first "
        f"somewhere.{only_best(len(order))}"
    )
    if drawn.isna().any(axis=None):
        caption += " A line breaks where a policy drops the method."
    return doc.Figure(bump(drawn), caption, title="The ranking under other choices")
